//! Servers from configuration files.

use serde_json::json;

use crate::cli::sandbox::{Sandbox, WHARF, finished};

fn entry(name: &str) -> String {
    let env = json!({"API_KEY": "s3cret"});
    json!({"mcpServers": {name: {"command": WHARF, "args": ["serve"], "env": env}}}).to_string()
}

#[test]
fn entries_are_found_by_name_and_in_files() {
    let sandbox = Sandbox::new("entries");
    sandbox.write(".mcp.json", &entry("harbour"));
    let file = sandbox.write("elsewhere.json", &entry("tug"));
    for target in ["harbour", "elsewhere.json", &file, "elsewhere.json#tug"] {
        let result = sandbox.run(&["call", target, "add", "a=1", "b=2", "--trust"]).json();
        assert_eq!(result["content"][0]["text"], "3", "{target}");
    }
    let error = sandbox.run(&["list", "harbor"]).error(1);
    assert_eq!(error["hint"], "Did you mean `harbour`?");
    let error = sandbox.run(&["list", "elsewhere.json#tag"]).error(1);
    assert_eq!(error["hint"], "Did you mean `tug`?");
}

#[test]
fn config_lists_servers_with_their_sources() {
    let sandbox = Sandbox::new("config");
    assert_eq!(sandbox.run(&["config"]).json(), json!({"servers": []}));
    let file = sandbox.write(".mcp.json", &entry("harbour"));
    sandbox.write(
        ".vscode/mcp.json",
        r#"{"servers": {"remote": {"url": "https://example.com/mcp",
        "headers": {"Authorization": "Bearer s3cret"}}}}"#,
    );
    let listed = sandbox.run(&["config", "list"]).json();
    let names: Vec<_> =
        listed["servers"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["harbour", "remote"]);
    assert_eq!(listed["servers"][0]["file"], file);
    assert_eq!(listed["servers"][0]["program"], "Claude Code");
    assert_eq!(listed["servers"][1]["server"], "https://example.com/mcp");

    let paths = sandbox.run(&["config", "paths"]).json();
    let there = |it: &&serde_json::Value| it["exists"] == true;
    assert_eq!(paths["files"].as_array().unwrap().iter().filter(there).count(), 2);
}

#[test]
fn secrets_are_shown_only_on_demand() {
    let sandbox = Sandbox::new("secrets");
    sandbox.write(".mcp.json", &entry("harbour"));
    let shown = sandbox.run(&["config", "show", "harbour"]);
    assert_eq!(shown.json()["env"]["API_KEY"], "***");
    assert!(!shown.out.contains("s3cret") && !sandbox.run(&["config"]).out.contains("s3cret"));
    let revealed = sandbox.run(&["config", "show", "harbour", "--reveal"]).json();
    assert_eq!(revealed["env"]["API_KEY"], "s3cret");
    assert_eq!((&revealed["command"], &revealed["args"]), (&json!(WHARF), &json!(["serve"])));
    sandbox.run(&["config", "show", "nobody"]).error(1);
}

#[test]
fn expanded_variable_values_are_masked() {
    let sandbox = Sandbox::new("variables");
    sandbox.write(
        ".mcp.json",
        r#"{"mcpServers": {"web": {"url": "http://x/?key=${WHARF_TEST_KEY}"},
            "program": {"command": "x", "args": ["--key", "${WHARF_TEST_KEY}"]}}}"#,
    );
    for name in ["web", "program"] {
        let show = |more: &[&str]| {
            let mut command = sandbox.command(&[&["config", "show", name], more].concat());
            command.env("WHARF_TEST_KEY", "s3cret");
            finished(command, "").out
        };
        let hidden = show(&[]);
        assert!(hidden.contains("${WHARF_TEST_KEY}") && !hidden.contains("s3cret"), "{hidden}");
        assert!(show(&["--reveal"]).contains("s3cret"), "{name}");
        // The entry can be shown although the variable is not set.
        sandbox.run(&["config", "show", name]).json();
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let sandbox = Sandbox::new("broken");
    let file = sandbox.write("broken.json", "{");
    let error = sandbox.run(&["list", &file]).error(1);
    assert!(error["message"].as_str().unwrap().contains("broken.json"), "{error}");
    sandbox.write(".mcp.json", "{");
    let listed = sandbox.run(&["config"]).json();
    assert!(listed["problems"][0].as_str().unwrap().contains(".mcp.json"), "{listed}");
    // A lookup of a server in that file names the reason.
    let error = sandbox.run(&["list", "harbour"]).error(1);
    assert!(
        error["message"].as_str().unwrap().contains(".mcp.json: it is not valid JSON"),
        "{error}"
    );
}

