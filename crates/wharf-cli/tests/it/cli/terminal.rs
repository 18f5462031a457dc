//! Output and prompts at a terminal.

use crate::cli::{
    pty::Pty,
    sandbox::{Sandbox, WHARF, finished},
};

fn demo(sandbox: &Sandbox, words: &[&str]) -> Pty {
    let mut command = sandbox.command(&[words, &["--", WHARF, "serve"]].concat());
    command.env("NO_COLOR", "1");
    Pty::start(command)
}

#[test]
fn lists_are_tables() {
    let sandbox = Sandbox::new("tables");
    let (code, shown) = demo(&sandbox, &["list", "tools"]).end();
    assert_eq!(code, 0);
    assert!(
        shown.starts_with("Tools (17)\nNAME        ARGUMENTS                    DESCRIPTION\n"),
        "{shown}"
    );
    let add = "add         a=integer b=integer          Adds two numbers.\n";
    assert!(shown.contains(add), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    let (_, shown) = demo(&sandbox, &["inspect"]).end();
    assert!(shown.starts_with("wharf-demo 0.1.0  Wharf demo\n"), "{shown}");
    assert!(shown.contains("Versions      2026-07-28 (and 2025-11-25"), "{shown}");
}

#[test]
fn colour_needs_a_capable_terminal() {
    let sandbox = Sandbox::new("colour");
    let words = ["list", "prompts", "--", WHARF, "serve"];
    let painted = |name: &str, value: &str| {
        let mut command = sandbox.command(&words);
        command.env(name, value);
        Pty::start(command).end().1.contains('\x1b')
    };
    assert!(painted("TERM", "xterm"));
    assert!(!painted("TERM", "dumb"));
    assert!(!painted("NO_COLOR", "1"));
    assert!(painted("NO_COLOR", ""));
    let mut command = sandbox.command(&["call", "countdown", "from=2", "--", WHARF, "serve"]);
    command.env("TERM", "dumb");
    assert_eq!(Pty::start(command).end().1, "lift-off\n");
}

#[test]
fn json_is_given_on_demand_and_reads_well() {
    let sandbox = Sandbox::new("json");
    let (code, shown) = demo(&sandbox, &["call", "add", "a=1", "b=2", "--json"]).end();
    assert_eq!(code, 0);
    assert!(shown.contains("\n      \"text\": \"3\"\n"), "{shown}");
    let (code, shown) = demo(&sandbox, &["call", "ad", "--json"]).end();
    assert!(code == 1 && shown.starts_with(r#"{"error":{"kind":"tool_not_found""#), "{shown}");
}

#[test]
fn server_output_cannot_control_the_terminal() {
    let sandbox = Sandbox::new("steer");
    let evil = "text=\x1b]0;owned\x07\u{9b}31m\u{202e}x";
    for words in [
        vec!["call", "echo", evil],
        vec!["call", "echo", evil, "--json"],
        vec!["call", "echo", evil, "--trace"],
        vec!["call", "fail", &evil.replace("text", "reason")],
    ] {
        let (_, shown) = demo(&sandbox, &words).end();
        let steers = |c: char| c.is_control() && c != '\n';
        assert!(!shown.contains(steers) && !shown.contains('\u{202e}'), "{words:?}: {shown:?}");
        assert!(shown.contains("]0;owned"), "{shown:?}");
    }
}

#[test]
fn json_errors_cannot_control_the_terminal() {
    let sandbox = Sandbox::new("steer-json");
    let words = ["call", "fail", "reason=\u{9b}2J\u{202e}x", "--json"];
    let (code, shown) = demo(&sandbox, &words).end();
    assert!(code == 5 && shown.contains("\"message\":\"\\u009b2J\\u202ex\""), "{shown:?}");
    assert!(!shown.contains(['\u{9b}', '\u{202e}']), "{shown:?}");
}

#[test]
fn non_utf8_arguments_are_reported() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
    let sandbox = Sandbox::new("bytes");
    let mut command = sandbox.command(&["list"]);
    command.arg(OsStr::from_bytes(b"\xff")).env("NO_COLOR", "1");
    let (code, shown) = Pty::start(command).end();
    assert!(code == 1 && shown.contains("invalid UTF-8"), "{shown}");
}

#[test]
fn content_is_readable() {
    let sandbox = Sandbox::new("content");
    let (_, shown) = demo(&sandbox, &["call", "gallery"]).end();
    assert!(shown.contains("[image/png, 80 bytes; --output FILE saves it]\n"), "{shown}");
    let (_, shown) = demo(&sandbox, &["read", "demo://logo", "-o", "-"]).end();
    assert!(shown.contains("Binary content is not written to a terminal"), "{shown}");
    let (_, shown) = demo(&sandbox, &["prompt", "greet", "name=Ann"]).end();
    assert!(shown.contains("user: Say hello to Ann.\n"), "{shown}");
    let (_, shown) = demo(&sandbox, &["complete", "prompt", "review", "language", "p"]).end();
    assert_eq!(shown, "python\npascal\nperl\n");
    let (code, shown) = demo(&sandbox, &["call", "fail", "reason=rain"]).end();
    assert_eq!((code, shown.as_str()), (5, "rain\nerror: The tool failed\n"));
    let (code, shown) = demo(&sandbox, &["call", "wether"]).end();
    let expected = "error: The server has no tool `wether`\nDid you mean `weather`?\n";
    assert_eq!((code, shown.as_str()), (1, expected));
}

#[test]
fn progress_is_drawn_and_removed() {
    let sandbox = Sandbox::new("progress");
    for era in ["modern", "legacy"] {
        let words = ["call", "countdown", "from=4", "--log-level", "info", "--era", era];
        let (code, shown) = demo(&sandbox, &words).end();
        assert_eq!(code, 0);
        assert!(shown.contains("[############------------]  50%"), "{shown}");
        assert!(shown.contains("info    countdown: {\"left\":3}"), "{shown}");
        assert!(shown.ends_with("\r\x1b[Klift-off\n"), "{shown:?}");
    }
}

#[test]
fn a_destructive_tool_is_confirmed_before_its_form() {
    let sandbox = Sandbox::new("form");
    for era in ["modern", "legacy"] {
        let mut pty = demo(&sandbox, &["call", "deploy", "build=7", "--era", era]);
        pty.until("`deploy` may destroy something. Call it?").type_line("y");
        pty.until("wharf-demo asks: Deploy 7?").until("confirmed: Confirms the deployment.");
        pty.until("yes or no")
            .type_line("perhaps")
            .until("Please enter yes or no.")
            .type_line("yes");
        let (code, shown) = pty.end();
        assert!(code == 0 && shown.ends_with("deployed 7\n"), "{era}: {shown}");
    }
}

#[test]
fn a_form_may_be_declined_or_cancelled() {
    let sandbox = Sandbox::new("decline");
    for (keys, word) in
        [(":decline\n", "declined"), (":cancel\n", "cancelled"), ("\x04", "cancelled")]
    {
        let mut pty = demo(&sandbox, &["call", "deploy", "build=7", "--yes"]);
        pty.until("yes or no").type_keys(keys);
        let (code, shown) = pty.end();
        assert!(code == 5 && shown.contains(word), "{keys:?}: {shown}");
    }
    let mut pty = demo(&sandbox, &["call", "deploy", "build=7"]);
    pty.until("Call it?").type_line("");
    let (code, shown) = pty.end();
    assert!(code == 1 && shown.contains("`deploy` was not called"), "{shown}");
}

#[test]
fn a_page_is_opened_only_after_a_yes_and_without_a_shell() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = Sandbox::new("page");
    let opener = sandbox.write("bin/xdg-open", "#!/bin/sh\nprintf %s \"$1\" > \"$HOME/opened.tmp\" && mv \"$HOME/opened.tmp\" \"$HOME/opened\"\n");
    std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", sandbox.dir.join("bin").display());
    for (answer, code, opened) in [("n", 5, false), ("y", 0, true)] {
        let mut command = sandbox.command(&["call", "sign_in", "--", WHARF, "serve"]);
        command.env("PATH", &path).env("DISPLAY", ":0").env("NO_COLOR", "1");
        let mut pty = Pty::start(command);
        pty.until("  https://example.com/sign-in").until("on example.com");
        pty.until("Open it?").type_line(answer);
        let (ended, shown) = pty.end();
        assert_eq!(ended, code, "{shown}");
        if opened && cfg!(target_os = "linux") {
            let file = sandbox.dir.join("opened");
            let there = (0..500).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(20));
                file.exists()
            });
            assert!(there, "{shown}");
            assert_eq!(std::fs::read_to_string(file).unwrap(), "https://example.com/sign-in");
        } else {
            assert!(!sandbox.dir.join("opened").exists());
        }
    }
}

