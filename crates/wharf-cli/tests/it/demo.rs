//! Demo server over stdio.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

struct Demo {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    next_id: u64,
}

impl Demo {
    fn start() -> Demo {
        let mut child = Command::new(env!("CARGO_BIN_EXE_wharf"))
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the demo starts");
        let stdin = child.stdin.take().expect("piped");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        Demo { child, stdin, stdout, next_id: 0 }
    }

    fn call(&mut self, method: &str, mut params: Value) -> Value {
        self.next_id += 1;
        let meta = &mut params["_meta"];
        meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        meta["io.modelcontextprotocol/logLevel"] = json!("info");
        meta["io.modelcontextprotocol/clientCapabilities"] =
            json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}});
        let id = self.next_id;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(self.stdin, "{request}").expect("the demo reads");
        loop {
            let mut line = String::new();
            self.stdout.read_line(&mut line).expect("the demo answers");
            let message: Value = serde_json::from_str(&line).expect("a message");
            if message["id"] == id {
                return message["result"].clone();
            }
        }
    }

    fn tool(&mut self, name: &str, arguments: Value) -> Value {
        self.call("tools/call", json!({"name": name, "arguments": arguments}))
    }

    /// Calls a tool that sends the client request `method` under `key`, and answers the request.
    fn ask(&mut self, name: &str, arguments: Value, key: &str, answer: &Value) -> Value {
        let asked = self.tool(name, arguments.clone());
        assert!(asked["inputRequests"][key].is_object(), "{asked}");
        let params = json!({
            "name": name,
            "arguments": arguments,
            "inputResponses": {key: answer},
            "requestState": asked["requestState"],
        });
        self.call("tools/call", params)
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

#[test]
fn simple_tools_return_their_results() {
    let mut demo = Demo::start();
    for (name, arguments, expected) in [
        ("add", json!({"a": 2, "b": 3}), "5"),
        ("echo", json!({"text": "hello"}), "hello"),
        ("countdown", json!({"from": 2}), "lift-off"),
        ("sleep", json!({"seconds": 0.01}), "slept"),
        ("touch", json!({}), "touched"),
        ("set_bonus", json!({"on": true}), "on"),
        ("bonus", json!({}), "a bonus"),
        ("set_bonus", json!({"on": true}), "on"),
        ("set_bonus", json!({"on": false}), "off"),
        ("set_bonus", json!({"on": false}), "off"),
    ] {
        assert_eq!(text(&demo.tool(name, arguments)), expected, "{name}");
    }
    let weather = demo.tool("weather", json!({"city": "Oslo"}));
    assert_eq!(weather["structuredContent"]["city"], "Oslo");
    let gallery = demo.tool("gallery", json!({}));
    assert_eq!(gallery["content"].as_array().map(Vec::len), Some(5));
    let failed = demo.tool("fail", json!({"reason": "rain"}));
    assert_eq!((text(&failed), &failed["isError"]), ("rain", &json!(true)));
}

#[test]
fn tools_that_ask_use_the_answer() {
    let mut demo = Demo::start();
    let build = || json!({"build": "42"});
    let accept = |confirmed| json!({"action": "accept", "content": {"confirmed": confirmed}});
    assert_eq!(text(&demo.ask("deploy", build(), "confirm", &accept(true))), "deployed 42");
    assert_eq!(text(&demo.ask("deploy", build(), "confirm", &accept(false))), "kept");
    for (action, word) in [("decline", "declined"), ("cancel", "cancelled")] {
        let result = demo.ask("deploy", build(), "confirm", &json!({"action": action}));
        assert_eq!(result["isError"], true);
        assert!(text(&result).contains(word), "{result}");
    }
    let poem = json!({
        "role": "assistant", "model": "m", "content": {"type": "text", "text": "Tar and rope."}
    });
    let result = demo.ask("poem", json!({"topic": "tar"}), "poem", &poem);
    assert_eq!(text(&result), "Tar and rope.");
    let result = demo.ask("sign_in", json!({}), "sign_in", &json!({"action": "accept"}));
    assert_eq!(text(&result), "signed in");
    let roots = json!({"roots": [{"uri": "file:///a"}, {"uri": "file:///b"}]});
    let result = demo.ask("workspace", json!({}), "roots", &roots);
    assert_eq!(text(&result), "file:///a\nfile:///b");
}

#[test]
fn resources_and_prompts_are_there() {
    let mut demo = Demo::start();
    for (uri, field, expected) in [
        ("demo://readme", "mimeType", "text/markdown"),
        ("demo://logo", "mimeType", "image/png"),
        ("demo://clock", "mimeType", "text/plain"),
        ("demo://notes/shopping", "text", "Note shopping"),
        ("demo://files/a/b", "text", "File a/b"),
    ] {
        let read = demo.call("resources/read", json!({"uri": uri}));
        assert_eq!(read["contents"][0][field], expected, "{uri}");
    }
    for (name, arguments, expected) in [
        ("greet", json!({"name": "Ann"}), "Say hello to Ann."),
        ("review", json!({"code": "x"}), "Review this code:\nx"),
        ("review", json!({"code": "x", "language": ""}), "Review this code:\nx"),
        ("review", json!({"code": "x", "language": "rust"}), "Review this rust code:\nx"),
    ] {
        let prompt = demo.call("prompts/get", json!({"name": name, "arguments": arguments}));
        assert_eq!(prompt["messages"][0]["content"]["text"], expected);
    }
    let discovery = demo.call("server/discover", json!({}));
    let capabilities = &discovery["capabilities"];
    assert_eq!(capabilities["tools"]["listChanged"], true);
    assert_eq!(capabilities["resources"], json!({"subscribe": true, "listChanged": true}));
    assert_eq!(capabilities["prompts"]["listChanged"], true);
    assert!(capabilities["completions"].is_object() && capabilities["logging"].is_object());
    assert!(discovery["instructions"].is_string());
}

#[test]
fn connection_instructions_go_to_stderr() {
    let output = Command::new(env!("CARGO_BIN_EXE_wharf"))
        .args(["serve", "--log-format", "text"])
        .stdin(Stdio::null())
        .output()
        .expect("the demo runs");
    assert!(output.status.success());
    assert_eq!(output.stdout, b"");
    let told = String::from_utf8_lossy(&output.stderr);
    let configuration = told.lines().last().expect("it says something").trim();
    let configuration: Value = serde_json::from_str(configuration).expect("ready to paste");
    let entry = &configuration["mcpServers"]["wharf-demo"];
    assert_eq!(entry["command"], env!("CARGO_BIN_EXE_wharf"));
    assert_eq!(entry["args"][0], "serve");
}

#[cfg(target_os = "linux")]
#[test]
fn a_closed_stderr_is_not_an_error() {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("linux has it");
    let mut child = Command::new(env!("CARGO_BIN_EXE_wharf"))
        .arg("serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(full)
        .spawn()
        .expect("the demo starts");
    let ping = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    let mut stdin = child.stdin.take().expect("piped");
    // If the demo server has ended, the write fails and no reply arrives.
    let _ = stdin.write_all(ping);
    drop(stdin);
    let output = child.wait_with_output().expect("the demo ends");
    assert!(output.status.success(), "{}", output.status);
    assert_eq!(output.stdout, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
}

#[test]
fn an_address_that_cannot_be_bound_is_named() {
    for place in [["--unix", "/nowhere/at/all"], ["--tcp", "0.0.0.0:0"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_wharf")).arg("serve").args(place).output();
        let output = output.expect("the binary runs");
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).contains(place[1]), "{output:?}");
    }
}

#[test]
fn the_command_line_explains_itself() {
    for (option, expected) in [("--help", "serve"), ("--version", env!("CARGO_PKG_VERSION"))] {
        let output = Command::new(env!("CARGO_BIN_EXE_wharf")).arg(option).output();
        let output = output.expect("the binary runs");
        assert!(String::from_utf8_lossy(&output.stdout).contains(expected), "{option}");
    }
}