#[test]
fn an_entry_that_cannot_be_read_takes_nothing_from_the_others() {
    let sandbox = Sandbox::new("half");
    let good = json!({"command": WHARF, "args": ["serve"]});
    let bad = json!({"command": "x", "args": [8080]});
    let text = json!({"mcpServers": {"bad": bad, "good": good}}).to_string();
    // With a byte order mark, as editors on Windows write it.
    sandbox.write(".mcp.json", &format!("\u{feff}{text}"));
    sandbox.run(&["call", "good", "add", "a=1", "b=2", "--trust"]).json();
    let error = sandbox.run(&["list", "bad"]).error(1);
    assert!(error["message"].as_str().unwrap().contains("\"bad\""), "{error}");
    let listed = sandbox.run(&["config"]).json();
    assert_eq!(
        (&listed["servers"][0]["name"], &listed["servers"][1]),
        (&json!("good"), &json!(null))
    );
    assert!(listed["problems"][0].as_str().unwrap().contains("\"bad\""), "{listed}");
}

#[test]
fn files_that_are_about_more_need_not_name_servers() {
    let sandbox = Sandbox::new("more");
    sandbox.write(".claude.json", r#"{"numStartups": 3}"#);
    sandbox.write("Claude/claude_desktop_config.json", "{}");
    assert_eq!(sandbox.run(&["config"]).json(), json!({"servers": []}));
}

#[test]
fn project_entries_override_global_entries() {
    let sandbox = Sandbox::new("project");
    let demo = json!({"harbour": {"command": WHARF, "args": ["serve"]}});
    let here = sandbox.dir.to_string_lossy().into_owned();
    let all = json!({"mcpServers": {"harbour": {"command": "other"}},
        "projects": {here: {"mcpServers": demo}}});
    sandbox.write(".claude.json", &all.to_string());
    sandbox.run(&["call", "harbour", "add", "a=1", "b=2"]).json();
}

/// Audit 16.
#[test]
fn possible_credentials_are_masked() {
    let sandbox = Sandbox::new("masked");
    sandbox.write(
        ".mcp.json",
        r#"{"mcpServers": {"web": {"url": "https://user:hunter2@x/mcp?token=hunter3"},
            "program": {"command": "x", "args": ["--key=hunter5", "--password", "hunter6"]}}}"#,
    );
    for words in [&["config"][..], &["config", "show", "web"], &["config", "show", "program"]] {
        let shown = sandbox.run(words);
        assert!(!shown.out.contains("hunter") && shown.out.contains("***"), "{shown:?}");
    }
    for address in ["tcp://user:hunter2@127.0.0.1:1", "ftp://user:hunter2@x/?a=hunter3"] {
        let ran = sandbox.run(&["list", address]);
        assert!(ran.code != 0 && !ran.err.contains("hunter"), "{ran:?}");
    }
}

#[test]
fn skipped_entries_are_reported() {
    let sandbox = Sandbox::new("passed-over");
    sandbox.write(".mcp.json", r#"{"mcpServers": []}"#);
    sandbox.write(".vscode/mcp.json", r#"{"server": {"a": {"command": "b"}}}"#);
    sandbox.write(
        ".cursor/mcp.json",
        r#"{"mcpServers": {"odd": {"comand": "x"}, "half": {"command": "x", "arg": ["y"]},
            "off": {"command": "x", "disabled": true}}}"#,
    );
    let listed = sandbox.run(&["config"]).json();
    let problems = listed["problems"].to_string();
    for told in ["a list", "write `servers`", "write `command`", "write `args`"] {
        assert!(problems.contains(told), "{told}: {problems}");
    }
    let off = listed["servers"].as_array().unwrap().iter().find(|it| it["name"] == "off").unwrap();
    assert_eq!(off["disabled"], true);
    let error = sandbox.run(&["list", "off"]).error(1);
    assert!(error["message"].as_str().unwrap().contains("it is disabled"), "{error}");
    let error = sandbox.run(&["list", "odd"]).error(1);
    assert!(error["message"].as_str().unwrap().contains("write `command`"), "{error}");
    #[cfg(unix)]
    {
        let (_, shown) = crate::cli::pty::Pty::start(sandbox.command(&["list", "odd"])).end();
        assert_eq!(shown.matches("write `command`").count(), 1, "{shown}");
    }
    // An enabled entry takes precedence over a disabled one.
    let on = json!({"mcpServers": {"off": {"command": WHARF, "args": ["serve"]}}}).to_string();
    sandbox.write("wharf/mcp.json", &on);
    sandbox.run(&["call", "off", "add", "a=1", "b=2"]).json();
}
