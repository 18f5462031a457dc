//! `wharf auth`: login, use of stored logins, logout.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::cli::{
    interrupts::Running,
    protected_server::{GUARDED, KNOWN, ProtectedServer, browse},
    pty::Pty,
    sandbox::{CommandOutput, PATIENCE, Sandbox, finished},
};

/// Browser script that records its arguments, one per line.
const BROWSER: &str = "#!/bin/sh\ncd \"$(dirname \"$0\")\" || exit 1\n\
                       { echo \"$#\"; printf '%s\\n' \"$@\"; } > opened.new\nmv opened.new opened\n";

/// Test user with a sandbox and a protected server.
pub(crate) struct TestUser {
    pub(crate) sandbox: Sandbox,
    pub(crate) gate: ProtectedServer,
}

impl TestUser {
    pub(crate) fn new(test: &str) -> Self {
        let sandbox = Sandbox::new(test);
        let browser = sandbox.write("browser", BROWSER);
        fs::set_permissions(browser, fs::Permissions::from_mode(0o755)).unwrap();
        let gate = ProtectedServer::new(&sandbox);
        TestUser { sandbox, gate }
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = self.sandbox.command(words);
        command.env("BROWSER", self.sandbox.dir.join("browser")).env("NO_COLOR", "1");
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> CommandOutput {
        finished(self.command(words), "")
    }

    /// URL with which the browser was opened; waits for it.
    pub(crate) fn opened(&self) -> String {
        let file = self.sandbox.dir.join("opened");
        let deadline = Instant::now() + PATIENCE;
        while !file.exists() {
            assert!(Instant::now() < deadline, "no browser was started");
            thread::sleep(Duration::from_millis(10));
        }
        let text = fs::read_to_string(&file).unwrap();
        fs::remove_file(file).unwrap();
        let [count, url] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text:?}") };
        assert_eq!(count, "1");
        url.to_owned()
    }

    /// Logs in with additional arguments.
    pub(crate) fn log_in(&self, words: &[&str]) -> Value {
        let url = self.gate.url.clone();
        let running = Running::start(self.command(&[&["auth", "login", &url], words].concat()));
        let page = browse(&self.opened());
        assert!(page.contains("You can close this window"), "{page}");
        let told = running.line();
        let (code, err) = running.end();
        assert_eq!(code, 0, "{err}");
        told
    }

    pub(crate) fn logins(&self) -> PathBuf {
        self.sandbox.dir.join("wharf/logins.json")
    }
}

/// Value of a parameter of an authorization URL.
pub(crate) fn asked(url: &str, name: &str) -> String {
    let url = url::Url::parse(url).unwrap();
    let found = url.query_pairs().find(|(known, _)| known == name);
    found.map(|(_, value)| value.into_owned()).unwrap_or_default()
}

#[test]
fn every_command_uses_the_login() {
    let me = TestUser::new("auth-login");
    let url = me.gate.url.clone();
    let told = me.log_in(&[]);
    assert_eq!(told["logins"][0]["server"], json!(url));
    assert_eq!(told["logins"][0]["scopes"], json!(["notes:read"]));
    for era in ["modern", "legacy"] {
        let sum = me.run(&["call", &url, "add", "a=1", "b=2", "--era", era]).json();
        assert_eq!(sum["content"][0]["text"], "3", "{era}");
        assert!(me.run(&["list", &url, "tools", "--era", era]).json()["tools"].is_array());
    }
    me.run(&["read", &url, "demo://readme"]).json();
    me.run(&["inspect", &url]).json();
    let bench = me.run(&["bench", &url, "--count", "4", "--connections", "2"]).json();
    assert_eq!(bench["errors"], 0);
    assert_eq!((me.gate.count("POST /register"), me.gate.count("POST /token")), (1, 1));
}

