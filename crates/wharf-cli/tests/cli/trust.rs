//! Configuration files of projects, and what programs that are started get to know.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::json;

use crate::{
    pty::Pty,
    sandbox::{Bed, WHARF, finished},
};

/// A file whose server leaves a mark when it is started.
fn marking(bed: &Bed) -> String {
    let script = format!("touch '{}' && exec '{WHARF}' serve", bed.dir.join("mark").display());
    let entry =
        json!({"command": "sh", "args": ["-c", script], "env": {"A": "${WHARF_TEST_A:-b}"}});
    json!({"mcpServers": {"harbour": entry}}).to_string()
}

fn is_marked(bed: &Bed) -> bool {
    fs::remove_file(bed.dir.join("mark")).is_ok()
}

fn at_terminal(bed: &Bed) -> Pty {
    let mut command = bed.command(&["call", "harbour", "add", "a=1", "b=2"]);
    command.env("NO_COLOR", "1");
    Pty::start(command)
}

/// Audit 12.
#[test]
fn a_project_file_needs_consent() {
    let bed = Bed::new("untrusted");
    for file in [".mcp.json", ".vscode/mcp.json", "mcp.json"] {
        let file = bed.write(file, &marking(&bed));
        for target in ["harbour", &format!("{file}#harbour")] {
            let error = bed.run(&["list", target]).error(1);
            assert_eq!(error["kind"], "untrusted_file", "{error}");
            let told = error.to_string();
            assert!(told.contains("--trust") && told.contains(&file), "{told}");
            assert!(!is_marked(&bed), "{target}");
            bed.run(&["list", target, "--trust"]).json();
            assert!(is_marked(&bed), "{target}");
        }
        fs::remove_file(file).unwrap();
    }
    // What was trusted once, was trusted that time only.
    bed.write(".mcp.json", &marking(&bed));
    bed.run(&["list", "harbour"]).error(1);
    bed.run(&["auth", "login", "harbour"]).error(1);
}

#[test]
fn files_of_the_user_are_trusted() {
    let bed = Bed::new("users-own");
    for file in ["wharf/mcp.json", ".cursor/mcp.json", "Code/User/mcp.json", ".claude.json"] {
        let file = bed.write(file, &marking(&bed));
        bed.run(&["list", "harbour"]).json();
        assert!(is_marked(&bed), "{file}");
        fs::remove_file(file).unwrap();
    }
}

#[test]
fn trust_is_prompted_once_until_the_file_changes() {
    let bed = Bed::new("asked-once");
    bed.write(".mcp.json", &marking(&bed));
    let mut pty = at_terminal(&bed);
    pty.until(".mcp.json is a file of a project.").until("starts sh -c").until("sets A");
    pty.until("reads the variables WHARF_TEST_A").until("Use it, until it changes?").type_line("n");
    let (code, shown) = pty.end();
    assert!(code == 1 && shown.contains("was not trusted"), "{shown}");
    assert!(!is_marked(&bed));

    let mut pty = at_terminal(&bed);
    pty.until("Use it, until it changes?").type_line("y");
    let (code, shown) = pty.end();
    assert!(code == 0 && shown.ends_with("3\n"), "{shown}");
    let file = bed.dir.join("wharf/trusted.json");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    // From now on without a question, where nobody can be asked, too.
    bed.run(&["call", "harbour", "add", "a=1", "b=2"]).json();
    let (code, shown) = at_terminal(&bed).end();
    assert_eq!((code, shown.as_str()), (0, "3\n"));
    // What others could have written counts for nothing.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    bed.run(&["list", "harbour"]).error(1);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();

    bed.write(".mcp.json", &marking(&bed).replace("touch", "touch --"));
    bed.run(&["list", "harbour"]).error(1);
    // The same text elsewhere may mean other files.
    fs::rename(bed.dir.join(".mcp.json"), bed.dir.join("mcp.json")).unwrap();
    bed.write("mcp.json", &marking(&bed));
    bed.run(&["list", "harbour"]).error(1);
}

