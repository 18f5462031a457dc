//! Log lines of `wharf serve`.

use serde_json::Value;

use crate::cli::sandbox::{CommandOutput, Sandbox, WHARF, finished};

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;

fn serve(sandbox: &Sandbox, words: &[&str], variables: &[(&str, &str)]) -> CommandOutput {
    let mut command = sandbox.command(&[&["serve"], words].concat());
    command.envs(variables.iter().copied());
    finished(command, &format!("{CALL}\n"))
}

#[test]
fn with_json_every_line_on_stderr_is_an_object() {
    let sandbox = Sandbox::new("log-json");
    let ran = serve(&sandbox, &["--log-format", "json"], &[("WHARF_LOG", "info")]);
    assert_eq!(ran.out.lines().count(), 1, "stdout has only the reply: {ran:?}");
    let lines: Vec<Value> =
        ran.err.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    assert!(lines.len() > 1, "{ran:?}");
    for line in &lines {
        for name in ["ts", "level", "target", "msg"] {
            assert!(line[name].is_string(), "{line}");
        }
    }
    assert!(lines.iter().any(|line| line["msg"] == "call finished"), "{ran:?}");
}

#[test]
fn text_is_chosen_by_the_option_or_the_variable() {
    let sandbox = Sandbox::new("log-text");
    let info = ("WHARF_LOG", "info");
    for (words, variables) in [
        (&["--log-format", "text"][..], &[info, ("WHARF_LOG_FORMAT", "json")][..]),
        (&[], &[info, ("WHARF_LOG_FORMAT", "text")]),
    ] {
        let ran = serve(&sandbox, words, variables);
        let line = ran.err.lines().find(|line| line.contains("call finished")).expect("a line");
        assert!(line.contains("Z  INFO wharf_server::call_tracing: call finished"), "{line}");
    }
}

#[test]
fn an_invalid_format_is_an_error() {
    let sandbox = Sandbox::new("log-wrong");
    let ran = serve(&sandbox, &["--log-format", "xml"], &[]);
    let error = ran.printed_error(1);
    assert_eq!(
        error["message"],
        "--log-format: \"xml\" is no format of log lines: write text or json"
    );
    let mut command = sandbox.command(&["list", "--", WHARF, "serve"]);
    command.env("WHARF_LOG", "verbose");
    let error = finished(command, "").printed_error(1);
    assert!(error["message"].as_str().unwrap().starts_with("WHARF_LOG: \"verbose\""), "{error}");
}