#[test]
fn stored_logins_are_owner_only_and_never_printed() {
    let me = TestUser::new("auth-kept");
    let url = me.gate.url.clone();
    let ran = me.run(&["auth", "status", &url]).error(3);
    assert!(ran["hint"].as_str().unwrap().contains(&format!("wharf auth login {url}")), "{ran}");
    assert_eq!(me.run(&["auth", "status"]).json()["logins"], json!([]));
    let told = me.log_in(&[]).to_string();
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(me.logins()), mode(me.sandbox.dir.join("wharf"))), (0o600, 0o700));
    let secrets: Vec<String> = {
        let state = me.gate.state();
        state.access.keys().chain(state.refresh.keys()).cloned().collect()
    };
    let kept = fs::read_to_string(me.logins()).unwrap();
    let status = me.run(&["auth", "status", &url]);
    let mut command = me.command(&["auth", "status"]);
    command.env("COLUMNS", "200");
    let (_, shown) = Pty::start(command).end();
    for secret in secrets {
        assert!(kept.contains(&secret), "{secret}");
        for text in [&told, &status.out, &status.err, &shown] {
            assert!(!text.contains(&secret), "{text}");
        }
    }
    assert!(shown.contains(&url) && shown.contains("notes:read"), "{shown}");
    let status = status.json();
    assert_eq!(status["logins"][0]["renewed"], true);
    assert_eq!(status["token_store"]["file"], json!(me.logins()));
    // Other users may have read the file, so it is not used until its permissions are fixed.
    fs::set_permissions(me.logins(), fs::Permissions::from_mode(0o644)).unwrap();
    for words in [["list", &url, "tools"], ["auth", "status", &url], ["auth", "logout", &url]] {
        let error = me.run(&words).error(3);
        assert!(error["message"].as_str().unwrap().contains("chmod 600"), "{error}");
    }
}

#[test]
fn a_login_requires_consent() {
    let me = TestUser::new("auth-pipe");
    let url = me.gate.url.clone();
    for words in [vec!["list", &url], vec!["call", &url, "add", "a=1", "b=2", "--json"]] {
        let error = me.run(&words).error(3);
        let hint = format!("`wharf auth login {url}`");
        assert!(error["hint"].as_str().unwrap().contains(&hint), "{error}");
    }
    // At a terminal, but with JSON output.
    let (code, shown) = Pty::start(me.command(&["list", &url, "--json"])).end();
    assert!(code == 3 && shown.contains("wharf auth login"), "{shown}");
    assert_eq!(me.gate.count("/register") + me.gate.count("/authorize"), 0);
}

#[test]
fn logging_in_again_asks_for_more_besides() {
    let me = TestUser::new("auth-union");
    me.log_in(&[]);
    let url = me.gate.url.clone();
    let words = ["auth", "login", &url, "--scope", "notes:write", "--scope", "extra"];
    let running = Running::start(me.command(&words));
    let page = me.opened();
    let mut scopes: Vec<_> = asked(&page, "scope").split(' ').map(str::to_owned).collect();
    scopes.sort_unstable();
    assert_eq!(scopes, ["extra", "notes:read", "notes:write"]);
    browse(&page);
    assert_eq!(running.end().0, 0);
    assert_eq!(
        me.run(&["call", &url, GUARDED.0, "text=ahoy"]).json()["content"][0]["text"],
        "ahoy"
    );
    assert_eq!(me.gate.count("POST /register"), 1);
}

#[test]
fn an_expired_token_is_renewed_once_for_concurrent_calls() {
    let me = TestUser::new("auth-expired");
    let url = me.gate.url.clone();
    me.log_in(&[]);
    me.gate.expire();
    let words = ["call", &url, "add", "a=1", "b=2"];
    let running: Vec<_> = (0..6).map(|_| Running::start(me.command(&words))).collect();
    for one in running {
        assert_eq!(one.line()["content"][0]["text"], "3");
        let (code, err) = one.end();
        assert_eq!(code, 0, "{err}");
    }
    assert_eq!(me.gate.count("grant_type=refresh_token"), 1);
    // A login that cannot be renewed has expired.
    me.gate.expire();
    me.gate.state().refresh.clear();
    let error = me.run(&words).error(3);
    assert!(error["hint"].as_str().unwrap().contains("wharf auth login"), "{error}");
}