#[test]
fn a_listener_sees_changes_in_words() {
    let sandbox = Sandbox::new("listen-terminal");
    let mut pty = demo(&sandbox, &["listen", "--uri", "demo://clock", "--tools"]);
    pty.until("Listening to tools, demo://clock. Ctrl-C stops it.").interrupt();
    let (code, shown) = pty.end();
    assert!(code == 130 && shown.ends_with("stops it.\nInterrupted\n"), "{shown}");
}

#[test]
fn ctrl_c_cancels_a_form() {
    let sandbox = Sandbox::new("leave");
    let mut pty = demo(&sandbox, &["call", "deploy", "build=7", "--yes"]);
    pty.until("yes or no").interrupt();
    let (code, shown) = pty.end();
    assert!(code == 130 && shown.ends_with("\nInterrupted\n"), "{shown:?}");
}

#[test]
fn a_narrow_terminal_has_no_torn_tables() {
    let sandbox = Sandbox::new("narrow");
    for columns in [20, 30, 40] {
        for words in [&["list", "tools"][..], &["inspect"], &["call", "countdown", "from=2"]] {
            let mut command = sandbox.command(&[words, &["--", WHARF, "serve"]].concat());
            command.env("NO_COLOR", "1").env("COLUMNS", columns.to_string());
            let (code, shown) = Pty::start(command).end();
            assert_eq!(code, 0, "{shown}");
            let shown = shown.replace("\x1b[K", "");
            let long = shown.split(['\n', '\r']).find(|line| line.chars().count() > columns);
            assert_eq!(long, None, "{columns} {words:?}:\n{shown}");
        }
    }
}

