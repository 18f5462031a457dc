//! Exit codes, and the split between stdout and stderr.

use std::{
    io::{Read, Write},
    net::TcpListener,
    process::Stdio,
    sync::Arc,
    thread,
    time::Duration,
};

use serde_json::Value;

use crate::cli::{
    sandbox::{DemoServer, Sandbox, WHARF, ended, lines, rest},
    scripted_server::{Pauses, Script, http_reply, regular_reply, slow_server},
};

#[test]
fn invalid_usage_exits_with_1() {
    let sandbox = Sandbox::new("usage");
    for words in [
        vec!["frobnicate"],
        vec!["list", "--nonsense", "x"],
        vec!["list"],
        vec!["list", "--era", "1999-01-01", "x"],
        vec!["list", "--timeout", "0", "x"],
        vec!["list", "--header", "nonsense", "x"],
        vec!["list", "--log-level", "loud", "x"],
        vec!["list", "ftp://example.com"],
        vec!["list", "no-such-entry"],
        vec!["list", "./no-such-file"],
        vec!["list", "--header", "a: b", "--", WHARF, "serve"],
        vec!["list", "--root", "/no/such/folder", "--", WHARF, "serve"],
    ] {
        let error = sandbox.run(&words).error(1);
        assert!(error["message"].as_str().is_some_and(|it| !it.is_empty()), "{words:?}");
    }
}

/// Starts a server that sends `answer` to every request, until the test ends.
fn answering(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    url
}

#[test]
fn missing_authorization_exits_with_3() {
    let sandbox = Sandbox::new("authorization");
    for status in ["401 Unauthorized", "403 Forbidden"] {
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        let url = answering(answer.leak());
        sandbox.run(&["list", &url]).error(3);
    }
}

#[test]
fn an_unreachable_server_exits_with_4() {
    let sandbox = Sandbox::new("unreachable");
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for target in
        [format!("http://{nobody}/mcp"), format!("tcp://{nobody}"), format!("ws://{nobody}")]
    {
        let error = sandbox.run(&["list", &target]).error(4);
        assert_eq!(error["kind"], "transport_error", "{target}");
    }
    sandbox.run(&["list", "--", "no-such-program"]).error(4);
    let error = sandbox.run(&["list", "--", "sh", "-c", "echo out of tar >&2; exit 7"]).error(4);
    assert!(error["message"].as_str().unwrap().contains("out of tar"), "{error}");
    let error = sandbox.run(&["list", "--timeout", "0.2", "--", "sleep", "100"]).error(4);
    assert_eq!(error["kind"], "request_timeout", "{error}");
}

#[test]
fn a_kind_in_place_of_the_server_is_reported_with_the_right_order() {
    let sandbox = Sandbox::new("order");
    let error = sandbox.run(&["list", "tools", "http://127.0.0.1:1/mcp"]).error(1);
    assert_eq!(error["message"], "`tools` is not a server");
    let hint = error["hint"].as_str().unwrap();
    assert!(hint.contains("`wharf list http://127.0.0.1:1/mcp tools`"), "{hint}");
}

#[test]
fn a_404_error_suggests_the_usual_path() {
    let sandbox = Sandbox::new("wrong-path");
    let served = DemoServer::http(&sandbox);
    let error = sandbox.run(&["list", &served.url.replace("/mcp", "/wrong")]).error(4);
    assert!(error["hint"].as_str().is_some_and(|it| it.contains("/mcp")), "{error}");
}

#[test]
fn a_tool_error_exits_with_5_and_prints_its_result() {
    let sandbox = Sandbox::new("tool");
    let ran = sandbox.demo(&["call", "fail", "reason=rain"]);
    let result: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(result["isError"], true);
    let error = ran.printed_error(5);
    assert_eq!(
        (&error["kind"], &error["message"]),
        (&"tool_execution_failed".into(), &"rain".into())
    );
    let error = sandbox.demo(&["read", "demo://nothing"]).error(5);
    assert_eq!(error["kind"], "resource_not_found");
    sandbox.demo(&["call", "sleep", "seconds=-1"]).printed_error(5);
}