#[test]
fn logging_out_revokes_and_removes_the_tokens() {
    let me = TestUser::new("auth-logout");
    let url = me.gate.url.clone();
    me.run(&["auth", "logout", &url]).error(3);
    me.log_in(&[]);
    let told = me.run(&["auth", "logout", &url]).json();
    assert_eq!(told["loggedOut"][0]["server"], json!(url), "{told}");
    let state = me.gate.state();
    assert!(state.refresh.is_empty(), "{:?}", state.log);
    drop(state);
    assert!(!me.logins().exists());
    me.run(&["list", &url]).error(3);
    me.log_in(&[]);
    assert_eq!(me.run(&["auth", "logout", "--all"]).code, 0);
    assert_eq!(me.run(&["auth", "status"]).json()["logins"], json!([]));
}

#[test]
fn a_header_of_the_users_own_goes_before_a_login() {
    let me = TestUser::new("auth-header");
    let url = me.gate.url.clone();
    me.log_in(&[]);
    me.gate.state().access.insert("mine".to_owned(), "notes:read notes:write".to_owned());
    let words = ["call", &url, GUARDED.0, "text=ahoy", "--header"];
    let ran = me.run(&[&words[..], &["Authorization: Bearer mine"]].concat());
    assert_eq!(ran.json()["content"][0]["text"], "ahoy");
    me.run(&[&words[..], &["authorization: Bearer wrong"]].concat()).error(3);
    assert_eq!(me.gate.count("refresh_token="), 0);
}

/// CVE-2025-6514 (mcp-remote): the URL of the authorization page reached a shell.
#[test]
fn only_web_pages_are_opened() {
    let me = TestUser::new("auth-hostile");
    let url = me.gate.url.clone();
    for page in [
        "javascript:alert(1)//",
        "file:///etc/passwd",
        "data:text/html,x",
        "--version",
        "/usr/bin/id",
        "https://user:pw@127.0.0.1/authorize",
        "https://$(id)/",
        "https://a b/",
        "http://10.0.0.1/authorize",
    ] {
        me.gate.state().authorize = Some(page.to_owned());
        let ran = me.run(&["auth", "login", &url]);
        assert_eq!(ran.code, 3, "{page}: {ran:?}");
        assert!(!me.sandbox.dir.join("opened").exists(), "{page}");
    }
    // Shell metacharacters arrive unchanged, in a single argument.
    let at = url.replace("/mcp", "/authorize");
    me.gate.state().authorize = Some(format!("{at}?x=$(touch hacked)`id`;'\"&y=--z"));
    let running = Running::start(me.command(&["auth", "login", &url]));
    let page = me.opened();
    assert!(!page.contains(['$', '`', '\'', '"', ';', '(', ' ']), "{page}");
    assert_eq!(asked(&page, "x"), "$(touch hacked)`id`;'\"");
    browse(&page);
    assert_eq!(running.end().0, 0);
    assert!(!me.sandbox.dir.join("hacked").exists());
}

#[test]
fn a_program_logs_in_with_client_credentials() {
    let me = TestUser::new("auth-robot");
    let url = me.gate.url.clone();
    let issuer = url.strip_suffix("/mcp").unwrap();
    let words = ["auth", "login", &url, "--grant", "client-credentials", "--client-id", KNOWN.0];
    let words = [&words[..], &["--issuer", issuer]].concat();
    me.run(&words).error(1);
    let given = |place: &str| {
        let mut command = me.command(&[&words[..], &["--client-secret", place]].concat());
        command.env("ROBOT", KNOWN.1);
        finished(command, KNOWN.1)
    };
    let error = given(KNOWN.1).error(1);
    assert!(!error.to_string().contains(KNOWN.1), "{error}");
    for place in ["@env:ROBOT", "-", &me.sandbox.write_secret("secret", &format!("{}\n", KNOWN.1))]
    {
        let told = given(place).json();
        assert_eq!(told["logins"][0]["clientId"], KNOWN.0, "{place}");
        me.run(&["list", &url]).json();
        me.run(&["auth", "logout", &url]);
    }
    assert_eq!(me.gate.count("/register") + me.gate.count("GET /authorize"), 0);
    // An interactive login afterwards does not use the machine's credentials.
    given("@env:ROBOT").json();
    me.log_in(&[]);
    assert!(!fs::read_to_string(me.logins()).unwrap().contains("client_credentials"));
}

