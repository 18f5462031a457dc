//! `wharf bridge`: pairs of eras and transports, failures of the server, and the end of its processes.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::Receiver,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};

use crate::cli::{
    protected_server::ProtectedServer,
    pty::send,
    sandbox::{DemoServer, PATIENCE, Sandbox, WHARF, ended, lines, rest},
};

const ERAS: [&str; 2] = ["modern", "legacy"];

/// Calls of each kind, with a text of their results.
const CALLS: [(&[&str], &str); 8] = [
    (&["list"], "\"add\""),
    (&["inspect"], "wharf-demo"),
    (&["call", "add", "a=1", "b=2"], "\"text\":\"3\""),
    (&["call", "countdown", "from=2"], "content"),
    (&["read", "demo://readme"], "contents"),
    (&["prompt", "greet", "name=Ann"], "Ann"),
    (&["complete", "prompt", "review", "language", "r"], "rust"),
    (&["rpc", "tools/list"], "\"add\""),
];

/// Runs every call with `target`, which begins with a URL or `--`.
fn check_calls(sandbox: &Sandbox, era: &str, target: &[&str], what: &str) {
    for (words, text) in CALLS {
        let (verb, rest) = words.split_first().unwrap();
        let is_command = target[0] == "--";
        let (before, after) = if is_command { (&[][..], target) } else { (target, &[][..]) };
        let line = [&[*verb, "--era", era][..], before, rest, after].concat();
        let ran = sandbox.run(&line);
        assert_eq!(ran.code, 0, "{what}: {words:?}: {ran:?}");
        assert!(ran.out.contains(text), "{what}: {words:?}: {ran:?}");
    }
}

#[test]
fn all_pairs_of_eras_over_stdio_and_http() {
    let sandbox = Sandbox::new("bridge-pairs");
    let demo = DemoServer::http(&sandbox);
    for back in ERAS {
        let started = ["--", WHARF, "bridge", "--era", back, "--", WHARF, "serve"];
        let remote = ["--", WHARF, "bridge", "--era", back, &*demo.url];
        let words = ["bridge", "--http", "127.0.0.1:0", "--era", back, "--", WHARF, "serve"];
        let http = DemoServer::start(&sandbox, &words);
        for front in ERAS {
            let what = format!("{front} to {back}");
            check_calls(&sandbox, front, &started, &format!("{what}, stdio to stdio"));
            check_calls(&sandbox, front, &remote, &format!("{what}, stdio to HTTP"));
            check_calls(&sandbox, front, &[&http.url], &format!("{what}, HTTP to stdio"));
        }
    }
}

#[test]
fn unix_and_tcp_sockets_are_fronts_too() {
    let sandbox = Sandbox::new("bridge-sockets");
    let path = sandbox.dir.join("b.sock").display().to_string();
    for front in [&["--tcp", "127.0.0.1:0"][..], &["--unix", &path]] {
        let words = [&["bridge"], front, &["--", WHARF, "serve"]].concat();
        let bridge = DemoServer::start(&sandbox, &words);
        check_calls(&sandbox, "legacy", &[&bridge.url], front[0]);
    }
}

#[test]
fn tools_are_hidden_and_refused_by_their_names() {
    let sandbox = Sandbox::new("bridge-filter");
    let filter = ["--allow", "a*", "--allow", "echo", "--deny", "ad?"];
    let target = [&["--", WHARF, "bridge"], &filter[..], &["--", WHARF, "serve"]].concat();
    for era in ERAS {
        let ran = |words: &[&str]| sandbox.run(&[words, &["--era", era], &target].concat());
        let listed = ran(&["list", "tools"]).json();
        let names: Vec<&str> = listed["tools"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|it| it["name"].as_str())
            .collect();
        assert!(
            names.contains(&"echo") && names.iter().all(|it| it.starts_with('a') || *it == "echo")
        );
        assert!(!names.contains(&"add"), "{names:?}");
        let refused = ran(&["rpc", "tools/call", r#"{"name":"add","arguments":{"a":1,"b":2}}"#]);
        assert!(refused.code != 0 && refused.err.contains("add"), "{era}: {refused:?}");
    }
}

/// Client on the stdin and stdout of a bridge.
struct BridgeOnStdio {
    child: Child,
    stdin: Option<ChildStdin>,
    out: Receiver<String>,
    err: Receiver<String>,
}

impl BridgeOnStdio {
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (out, err) = (lines(child.stdout.take().unwrap()), lines(child.stderr.take().unwrap()));
        BridgeOnStdio { stdin: child.stdin.take(), child, out, err }
    }

    /// Sends a request and returns its reply.
    fn request(&mut self, method: &str, params: Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        writeln!(self.stdin.as_mut().unwrap(), "{request}").unwrap();
        let line = self.out.recv_timeout(PATIENCE).expect("a reply");
        serde_json::from_str(&line).unwrap()
    }

    fn initialize(&mut self) -> Value {
        let info = json!({"name": "tester", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info});
        self.request("initialize", params)
    }
}

impl Drop for BridgeOnStdio {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Shell script of a server whose process group has a second process, which ignores the end of stdin and SIGTERM. The
/// ids of both are added to the file `pids`.
const SERVER_WITH_HELPER: &str =
    "trap '' TERM; sleep 600 >/dev/null 2>&1 & trap - TERM; echo $$ $! >> pids; exec \"$0\" serve";

fn bridge_with_helper(sandbox: &Sandbox) -> Command {
    sandbox.command(&["bridge", "--", "sh", "-c", SERVER_WITH_HELPER, WHARF])
}

/// Process ids in the file `pids`, of all servers that were started.
fn started_processes(sandbox: &Sandbox) -> Vec<Pid> {
    let text = fs::read_to_string(sandbox.dir.join("pids")).unwrap_or_default();
    text.split_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?)).collect()
}