#[test]
fn a_call_that_takes_too_long_is_given_up() {
    let sandbox = Sandbox::new("timeout");
    let error = sandbox.demo(&["call", "sleep", "seconds=600", "--timeout", "0.3"]).error(4);
    assert_eq!(error["kind"], "request_timeout");
    assert!(error["hint"].as_str().unwrap().contains("--timeout"));
}

/// A server that never responds, and one that sends progress: the timeout applies to the whole command.
#[test]
fn the_timeout_covers_the_whole_command() {
    let sandbox = Sandbox::new("whole-timeout");
    let server =
        r#"read line; read line; case "$line" in *initialize*) ;; *) read line;; esac; sleep 600"#;
    for verb in [vec!["list"], vec!["call", "t"]] {
        let words = [verb, vec!["--timeout", "0.5", "--", "sh", "-c", server]].concat();
        let error = sandbox.run(&words).error(4);
        assert_eq!(error["kind"], "request_timeout", "{error}");
    }
    // Progress does not extend the timeout.
    let words = ["call", "countdown", "from=600", "--timeout", "2"];
    let error = sandbox.demo(&words).error(4);
    assert!(error["message"].as_str().unwrap().contains("took longer than 2s"), "{error}");
}

/// Every part of the command takes less than the timeout, and all parts take more: slow replies, slow bodies, and
/// endless pages and redirects.
#[test]
fn the_timeout_is_for_all_parts_of_the_command_together() {
    let sandbox = Sandbox::new("sum-of-parts");
    let part = Duration::from_millis(600);
    let redirect = |asked: &Value, number: usize| {
        let heads = format!("Location: /mcp/{number}\r\nContent-Length: 0\r\n");
        (asked["method"] == "tools/list").then(|| format!("HTTP/1.1 307 Moved\r\n{heads}\r\n"))
    };
    let page = |asked: &Value, number: usize| {
        let mut page = regular_reply(asked);
        page["result"]["nextCursor"] = number.to_string().into();
        (asked["method"] == "tools/list").then(|| http_reply(&page))
    };
    let plain = |_: &Value, _: usize| None;
    let cases: [(&str, Script, &[&str]); 4] = [
        ("slow replies", Arc::new(plain), &["call", "look"]),
        ("redirects", Arc::new(redirect), &["list"]),
        ("pages", Arc::new(page), &["list"]),
        ("drip", Arc::new(plain), &["list"]),
    ];
    for (name, script, words) in cases {
        let pauses = if name == "drip" { Pauses::EachByte(part) } else { Pauses::EachReply(part) };
        let url = slow_server(script, pauses);
        let words =
            [&[words[0], &*url], &words[1..], &["--era", "modern", "--timeout", "1"]].concat();
        let error = sandbox.run(&words).error(4);
        assert_eq!(error["kind"], "request_timeout", "{name}: {error}");
    }
}

#[test]
fn a_destructive_tool_needs_confirmation() {
    let sandbox = Sandbox::new("destructive");
    let error = sandbox.demo(&["call", "deploy", "build=7"]).error(1);
    assert!(error["hint"].as_str().unwrap().contains("--yes"), "{error}");
    // With `--yes` the tool runs, and fails because its form needs a terminal.
    let ran = sandbox.demo(&["call", "deploy", "build=7", "--yes"]);
    assert_eq!(ran.code, 5, "{ran:?}");
}

#[test]
fn missing_elicitation_support_is_an_error() {
    let sandbox = Sandbox::new("nobody");
    for era in ["modern", "legacy"] {
        for tool in ["sign_in", "workspace"] {
            let ran = sandbox.demo(&["call", tool, "--era", era]);
            assert_eq!(ran.code, 5, "{tool} {era}: {ran:?}");
        }
        let root = sandbox.dir.to_string_lossy().into_owned();
        let result = sandbox.demo(&["call", "workspace", "--root", &root, "--era", era]).json();
        assert_eq!(result["content"][0]["text"], format!("file://{root}"), "{era}");
    }
}

