//! Every command, with JSON output.

use serde_json::json;

use crate::cli::sandbox::{Sandbox, WHARF};

#[test]
fn list_gives_all_that_is_offered_or_one_kind() {
    let sandbox = Sandbox::new("list");
    let all = sandbox.demo(&["list"]).json();
    let names: Vec<&String> = all.as_object().unwrap().keys().collect();
    assert_eq!(names, ["tools", "resources", "resourceTemplates", "prompts"]);
    assert_eq!(all["tools"][0]["name"], "add");
    assert_eq!(all["tools"][0]["inputSchema"]["properties"]["a"]["type"], "integer");
    for (kind, key, count) in [
        ("tools", "tools", 17),
        ("resources", "resources", 4),
        ("templates", "resourceTemplates", 2),
        ("prompts", "prompts", 2),
    ] {
        let one = sandbox.demo(&["list", kind]).json();
        assert_eq!(one.as_object().unwrap().len(), 1, "{one}");
        assert_eq!(one[key].as_array().map(Vec::len), Some(count), "{kind}");
    }
    let error = sandbox.demo(&["list", "promts"]).error(1);
    assert_eq!(error["hint"], "Did you mean `prompts`?");
}

#[test]
fn call_gives_the_whole_result() {
    let sandbox = Sandbox::new("call");
    let result = sandbox.demo(&["call", "weather", "city=Oslo"]).json();
    assert_eq!(result["structuredContent"]["city"], "Oslo");
    assert_eq!(result["content"][0]["type"], "text");
    let result = sandbox.demo(&["call", "gallery"]).json();
    assert_eq!(result["content"].as_array().map(Vec::len), Some(5));
}

#[test]
fn read_gives_contents_or_saves_them() {
    let sandbox = Sandbox::new("read");
    let read = sandbox.demo(&["read", "demo://readme"]).json();
    assert_eq!(read["contents"][0]["mimeType"], "text/markdown");
    let read = sandbox.demo(&["read", "demo://notes/shopping"]).json();
    assert_eq!(read["contents"][0]["text"], "Note shopping");

    let logo = sandbox.dir.join("logo.png");
    let file = logo.to_string_lossy().into_owned();
    let written = sandbox.demo(&["read", "demo://logo", "--output", &file]).json();
    let bytes = std::fs::read(&logo).unwrap();
    assert!(bytes.starts_with(b"\x89PNG"));
    let expected = json!({"file": file, "mimeType": "image/png", "bytes": bytes.len()});
    assert_eq!(written["written"][0], expected);

    let raw = sandbox.demo(&["read", "demo://notes/x", "--output", "-"]);
    assert_eq!((raw.code, raw.out.as_str()), (0, "Note x"));
    let error = sandbox.demo(&["read", "demo://readme", "--output", "/nowhere/at/all"]).error(1);
    assert!(error["message"].as_str().unwrap().contains("/nowhere/at/all"), "{error}");
}

#[test]
fn several_contents_are_saved_side_by_side() {
    let sandbox = Sandbox::new("save");
    let file = sandbox.dir.join("art.bin").to_string_lossy().into_owned();
    let written = sandbox.demo(&["call", "gallery", "-o", &file]).json();
    assert_eq!(written["written"][0]["mimeType"], "image/png");
    assert_eq!(written["written"][1]["mimeType"], "audio/wav");
    assert!(std::fs::read(sandbox.dir.join("art-2.bin")).unwrap().starts_with(b"RIFF"));
}

#[test]
fn prompt_gives_messages() {
    let sandbox = Sandbox::new("prompt");
    let prompt = sandbox.demo(&["prompt", "review", "code=x = 1", "language=rust"]).json();
    assert_eq!(prompt["messages"][0]["content"]["text"], "Review this rust code:\nx = 1");
    let error = sandbox.demo(&["prompt", "greet"]).error(1);
    assert!(
        error["message"].as_str().unwrap().contains("name=string  The name to greet."),
        "{error}"
    );
    let error = sandbox.demo(&["prompt", "geet"]).error(1);
    assert_eq!(
        (&error["kind"], &error["hint"]),
        (&json!("prompt_not_found"), &json!("Did you mean `greet`?"))
    );
    let error = sandbox.demo(&["prompt", "greet", "nme=x"]).error(1);
    assert!(error["hint"].as_str().unwrap().starts_with("Did you mean `name`?"), "{error}");
    sandbox.demo(&["prompt", "greet", "name:=1"]).error(1);
}

#[test]
fn complete_gives_values() {
    let sandbox = Sandbox::new("complete");
    let done =
        sandbox.demo(&["complete", "prompt", "review", "language", "p", "--with", "code=x"]).json();
    assert_eq!(done["completion"]["values"], json!(["python", "pascal", "perl"]));
    let done = sandbox.demo(&["complete", "resource", "demo://notes/{name}", "name", "st"]).json();
    assert_eq!(done["completion"]["values"], json!(["standup", "story"]));
    for words in [vec!["complete"], vec!["complete", "tool", "x", "y", "z"]] {
        assert!(
            sandbox.demo(&words).error(1)["hint"].as_str().unwrap().contains("prompt NAME ARG")
        );
    }
}

#[test]
fn rpc_sends_any_request() {
    let sandbox = Sandbox::new("rpc");
    let params = r#"{"name":"add","arguments":{"a":1,"b":2}}"#;
    let result = sandbox.demo(&["rpc", "tools/call", params]).json();
    assert_eq!(result["content"][0]["text"], "3");
    let words = ["rpc", "resources/read", "-", "--", WHARF, "serve"];
    let result = sandbox.run_with(&words, r#"{"uri":"demo://notes/x"}"#).json();
    assert_eq!(result["contents"][0]["text"], "Note x");
    let error = sandbox.demo(&["rpc", "no/such/method"]).error(5);
    assert_eq!(error["kind"], "method_not_found");
    sandbox.demo(&["rpc", "ping", "[1]"]).error(1);
    sandbox.demo(&["rpc"]).error(1);
}

#[test]
fn inspect_gives_all_about_a_server() {
    let sandbox = Sandbox::new("inspect");
    for (era, revision) in
        [("modern", "2026-07-28"), ("legacy", "2025-11-25"), ("2025-03-26", "2025-03-26")]
    {
        let all = sandbox.demo(&["inspect", "--era", era]).json();
        assert_eq!(all["server"]["name"], "wharf-demo", "{era}");
        assert_eq!(all["protocolVersion"], revision);
        assert_eq!(all["capabilities"]["tools"]["listChanged"], true);
        assert!(all["instructions"].is_string());
        assert_eq!(all["tools"].as_array().map(Vec::len), Some(17));
    }
}

#[test]
fn completions_are_written_for_every_shell() {
    let sandbox = Sandbox::new("completions");
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = sandbox.run(&["completions", shell]);
        assert!(script.code == 0 && script.out.contains("inspect"), "{shell}");
    }
    sandbox.run(&["completions", "csh"]).error(1);
}

#[test]
fn every_verb_explains_how_to_name_a_server() {
    let sandbox = Sandbox::new("help");
    for verb in ["list", "call", "read", "prompt", "complete", "listen", "rpc", "inspect", "bench"]
    {
        let help = sandbox.run(&[verb, "--help"]);
        assert_eq!(help.code, 0);
        assert!(
            help.out.contains("TARGET is a URL") && help.out.contains("-- COMMAND..."),
            "{verb}"
        );
    }
    let version = sandbox.run(&["--version"]);
    assert_eq!(version.out.trim(), format!("wharf {}", env!("CARGO_PKG_VERSION")));
}
