//! Trust in project configuration files, and the environment of started programs.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::json;

use crate::cli::{
    pty::Pty,
    sandbox::{Sandbox, WHARF, finished},
};

/// Configuration file whose server creates a marker file when it starts.
fn marker_config(sandbox: &Sandbox) -> String {
    let script = format!("touch '{}' && exec '{WHARF}' serve", sandbox.dir.join("mark").display());
    let entry =
        json!({"command": "sh", "args": ["-c", script], "env": {"A": "${WHARF_TEST_A:-b}"}});
    json!({"mcpServers": {"harbour": entry}}).to_string()
}

fn is_marked(sandbox: &Sandbox) -> bool {
    fs::remove_file(sandbox.dir.join("mark")).is_ok()
}

fn at_terminal(sandbox: &Sandbox) -> Pty {
    let mut command = sandbox.command(&["call", "harbour", "add", "a=1", "b=2"]);
    command.env("NO_COLOR", "1");
    Pty::start(command)
}

/// Audit 12.
#[test]
fn a_project_file_needs_consent() {
    let sandbox = Sandbox::new("untrusted");
    for file in [".mcp.json", ".vscode/mcp.json", "mcp.json"] {
        let file = sandbox.write(file, &marker_config(&sandbox));
        for target in ["harbour", &format!("{file}#harbour")] {
            let error = sandbox.run(&["list", target]).error(1);
            assert_eq!(error["kind"], "untrusted_file", "{error}");
            let told = error.to_string();
            assert!(told.contains("--trust") && told.contains(&file), "{told}");
            assert!(!is_marked(&sandbox), "{target}");
            sandbox.run(&["list", target, "--trust"]).json();
            assert!(is_marked(&sandbox), "{target}");
        }
        fs::remove_file(file).unwrap();
    }
    // In the user's folder, `.cursor/mcp.json` is the user's own file.
    let file = sandbox.write("project/.cursor/mcp.json", &marker_config(&sandbox));
    for target in ["harbour", "./.cursor/mcp.json#harbour"] {
        let list = |words: &[&str]| {
            let mut command = sandbox.command(&[&["list", target], words].concat());
            command.current_dir(sandbox.dir.join("project"));
            finished(command, "")
        };
        let error = list(&[]).error(1);
        assert_eq!(error["kind"], "untrusted_file", "{error}");
        assert!(error.to_string().contains(".cursor/mcp.json"), "{error}");
        assert!(!is_marked(&sandbox), "{target}");
        list(&["--trust"]).json();
        assert!(is_marked(&sandbox), "{target}");
    }
    fs::remove_file(file).unwrap();
    // Trust for one run does not apply to the next.
    sandbox.write(".mcp.json", &marker_config(&sandbox));
    sandbox.run(&["list", "harbour"]).error(1);
    sandbox.run(&["auth", "login", "harbour"]).error(1);
}

#[test]
fn files_of_the_user_are_trusted() {
    let sandbox = Sandbox::new("users-own");
    for file in ["wharf/mcp.json", ".cursor/mcp.json", "Code/User/mcp.json", ".claude.json"] {
        let file = sandbox.write(file, &marker_config(&sandbox));
        sandbox.run(&["list", "harbour"]).json();
        assert!(is_marked(&sandbox), "{file}");
        fs::remove_file(file).unwrap();
    }
}

#[test]
fn trust_is_prompted_once_until_the_file_changes() {
    let sandbox = Sandbox::new("asked-once");
    sandbox.write(".mcp.json", &marker_config(&sandbox));
    let mut pty = at_terminal(&sandbox);
    pty.until(".mcp.json is a file of a project.").until("starts sh -c").until("sets A");
    pty.until("reads the variables WHARF_TEST_A").until("Use it, until it changes?").type_line("n");
    let (code, shown) = pty.end();
    assert!(code == 1 && shown.contains("was not trusted"), "{shown}");
    assert!(!is_marked(&sandbox));

    let mut pty = at_terminal(&sandbox);
    pty.until("Use it, until it changes?").type_line("y");
    let (code, shown) = pty.end();
    assert!(code == 0 && shown.ends_with("3\n"), "{shown}");
    let file = sandbox.dir.join("wharf/trusted.json");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    // From now on the server starts without a prompt, also without a terminal.
    sandbox.run(&["call", "harbour", "add", "a=1", "b=2"]).json();
    let (code, shown) = at_terminal(&sandbox).end();
    assert_eq!((code, shown.as_str()), (0, "3\n"));
    // A trust file that others can write is ignored.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    sandbox.run(&["list", "harbour"]).error(1);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();

    sandbox.write(".mcp.json", &marker_config(&sandbox).replace("touch", "touch --"));
    sandbox.run(&["list", "harbour"]).error(1);
    // The same text in another folder may refer to other files.
    fs::rename(sandbox.dir.join(".mcp.json"), sandbox.dir.join("mcp.json")).unwrap();
    sandbox.write("mcp.json", &marker_config(&sandbox));
    sandbox.run(&["list", "harbour"]).error(1);
}

