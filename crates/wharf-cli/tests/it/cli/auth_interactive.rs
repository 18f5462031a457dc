//! Interactive login at a terminal.

use std::fs;

use crate::cli::{
    auth::{TestUser, asked},
    interrupts::Running,
    protected_server::{GUARDED, browse},
    pty::{Pty, interrupt},
};

#[test]
fn an_interactive_user_can_log_in_during_a_command() {
    let me = TestUser::new("auth-on-the-way");
    let url = me.gate.url.clone();
    let words = ["call", &url, "add", "a=1", "b=2"];
    let mut pty = Pty::start(me.command(&words));
    pty.until("[y]es").type_line("n");
    let (code, shown) = pty.end();
    assert!(code == 3 && shown.contains("wharf auth login"), "{shown}");
    assert_eq!(me.gate.count("/register"), 0);
    let mut pty = Pty::start(me.command(&words));
    pty.until("[y]es").type_line("y");
    browse(&me.opened());
    let (code, shown) = pty.end();
    assert!(code == 0 && shown.ends_with("3\n"), "{shown}");
    // A second login is not necessary.
    let (code, shown) = Pty::start(me.command(&words)).end();
    assert_eq!((code, shown.as_str()), (0, "3\n"));
}

#[test]
fn more_scopes_are_asked_for_when_a_tool_needs_them() {
    let me = TestUser::new("auth-step-up");
    let url = me.gate.url.clone();
    me.log_in(&[]);
    let words = ["call", &url, GUARDED.0, "text=ahoy"];
    let error = me.run(&words).error(3);
    assert_eq!(error["kind"], "insufficient_scope", "{error}");
    assert_eq!(error["message"], format!("{url} requires more scopes than your login has"));
    let hint = format!("`wharf auth login {url} --scope {}`", GUARDED.1);
    assert!(error["hint"].as_str().unwrap().contains(&hint), "{error}");
    let mut pty = Pty::start(me.command(&words));
    pty.until("[y]es").type_line("y");
    let page = me.opened();
    assert_eq!(asked(&page, "scope"), "notes:read notes:write");
    browse(&page);
    let (code, shown) = pty.end();
    assert!(code == 0 && shown.ends_with("ahoy\n"), "{shown}");
    assert_eq!(me.run(&words).json()["content"][0]["text"], "ahoy");
}

#[test]
fn more_scopes_are_asked_for_right_after_a_login() {
    let me = TestUser::new("auth-twice");
    let mut pty = Pty::start(me.command(&["call", &me.gate.url, GUARDED.0, "text=ahoy"]));
    pty.until("requires a login").until("[y]es").type_line("y");
    browse(&me.opened());
    pty.until("requires more scopes than your login has").until("[y]es").type_line("y");
    let page = me.opened();
    assert_eq!(asked(&page, "scope"), "notes:read notes:write");
    browse(&page);
    let (code, shown) = pty.end();
    assert!(code == 0 && shown.ends_with("ahoy\n"), "{shown}");
    assert_eq!(shown.matches("requires a login").count(), 1, "{shown}");
}

#[test]
fn without_a_browser_the_address_is_shown_and_pasted_back() {
    let me = TestUser::new("auth-paste");
    let url = me.gate.url.clone();
    // A browser that does not start is handled like a missing one.
    let mut command = me.command(&["auth", "login", &url]);
    command.env("BROWSER", "false");
    let mut pty = Pty::start(command);
    pty.until("/authorize?").until("The browser did not start").until("paste").interrupt();
    assert_eq!(pty.end().0, 130);
    let mut pty = Pty::start(me.command(&["auth", "login", &url, "--no-browser"]));
    pty.until("http://127.0.0.1").until("paste");
    let page = pty.shown.split_whitespace().find(|word| word.contains("/authorize?"));
    let page = page.expect("the address is shown").to_owned();
    assert_eq!(asked(&page, "code_challenge_method"), "S256");
    pty.type_line("http://127.0.0.1:1/callback?code=x&state=y").until("another login");
    // A browser on another machine cannot reach the redirect URI: the user pastes the URL from its address bar.
    let back = redirected(&page);
    pty.type_line(&back);
    let (code, shown) = pty.end();
    assert!(code == 0 && shown.contains("notes:read"), "{shown}");
    assert!(!me.sandbox.dir.join("opened").exists());
    me.run(&["list", &url]).json();
    // A browser on this machine reaches the redirect URI, without input at the terminal.
    let mut pty = Pty::start(me.command(&["auth", "login", &url, "--no-browser"]));
    pty.until("paste");
    let page = pty.shown.split_whitespace().find(|word| word.contains("/authorize?"));
    browse(page.expect("the address is shown"));
    let (code, shown) = pty.end();
    assert!(code == 0 && shown.contains("notes:read") && !shown.contains("press"), "{shown}");
}

/// URL to which the authorization server redirects a browser that opens `page`.
fn redirected(page: &str) -> String {
    use std::io::{Read as _, Write as _};
    let rest = page.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let mut stream = std::net::TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let line = answer.lines().find_map(|line| line.strip_prefix("Location: "));
    line.expect("it sends us on").to_owned()
}

#[test]
fn a_rejection_is_reported() {
    let me = TestUser::new("auth-refused");
    me.gate.state().refuses = true;
    let running = Running::start(me.command(&["auth", "login", &me.gate.url]));
    let page = browse(&me.opened());
    assert!(page.contains("Not authorized"), "{page}");
    let (code, err) = running.end();
    assert!(code == 3 && err.contains("access_denied"), "{err}");
    assert!(!me.logins().exists() || !fs::read_to_string(me.logins()).unwrap().contains("access-"));
}

#[test]
fn ctrl_c_ends_the_waiting() {
    let me = TestUser::new("auth-interrupt");
    let running = Running::start(me.command(&["auth", "login", &me.gate.url]));
    me.opened();
    interrupt(&running.child);
    let (code, err) = running.end();
    assert!(code == 130 && err.contains("interrupted"), "{err}");
    // The authorization URL is in the JSON output too.
    assert!(err.contains(r#"{"login":{"#) && err.contains(r#""opened":true"#), "{err}");
}