#[test]
fn logs_and_traces_go_to_stderr() {
    let sandbox = Sandbox::new("stderr");
    let ran = sandbox.demo(&["call", "countdown", "from=2", "--log-level", "info"]);
    ran.json();
    let logs: Vec<Value> =
        ran.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(logs.len(), 2, "{ran:?}");
    assert_eq!(
        (&logs[1]["log"]["level"], &logs[1]["log"]["data"]["left"]),
        (&"info".into(), &0.into())
    );

    let ran = sandbox.demo(&["call", "add", "a=1", "b=2", "--trace"]);
    ran.json();
    let shown = |arrow: &str, text: &str| {
        ran.err.lines().any(|line| {
            let (time, rest) = line.trim_start().split_once(' ').unwrap();
            time.parse::<f64>().is_ok() && rest.starts_with(arrow) && rest.contains(text)
        })
    };
    assert!(shown("-->", r#""method":"tools/call""#), "{}", ran.err);
    assert!(shown("<--", r#""text":"3""#) && shown("---", "started"), "{}", ran.err);

    assert_eq!(sandbox.demo(&["call", "add", "a=1", "b=2"]).err, "");
    let ran = sandbox.demo(&["call", "add", "a=1", "b=2", "--stderr"]);
    assert!(ran.err.contains("a demo server of every MCP revision"), "{ran:?}");
}

#[test]
fn logs_below_the_level_are_not_shown() {
    let sandbox = Sandbox::new("levels");
    for era in ["modern", "legacy"] {
        let words = ["call", "countdown", "from=2", "--log-level", "error", "--era", era];
        assert_eq!(sandbox.demo(&words).err, "", "{era}");
        let words = ["call", "countdown", "from=2", "--log-level", "debug", "--era", era];
        assert_eq!(sandbox.demo(&words).err.lines().count(), 2, "{era}");
    }
}

#[cfg(unix)]
#[test]
fn a_closed_stdout_is_not_reported() {
    let sandbox = Sandbox::new("pipe");
    let served = DemoServer::http(&sandbox);
    let mut child = sandbox
        .command(&["list", &served.url])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let told = lines(child.stderr.take().unwrap());
    assert_eq!((ended(&mut child).code(), rest(&told).as_str()), (Some(141), ""));
}

#[cfg(target_os = "linux")]
#[test]
fn an_unwritable_output_file_is_reported() {
    let sandbox = Sandbox::new("full");
    for words in [vec!["completions", "bash"], vec!["config", "paths"]] {
        let mut command = sandbox.command(&words);
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut child = command.stdout(full).stderr(Stdio::piped()).spawn().unwrap();
        let told = lines(child.stderr.take().unwrap());
        assert_eq!(ended(&mut child).code(), Some(1), "{words:?}");
        let told: Value = serde_json::from_str(&rest(&told)).unwrap();
        assert_eq!(told["error"]["kind"], "io", "{words:?}");
    }
}

#[test]
fn a_failed_start_is_reported_in_one_line() {
    let sandbox = Sandbox::new("unservable");
    let error = sandbox.run(&["serve", "--tcp", "nonsense"]).error(1);
    assert!(error["message"].as_str().unwrap().contains("nonsense"), "{error}");
}

#[test]
fn wrong_advice_is_left_out() {
    let sandbox = Sandbox::new("advice");
    // After `--` there is a command, not arguments.
    let error = sandbox.demo(&["call", "add", "-a=1"]).error(1);
    assert!(!error["hint"].as_str().unwrap().contains("-- -a"), "{error}");
    let error = sandbox.run(&[]).error(1);
    assert!(error["hint"].as_str().unwrap().contains("--help"), "{error}");
}