/// The same text refers to other programs where `${workspaceFolder}` is another folder.
#[test]
fn a_symlink_to_a_trusted_file_is_not_trusted() {
    let sandbox = Sandbox::new("linked");
    let entry = json!({"command": "${workspaceFolder}/server.sh"});
    let text = json!({"mcpServers": {"harbour": entry}}).to_string();
    let script = |name: &str, text: &str| {
        let file = sandbox.write(name, &format!("#!/bin/sh\n{text}\n"));
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    };
    script("evil/server.sh", "touch \"$HOME/mark\"");
    let refused = |link: &str, to: &str| {
        std::os::unix::fs::symlink(to, sandbox.dir.join("evil").join(link)).unwrap();
        let file = if link == ".vscode" { ".vscode/mcp.json" } else { link };
        let mut command = sandbox.command(&["list", &format!("./{file}#harbour")]);
        command.current_dir(sandbox.dir.join("evil"));
        assert_eq!(finished(command, "").error(1)["kind"], "untrusted_file", "{link}");
        assert!(!is_marked(&sandbox), "{link}");
    };
    sandbox.write("wharf/mcp.json", &text);
    refused("mcp.json", "../wharf/mcp.json");
    fs::remove_file(sandbox.dir.join("wharf/mcp.json")).unwrap();

    script("good/server.sh", &format!("exec '{WHARF}' serve"));
    for file in [".mcp.json", ".vscode/mcp.json"] {
        sandbox.write(&format!("good/{file}"), &text);
        let in_good = |words: &[&str]| {
            let mut command =
                sandbox.command(&[&["list", &format!("./{file}#harbour")], words].concat());
            command.current_dir(sandbox.dir.join("good"));
            command
        };
        let mut pty = Pty::start(in_good(&[]));
        pty.until("Use it, until it changes?").type_line("y");
        assert_eq!(pty.end().0, 0);
        finished(in_good(&["--json"]), "").json();
    }
    refused(".mcp.json", "../good/.mcp.json");
    refused(".vscode", "../good/.vscode");
}

#[test]
fn a_symlink_to_a_device_is_not_read() {
    let sandbox = Sandbox::new("device");
    std::os::unix::fs::symlink("/dev/zero", sandbox.dir.join(".mcp.json")).unwrap();
    let error = sandbox.run(&["list", "harbour"]).error(1);
    assert!(error["message"].as_str().unwrap().contains("it is not a regular file"), "{error}");
}

/// A project entry that is equal to an entry of the user does not disable the user's entry.
#[test]
fn a_user_entry_is_used_if_a_project_repeats_it() {
    let sandbox = Sandbox::new("repeated");
    sandbox.write("wharf/mcp.json", &marker_config(&sandbox));
    sandbox.write(".mcp.json", &marker_config(&sandbox));
    sandbox.run(&["list", "harbour"]).json();
    assert!(is_marked(&sandbox));
}

/// Audit 13.
#[test]
fn a_program_gets_few_variables_and_those_that_it_is_given() {
    let sandbox = Sandbox::new("variables-of-child");
    let seen = |options: &[&str]| {
        let script = format!("env > seen; exec '{WHARF}' serve");
        let words = [&["list"], options, &["--", "sh", "-c", &script]].concat();
        let mut command = sandbox.command(&words);
        command.env("AWS_SECRET_ACCESS_KEY", "hunter2").env("WHARF_STATE_KEY", "42".repeat(32));
        command.env("LC_TIME", "C").env("HERE", "as it is");
        finished(command, "").json();
        fs::read_to_string(sandbox.dir.join("seen")).unwrap()
    };
    let all = seen(&[]);
    for gone in ["AWS_", "WHARF_", "XDG_", "HERE="] {
        assert!(!all.contains(gone), "{gone}: {all}");
    }
    for there in ["PATH=", "HOME=", "LC_TIME=C\n"] {
        assert!(all.contains(there), "{there}: {all}");
    }
    let all = seen(&["--env", "HERE", "--env", "A=b c"]);
    assert!(all.contains("HERE=as it is\n") && all.contains("A=b c\n"), "{all}");
    assert!(!all.contains("AWS_"), "{all}");

    sandbox.run(&["list", "--env", "WHARF_NOT_SET", "--", "x"]).error(1);
    sandbox.run(&["list", "http://127.0.0.1:1/mcp", "--env", "A=b"]).error(1);
    let missing = "test -n \"$NEEDED\" || exit 3";
    let error = sandbox.run(&["list", "--", "sh", "-c", missing]).error(4);
    assert!(error["hint"].as_str().unwrap().contains("--env NAME"), "{error}");
}

#[test]
fn variables_come_from_an_env_file() {
    let sandbox = Sandbox::new("env-file");
    sandbox.write("dev.env", "# for the demo\nexport GREETING=\"good day\"\nOTHER=file\n");
    let script = format!("env > seen; exec '{WHARF}' serve");
    let entry = json!({"command": "sh", "args": ["-c", script], "env": {"OTHER": "entry"},
        "envFile": "${workspaceFolder}/dev.env"});
    sandbox.write(".vscode/mcp.json", &json!({"servers": {"harbour": entry}}).to_string());
    sandbox.run(&["list", "harbour", "--trust"]).json();
    let seen = fs::read_to_string(sandbox.dir.join("seen")).unwrap();
    assert!(seen.contains("GREETING=good day\n") && seen.contains("OTHER=entry\n"), "{seen}");
    let shown = sandbox.run(&["config", "show", "harbour"]).json();
    assert_eq!(shown["envFile"], "${workspaceFolder}/dev.env");
    fs::remove_file(sandbox.dir.join("dev.env")).unwrap();
    let error = sandbox.run(&["list", "harbour", "--trust"]).error(1);
    assert!(error["message"].as_str().unwrap().contains("dev.env"), "{error}");
}