/// Waits until none of the processes runs. A process that was not reaped yet has ended.
fn wait_until_ended(processes: &[Pid], what: &str) {
    let deadline = Instant::now() + PATIENCE;
    let runs = |id: &Pid| {
        let status = fs::read_to_string(format!("/proc/{}/stat", id.as_raw_nonzero()));
        let is_zombie = status.is_ok_and(|it| it.contains(") Z "));
        !is_zombie && test_kill_process(*id).is_ok()
    };
    while let Some(left) = processes.iter().find(|id| runs(id)) {
        assert!(Instant::now() < deadline, "{what}: {left:?} stayed behind");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_end_of_the_bridge_ends_the_process_group_of_the_server() {
    type End = fn(&mut BridgeOnStdio);
    let ways: [(&str, End); 3] = [
        ("end of stdin", |bridge| drop(bridge.stdin.take())),
        ("SIGTERM", |bridge| send(&bridge.child, Signal::TERM)),
        ("SIGINT", |bridge| send(&bridge.child, Signal::INT)),
    ];
    for (what, end) in ways {
        let sandbox = Sandbox::new("bridge-group");
        let mut bridge = BridgeOnStdio::start(bridge_with_helper(&sandbox));
        assert_eq!(bridge.initialize()["result"]["serverInfo"]["name"], "wharf-demo", "{what}");
        let processes = started_processes(&sandbox);
        assert_eq!(processes.len(), 2, "{what}");
        end(&mut bridge);
        ended(&mut bridge.child);
        wait_until_ended(&processes, what);
    }
}

/// A client that stops its servers closes stdin first and sends SIGTERM soon after.
#[test]
fn a_second_request_to_end_kills_a_stubborn_server() {
    let sandbox = Sandbox::new("bridge-stubborn");
    let stubborn = "trap '' TERM; echo $$ >> pids; \"$0\" serve; while :; do sleep 1; done";
    let words = ["bridge", "--", "sh", "-c", stubborn, WHARF];
    let mut bridge = BridgeOnStdio::start(sandbox.command(&words));
    bridge.initialize();
    let processes = started_processes(&sandbox);
    send(&bridge.child, Signal::TERM);
    // Sent until the process ends, because two signals that arrive together are one.
    while bridge.child.try_wait().unwrap().is_none() {
        send(&bridge.child, Signal::TERM);
        thread::sleep(Duration::from_millis(20));
    }
    wait_until_ended(&processes, "a second SIGTERM");
}

#[test]
fn a_killed_server_is_replaced_and_a_killed_bridge_leaves_no_server() {
    let sandbox = Sandbox::new("bridge-killed");
    let mut bridge = BridgeOnStdio::start(bridge_with_helper(&sandbox));
    bridge.initialize();
    let first = started_processes(&sandbox);
    kill_process(first[0], Signal::KILL).unwrap();
    let deadline = Instant::now() + PATIENCE;
    // A call that was in flight when the connection broke, or comes within the delay before a restart, fails.
    while bridge.request("tools/list", json!({}))["result"]["tools"].is_null() {
        assert!(Instant::now() < deadline, "the server was not replaced");
    }
    wait_until_ended(&first, "the killed server and its helper");
    let all = started_processes(&sandbox);
    assert_eq!(all.len(), 4, "one more server was started");
    bridge.child.kill().unwrap();
    // The server reads the end of its stdin. Its helper reads nothing, and only the kernel could end it.
    wait_until_ended(&all[2..3], "the server of a killed bridge");
    let _ = kill_process(all[3], Signal::KILL);
}

#[test]
fn an_unavailable_server_is_named_and_no_secret_is() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}/mcp?key=s3cret");
    for (target, name) in [
        (&["--header", "X-Key: s3cret", &*url][..], format!("127.0.0.1:{port}")),
        (&["--env", "KEY=s3cret", "--", "false", "s3cret"], "`false`".to_owned()),
        (&["--", "wharf-no-such-program", "s3cret"], "`wharf-no-such-program`".to_owned()),
    ] {
        let sandbox = Sandbox::new("bridge-dead");
        let mut bridge = BridgeOnStdio::start(sandbox.command(&[&["bridge"], target].concat()));
        let message = bridge.initialize()["error"]["message"].to_string();
        assert!(message.contains(&name), "{message}");
        drop(bridge.stdin.take());
        assert_eq!(ended(&mut bridge.child).code(), Some(0));
        let log = rest(&bridge.err);
        assert!(!message.contains("s3cret") && !log.contains("s3cret"), "{message} {log}");
    }
}