#[test]
fn a_terminal_without_utf8_gets_ascii() {
    let sandbox = Sandbox::new("ascii");
    let text = format!("text={} ü", "long ".repeat(100));
    for (name, value) in [("LC_ALL", "C"), ("LANG", "POSIX"), ("LC_CTYPE", "de_DE.ISO-8859-1")] {
        for words in [
            &["call", "echo", &text, "--trace"][..],
            &["call", "echo", &text, "--json"],
            &["list"],
            &["bench", "--count", "20"],
            &["call", "add", "a=\u{201c}"],
        ] {
            let mut command = sandbox.command(&[words, &["--", WHARF, "serve"]].concat());
            command.env("NO_COLOR", "1").env(name, value);
            let (_, shown) = Pty::start(command).end();
            assert!(shown.is_ascii(), "{name}={value} {words:?}:\n{shown}");
        }
    }
    // Output to a pipe is UTF-8 in every locale.
    let mut command = sandbox.command(&["call", "fail", "reason=ü", "--", WHARF, "serve"]);
    command.env("LC_ALL", "C");
    assert_eq!(finished(command, "").printed_error(5)["message"], "ü");
    let mut command = sandbox.command(&["call", "echo", "text=ü", "--", WHARF, "serve"]);
    command.env("LC_ALL", "C.UTF-8");
    assert_eq!(Pty::start(command).end().1, "ü\n");
}

#[test]
fn names_with_invisible_differences_are_distinguishable() {
    let sandbox = Sandbox::new("zero-width");
    let (_, shown) = demo(&sandbox, &["call", "echo", "text=ad\u{200b}d 👩\u{200d}🚀"]).end();
    assert_eq!(shown, "ad\\u{200b}d 👩\u{200d}🚀\n");
}

#[test]
fn the_code_of_an_error_stands_beside_its_kind() {
    let sandbox = Sandbox::new("codes");
    let (code, shown) = demo(&sandbox, &["rpc", "no/such"]).end();
    assert!(code == 5 && shown.ends_with(" (method_not_found, -32601)\n"), "{shown}");
    let error = sandbox.demo(&["rpc", "no/such"]).error(5);
    assert_eq!((&error["kind"], &error["code"]), (&"method_not_found".into(), &(-32601).into()));
    let error = sandbox.demo(&["read", "demo://none", "--json"]).error(5);
    assert!(error["code"].is_i64(), "{error}");
}

/// Audit 11.
#[test]
fn a_file_that_was_not_named_is_not_overwritten() {
    let sandbox = Sandbox::new("neighbours");
    let neighbour = sandbox.write("art-2.bin", "precious");
    let error = sandbox.demo(&["call", "gallery", "--output", "art.bin"]).error(1);
    assert_eq!(error["message"], "art-2.bin exists and is not overwritten");
    assert_eq!(std::fs::read_to_string(&neighbour).unwrap(), "precious");
    assert!(!sandbox.dir.join("art-1.bin").exists());
    // A single file is saved under the name that the user gave, and overwritten.
    let logo = sandbox.write("logo.png", "old");
    sandbox.demo(&["read", "demo://logo", "--output", "logo.png"]).json();
    assert_ne!(std::fs::read(&logo).unwrap(), b"old");
}