/// The same text means other programs where `${workspaceFolder}` is another folder.
#[test]
fn a_symlink_to_a_trusted_file_is_not_trusted() {
    let bed = Bed::new("linked");
    let entry = json!({"command": "${workspaceFolder}/server.sh"});
    let text = json!({"mcpServers": {"harbour": entry}}).to_string();
    let script = |name: &str, text: &str| {
        let file = bed.write(name, &format!("#!/bin/sh\n{text}\n"));
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    };
    script("evil/server.sh", "touch \"$HOME/mark\"");
    let refused = |link: &str, to: &str| {
        std::os::unix::fs::symlink(to, bed.dir.join("evil").join(link)).unwrap();
        let file = if link == ".vscode" { ".vscode/mcp.json" } else { link };
        let mut command = bed.command(&["list", &format!("./{file}#harbour")]);
        command.current_dir(bed.dir.join("evil"));
        assert_eq!(finished(command, "").error(1)["kind"], "untrusted_file", "{link}");
        assert!(!is_marked(&bed), "{link}");
    };
    bed.write("wharf/mcp.json", &text);
    refused("mcp.json", "../wharf/mcp.json");
    fs::remove_file(bed.dir.join("wharf/mcp.json")).unwrap();

    script("good/server.sh", &format!("exec '{WHARF}' serve"));
    for file in [".mcp.json", ".vscode/mcp.json"] {
        bed.write(&format!("good/{file}"), &text);
        let in_good = |words: &[&str]| {
            let mut command =
                bed.command(&[&["list", &format!("./{file}#harbour")], words].concat());
            command.current_dir(bed.dir.join("good"));
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
    let bed = Bed::new("device");
    std::os::unix::fs::symlink("/dev/zero", bed.dir.join(".mcp.json")).unwrap();
    let error = bed.run(&["list", "harbour"]).error(1);
    assert!(error["message"].as_str().unwrap().contains("it is not a regular file"), "{error}");
}

/// A project that repeats an entry of the user's does not take the user's own away.
#[test]
fn a_user_entry_is_used_if_a_project_repeats_it() {
    let bed = Bed::new("repeated");
    bed.write("wharf/mcp.json", &marking(&bed));
    bed.write(".mcp.json", &marking(&bed));
    bed.run(&["list", "harbour"]).json();
    assert!(is_marked(&bed));
}

/// Audit 13.
#[test]
fn a_program_gets_few_variables_and_those_that_it_is_given() {
    let bed = Bed::new("variables-of-child");
    let seen = |options: &[&str]| {
        let script = format!("env > seen; exec '{WHARF}' serve");
        let words = [&["list"], options, &["--", "sh", "-c", &script]].concat();
        let mut command = bed.command(&words);
        command.env("AWS_SECRET_ACCESS_KEY", "hunter2").env("WHARF_STATE_KEY", "42".repeat(32));
        command.env("LC_TIME", "C").env("HERE", "as it is");
        finished(command, "").json();
        fs::read_to_string(bed.dir.join("seen")).unwrap()
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

    bed.run(&["list", "--env", "WHARF_NOT_SET", "--", "x"]).error(1);
    bed.run(&["list", "http://127.0.0.1:1/mcp", "--env", "A=b"]).error(1);
    let missing = "test -n \"$NEEDED\" || exit 3";
    let error = bed.run(&["list", "--", "sh", "-c", missing]).error(4);
    assert!(error["hint"].as_str().unwrap().contains("--env NAME"), "{error}");
}

#[test]
fn variables_come_from_an_env_file() {
    let bed = Bed::new("env-file");
    bed.write("dev.env", "# for the demo\nexport GREETING=\"good day\"\nOTHER=file\n");
    let script = format!("env > seen; exec '{WHARF}' serve");
    let entry = json!({"command": "sh", "args": ["-c", script], "env": {"OTHER": "entry"},
        "envFile": "${workspaceFolder}/dev.env"});
    bed.write(".vscode/mcp.json", &json!({"servers": {"harbour": entry}}).to_string());
    bed.run(&["list", "harbour", "--trust"]).json();
    let seen = fs::read_to_string(bed.dir.join("seen")).unwrap();
    assert!(seen.contains("GREETING=good day\n") && seen.contains("OTHER=entry\n"), "{seen}");
    let shown = bed.run(&["config", "show", "harbour"]).json();
    assert_eq!(shown["envFile"], "${workspaceFolder}/dev.env");
    fs::remove_file(bed.dir.join("dev.env")).unwrap();
    let error = bed.run(&["list", "harbour", "--trust"]).error(1);
    assert!(error["message"].as_str().unwrap().contains("dev.env"), "{error}");
}