/// The front of a server that never answers: health checks are answered, and a signal ends both.
#[test]
fn a_hanging_server_does_not_delay_the_front() {
    let sandbox = Sandbox::new("bridge-hangs");
    let script = "echo $$ >> pids; exec sleep 600";
    let words = ["bridge", "--http", "127.0.0.1:0", "--", "sh", "-c", script];
    let bridge = DemoServer::start(&sandbox, &words);
    let address = bridge.url.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /live HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut status = String::new();
    BufReader::new(&stream).read_line(&mut status).unwrap();
    assert!(status.contains(" 200 "), "{status}");
    let _ = stream.read_to_string(&mut String::new());
    let deadline = Instant::now() + PATIENCE;
    while started_processes(&sandbox).is_empty() {
        assert!(Instant::now() < deadline, "the server was not started");
        thread::sleep(Duration::from_millis(10));
    }
    bridge.signal(Signal::TERM);
    wait_until_ended(&started_processes(&sandbox), "a hanging server");
}

#[test]
fn a_missing_login_ends_the_bridge_with_a_hint() {
    let sandbox = Sandbox::new("bridge-login");
    let protected = ProtectedServer::new(&sandbox);
    let mut bridge = BridgeOnStdio::start(sandbox.command(&["bridge", &protected.url]));
    let message = bridge.initialize()["error"]["message"].to_string();
    let login = format!("wharf auth login {}", protected.url);
    assert!(message.contains(&login), "{message}");
    assert_eq!(ended(&mut bridge.child).code(), Some(3));
    let said = rest(&bridge.err);
    let error: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert!(error["error"]["hint"].as_str().unwrap().contains(&login), "{said}");
}

#[test]
fn command_lines_of_other_bridges_work() {
    let sandbox = Sandbox::new("bridge-foreign");
    let demo = DemoServer::http(&sandbox);
    let line = format!("'{WHARF}' serve");
    // supergateway and mcp-proxy, which serve a command over HTTP
    for words in [
        &["--stdio", &*line, "--outputTransport", "streamableHttp", "--port", "0", "--stateful"][..],
        &["--stdio", &*line, "--outputTransport", "sse", "--port", "0", "--ssePath", "/sse"],
        &["--port", "0", "--host", "127.0.0.1", "--pass-environment", "--", WHARF, "serve"],
    ] {
        let bridge = DemoServer::start(&sandbox, &[&["bridge"], words].concat());
        let called = sandbox.run(&["call", &bridge.url, "add", "a=1", "b=2"]);
        assert!(called.json()["content"][0]["text"] == "3", "{words:?}: {called:?}");
    }
    // mcp-remote and supergateway, which serve a URL over stdio
    let url = &*demo.url;
    for words in [
        &[url, "--allow-http", "--transport", "http-first", "--header", "X-Key: ${HOME}"][..],
        &["--streamableHttp", url, "--oauth2Bearer", "t"],
        &["--sse", url, "--headers", "X-Key", "a"],
    ] {
        let words = [&["call", "add", "a=1", "b=2", "--", WHARF, "bridge"], words].concat();
        let called = sandbox.run(&words);
        assert!(called.json()["content"][0]["text"] == "3", "{words:?}: {called:?}");
    }
    for (words, advice) in [
        (&[url, "--cors"][..], "--allow-origin"),
        (&[url, "--port", "0", "--ssePath", "/events"], "/sse"),
        (&[url, "--static-oauth-client-info", "{}"], "wharf auth login"),
        (&[url, "--transport", "pigeon"], "http-first"),
        (&[url, "--outputTransport", "pigeon"], "streamableHttp"),
        (&[url, "--header", "X-Key: ${WHARF_NOT_SET}"], ""),
        (&["npx", "server"], "after `--`"),
    ] {
        let error = sandbox.run(&[&["bridge"], words].concat()).error(1);
        let hint = error["hint"].as_str().unwrap_or_default();
        assert!(hint.contains(advice), "{words:?}: {error}");
    }
}
