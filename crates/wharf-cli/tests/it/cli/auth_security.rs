//! Security of logins: issuer of a secret, private networks, revocation.

use std::{fs, os::unix::fs::symlink};

use serde_json::json;

use crate::cli::{
    auth::{TestUser, asked},
    interrupts::Running,
    protected_server::{GUARDED, KNOWN, ProtectedServer, browse},
    pty::Pty,
};

/// Authorization endpoint in a private network.
const PRIVATE: &str = "https://10.1.2.3";

/// Authorizes at the test server, as a browser in the private network would.
fn visit(me: &TestUser) {
    let page = me.opened();
    assert!(page.starts_with(PRIVATE), "{page}");
    let gate = me.gate.url.strip_suffix("/mcp").unwrap();
    browse(&page.replacen(PRIVATE, gate, 1));
}

#[test]
fn private_networks_need_permission() {
    let me = TestUser::new("auth-private");
    let url = me.gate.url.clone();
    me.gate.state().authorize = Some(format!("{PRIVATE}/authorize"));
    let error = me.run(&["auth", "login", &url]).error(3);
    assert!(error["message"].as_str().unwrap().contains("private network"), "{error}");
    assert!(error["hint"].as_str().unwrap().contains("--allow-private"), "{error}");

    let running = Running::start(me.command(&["auth", "login", &url, "--allow-private"]));
    visit(&me);
    let (code, err) = running.end();
    assert_eq!(code, 0, "{err}");
    // A permission that the user gave is stored with the login.
    let mut pty = Pty::start(me.command(&["call", &url, GUARDED.0, "text=ahoy"]));
    pty.until("[y]es").type_line("y");
    visit(&me);
    let (code, shown) = pty.end();
    assert!(code == 0 && shown.ends_with("ahoy\n"), "{shown}");
}

#[test]
fn a_login_on_the_way_may_lead_into_a_private_network_too() {
    let me = TestUser::new("auth-private-way");
    let url = me.gate.url.clone();
    me.gate.state().authorize = Some(format!("{PRIVATE}/authorize"));
    let words = ["call", &url, "add", "a=1", "b=2"];
    let mut pty = Pty::start(me.command(&words));
    pty.until("private network").until("--allow-private");
    assert_eq!(pty.end().0, 3);
    let mut pty = Pty::start(me.command(&[&words[..], &["--allow-private"]].concat()));
    pty.until("[y]es").type_line("y");
    visit(&me);
    let (code, shown) = pty.end();
    assert!(code == 0 && shown.ends_with("3\n"), "{shown}");
}

#[test]
fn a_secret_is_shown_only_to_the_issuer_that_it_is_for() {
    let me = TestUser::new("auth-issuer");
    let url = me.gate.url.clone();
    let issuer = url.strip_suffix("/mcp").unwrap();
    let secret = me.sandbox.write_secret("secret", KNOWN.1);
    let as_program = ["--grant", "client-credentials", "--client-id", KNOWN.0];
    let log_in = |issuer: &str| {
        let more = ["--client-secret", &secret, "--issuer", issuer];
        me.run(&[&["auth", "login", &url], &as_program[..], &more].concat())
    };
    let other = ProtectedServer::new(&me.sandbox);
    for wrong in [other.url.strip_suffix("/mcp").unwrap(), &format!("{issuer}/")] {
        let error = log_in(wrong).error(3);
        assert!(error["message"].as_str().unwrap().contains("nothing was sent"), "{error}");
    }
    assert_eq!((me.gate.count("/token"), other.count("")), (0, 0));
    assert!(!me.logins().exists());
    assert_eq!(log_in(issuer).json()["logins"][0]["issuer"], json!(issuer));
    assert_eq!(me.gate.count("/token"), 1);
    me.run(&["list", &url]).json();
}

/// CVE-2026-104850, WS-2026-0196: without `--issuer` the MCP server would choose who gets the secret.
#[test]
fn a_secret_needs_an_issuer_or_a_yes_at_the_terminal() {
    let me = TestUser::new("auth-no-issuer");
    let url = me.gate.url.clone();
    let issuer = url.strip_suffix("/mcp").unwrap();
    let secret = me.sandbox.write_secret("secret", KNOWN.1);
    let who = ["--client-id", KNOWN.0, "--client-secret", &secret];
    for grant in ["client-credentials", "browser"] {
        let words = [&["auth", "login", &url, "--grant", grant], &who[..]].concat();
        let error = me.run(&words).error(3);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(&format!("--issuer {issuer}`")), "{error}");
        let mut pty = Pty::start(me.command(&words));
        pty.until(&format!("authorization server is {issuer}. Send it your client secret?"));
        pty.until("[N]o").type_line("n");
        assert_eq!(pty.end().0, 3);
    }
    assert_eq!(me.gate.count("/token") + me.gate.count("GET /authorize"), 0);
    let state = me.logins();
    assert!(!state.parent().unwrap().exists(), "a failed login leaves nothing behind");
    let words = [&["auth", "login", &url, "--grant", "client-credentials"], &who[..]].concat();
    let mut pty = Pty::start(me.command(&words));
    pty.until("[N]o").type_line("y");
    assert_eq!(pty.end().0, 0);
    assert_eq!(me.gate.count("/token"), 1);
    // From then on, the login determines the issuer.
    me.gate.expire();
    me.run(&["list", &url]).json();
    assert_eq!(me.gate.count("/token"), 2);
}

#[test]
fn a_logout_failure_is_reported() {
    let me = TestUser::new("auth-stays");
    let url = me.gate.url.clone();
    me.log_in(&[]);
    // Nothing is written through a lock file that is a symbolic link.
    let lock = me.logins().with_file_name("logins.json.lock");
    fs::remove_file(&lock).unwrap();
    symlink(me.sandbox.dir.join("elsewhere"), &lock).unwrap();
    let ran = me.run(&["auth", "logout", &url]);
    let error = ran.printed_error(3);
    assert_eq!(error["message"], format!("You are still logged in at {url}"));
    assert!(error["hint"].as_str().unwrap().contains("symbolic link"), "{error}");
    assert_eq!(ran.out, "{\"loggedOut\":[]}\n");
    fs::remove_file(&lock).unwrap();
    assert_eq!(me.run(&["auth", "status"]).json()["logins"].as_array().unwrap().len(), 1);
    me.run(&["auth", "logout", &url]);
    assert!(!me.logins().exists());
}

#[test]
fn the_browser_command_line_has_no_secrets() {
    let me = TestUser::new("auth-argv");
    let url = me.gate.url.clone();
    let secret = me.sandbox.write_secret("secret", "s3cr3t-of-mine");
    let issuer = url.strip_suffix("/mcp").unwrap();
    let words = ["auth", "login", &url, "--client-id", "mine", "--client-secret", &secret];
    let words = [&words[..], &["--issuer", issuer]].concat();
    let running = Running::start(me.command(&words));
    let page = me.opened();
    browse(&page);
    let (code, err) = running.end();
    assert_eq!(code, 0, "{err}");
    let redeemed = me.gate.state().log.iter().find(|it| it.contains("/token")).unwrap().clone();
    let verifier = redeemed.split("code_verifier=").nth(1).unwrap().split('&').next().unwrap();
    assert!(verifier.len() >= 43 && asked(&page, "code_challenge") != verifier);
    for secret in ["s3cr3t-of-mine", verifier, "code-", "access-", "refresh-"] {
        assert!(!page.contains(secret), "{page}");
    }
}