#[test]
fn logins_at_the_same_time_do_not_lose_each_other() {
    let sandbox = Sandbox::new("auth-together");
    let secret = sandbox.write_secret("secret", KNOWN.1);
    let gates = [
        ProtectedServer::new(&sandbox),
        ProtectedServer::new(&sandbox),
        ProtectedServer::new(&sandbox),
    ];
    let log_in = |gate: &ProtectedServer| {
        let words = ["auth", "login", &gate.url, "--grant", "client-credentials"];
        let issuer = gate.url.strip_suffix("/mcp").unwrap();
        let who = ["--client-id", KNOWN.0, "--client-secret", &secret, "--issuer", issuer];
        Running::start(sandbox.command(&[&words[..], &who].concat()))
    };
    let running: Vec<_> = gates.iter().map(log_in).collect();
    for one in running {
        let (code, err) = one.end();
        assert_eq!(code, 0, "{err}");
    }
    let status = sandbox.run(&["auth", "status"]).json();
    assert_eq!(status["logins"].as_array().unwrap().len(), gates.len(), "{status}");
    // A program obtains a new token when its old one has expired.
    gates[0].expire();
    sandbox.run(&["list", &gates[0].url]).json();
}

#[test]
fn logins_are_encrypted_with_a_keychain_key() {
    let me = TestUser::new("auth-keychain");
    let url = me.gate.url.clone();
    let tool = "#!/bin/sh\ncd \"$HOME\" || exit 1\necho \"$*\" >> calls\n\
                case $1 in store) cat > key;; lookup) cat key 2>/dev/null;; clear) rm key;; esac\n";
    let tool = me.sandbox.write("bin/secret-tool", tool);
    fs::set_permissions(tool, fs::Permissions::from_mode(0o755)).unwrap();
    let secret = me.sandbox.write_secret("secret", KNOWN.1);
    let run = |words: &[&str]| {
        let path = format!("{}:/usr/bin:/bin", me.sandbox.dir.join("bin").display());
        let mut command = me.command(words);
        command.env("WHARF_TOKEN_STORE", "keychain").env("PATH", path);
        finished(command, "")
    };
    let words = ["auth", "login", &url, "--grant", "client-credentials"];
    let issuer = url.strip_suffix("/mcp").unwrap();
    let who = ["--client-id", KNOWN.0, "--client-secret", &secret, "--issuer", issuer];
    let told = run(&[&words[..], &who].concat()).json();
    if !cfg!(target_os = "linux") {
        return;
    }
    assert_eq!(told["token_store"]["encrypted"], true, "{told}");
    let kept = fs::read_to_string(me.logins()).unwrap();
    assert!(!kept.contains("access-") && !kept.contains(KNOWN.1), "{kept}");
    run(&["list", &url]).json();
    let key = fs::read_to_string(me.sandbox.dir.join("key")).unwrap();
    assert!(!fs::read_to_string(me.sandbox.dir.join("calls")).unwrap().contains(&key));
    // Without the key the file cannot be decrypted, but a logout still works.
    fs::remove_file(me.sandbox.dir.join("key")).unwrap();
    let error = run(&["list", &url]).error(3);
    assert!(error["message"].as_str().unwrap().contains("keychain"), "{error}");
    assert_eq!(run(&["auth", "logout", &url]).code, 3);
    assert!(!me.logins().exists());
}

#[test]
fn only_servers_on_the_web_can_be_logged_in_at() {
    let sandbox = Sandbox::new("auth-elsewhere");
    for target in ["tcp://127.0.0.1:1", "unix:/tmp/x", "./server", "http://example.com/mcp"] {
        assert_eq!(sandbox.run(&["auth", "login", target]).code, 1, "{target}");
    }
}
