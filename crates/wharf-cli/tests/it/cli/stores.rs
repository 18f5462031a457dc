//! Demo server whose tasks survive its restart.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::cli::{
    sandbox::{DemoServer, PATIENCE, Sandbox, finished},
    tasks::{ERAS, start_voyage},
};

const STORED: [&str; 5] = ["serve", "--http", "127.0.0.1:0", "--store", "sqlite:tasks.db"];

#[test]
fn tasks_survive_a_kill_of_the_server() {
    let sandbox = Sandbox::new("stores-killed");
    let served = DemoServer::start(&sandbox, &STORED);
    let tasks = ERAS.map(|era| {
        let done = start_voyage(&sandbox, &served.url, era, "days=0");
        sandbox.run(&["tasks", "resume", &served.url, &done, "--era", era]).json();
        (era, done, start_voyage(&sandbox, &served.url, era, "days=600"))
    });
    // The server is killed without graceful shutdown.
    drop(served);
    let served = DemoServer::start(&sandbox, &STORED);
    for (era, done, working) in tasks {
        let get = |id: &str| sandbox.run(&["tasks", "get", &served.url, id, "--era", era]).json();
        assert_eq!(get(&done)["result"]["content"][0]["text"], "reached Lisbon", "{era}");
        assert_eq!(get(&working)["status"], "working", "{era}");
    }
}

#[test]
fn encrypted_tasks_need_the_key() {
    let sandbox = Sandbox::new("stores-sealed");
    sandbox.write("key", &"42".repeat(32));
    let holds = |words: &[&str], file: &str| {
        let url = format!("sqlite:{file}");
        let served = DemoServer::start(&sandbox, &[&STORED[..4], &[&url], words].concat());
        let id = start_voyage(&sandbox, &served.url, "modern", "days=0");
        sandbox.run(&["tasks", "resume", &served.url, &id]).json();
        drop(served);
        let bytes = ["", "-wal"].map(|end| fs::read(sandbox.dir.join(format!("{file}{end}"))));
        let bytes = bytes.into_iter().flatten().flatten().collect::<Vec<_>>();
        bytes.windows(6).any(|word| word == b"Lisbon")
    };
    assert!(holds(&[], "open.db"));
    assert!(!holds(&["--store-key", "key"], "sealed.db"));
}

#[test]
fn an_unusable_store_is_reported_with_advice() {
    let sandbox = Sandbox::new("stores-wrong");
    let key = "42".repeat(32);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gone = format!("redis://me:secret@{free}/0");
    for (words, code, says) in [
        (&["--store", "mysql://me:secret@host"][..], 1, "sqlite:PATH"),
        (&["--store", "sqlite:no/such/folder.db"], 1, "no/such/folder.db"),
        (&["--store", "@env:WHARF_NOT_SET"], 1, "WHARF_NOT_SET"),
        (&["--store-key", "key"], 1, "--store"),
        (&["--store", "memory:", "--store-key", &key], 1, "file"),
        (&["--store", "memory:", "--store-key", "no-such-key"], 1, "no-such-key"),
        (&["--store", &gone], 4, &free.to_string()),
    ] {
        let error = sandbox.run(&[&["serve"], words].concat()).error(code);
        let told = Value::to_string(&error);
        assert!(told.contains(says), "{words:?}: {told}");
        assert!(!told.contains("secret") && !told.contains(&key), "{words:?}: {told}");
    }
}

/// Sends a `GET` request as a load balancer does, and returns status and body.
fn get(served: &DemoServer, path: &str) -> (u16, String) {
    let address = served.url.trim_start_matches("http://").trim_end_matches("/mcp");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: 10.0.0.1\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[test]
fn a_load_balancer_sees_when_the_store_fails_and_when_it_is_back() {
    let sandbox = Sandbox::new("stores-ready");
    let served = DemoServer::start(&sandbox, &STORED);
    let becomes = |expected: u16| {
        let deadline = Instant::now() + PATIENCE;
        while get(&served, "/ready").0 != expected {
            assert!(Instant::now() < deadline, "/ready does not become {expected}");
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(get(&served, "/live").0, 200);
    };
    becomes(200);
    let (file, away) = (sandbox.dir.join("tasks.db"), sandbox.dir.join("away.db"));
    fs::rename(&file, &away).unwrap();
    becomes(503);
    // The endpoint is public, so the response names neither the file nor the cause.
    let (_, body) = get(&served, "/ready");
    assert!(!body.contains("tasks.db") && !body.contains("store"), "{body}");
    fs::rename(&away, &file).unwrap();
    becomes(200);
}

#[test]
fn the_task_store_is_printed() {
    let sandbox = Sandbox::new("stores-told");
    let ran = sandbox.run(&["serve", "--store", "sqlite:tasks.db"]);
    assert!(ran.code == 0 && ran.err.contains("Tasks are stored in sqlite:tasks.db."), "{ran:?}");
}

/// Audit 17.
#[test]
fn a_key_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = Sandbox::new("open-key");
    let key = sandbox.write("key", &"42".repeat(32));
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    for words in [
        &["serve", "--store", "memory:", "--store-key", "key"][..],
        &["serve", "--http", "127.0.0.1:0", "--tls-cert", "key", "--tls-key", "key"],
        &["auth", "login", "http://127.0.0.1:1/mcp", "--client-id", "a", "--client-secret", "key"],
    ] {
        let error = sandbox.run(words).error(1);
        assert!(error["message"].as_str().unwrap().contains("chmod 600 key"), "{error}");
    }
}

#[test]
fn the_printed_serve_address_works() {
    let sandbox = Sandbox::new("serve-says");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for transport in ["--http", "--tcp"] {
        let ran = sandbox.run(&["serve", transport, &address]);
        ran.printed_error(1);
        assert!(!ran.err.contains("Give clients") && !ran.err.contains("serving"), "{ran:?}");
    }
    let mut command = sandbox.command(&["serve", "--http", "0.0.0.0:0", "--log-format", "text"]);
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let lines = crate::cli::sandbox::lines(child.stderr.take().unwrap());
    let told = |part: &str| {
        let next = || lines.recv_timeout(crate::cli::sandbox::PATIENCE).ok();
        assert!(std::iter::from_fn(next).any(|line| line.contains(part)), "{part}");
    };
    told("serving at http://localhost:");
    told("every client that reaches this port can call it");
    told("Host header");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn rust_log_filters_the_log() {
    let sandbox = Sandbox::new("rust-log");
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let err = |level: Option<&str>| {
        let mut command = sandbox.command(&["serve"]);
        command.envs(level.map(|level| ("RUST_LOG", level)));
        finished(command, &format!("{call}\n")).err
    };
    assert!(err(Some("info")).contains("call finished"));
    assert!(!err(None).contains("call finished"));
    let mut command = sandbox.command(&["serve"]);
    command.env("RUST_LOG", "wharf=loud");
    let error = finished(command, "").error(1);
    assert!(error["message"].as_str().unwrap().starts_with("RUST_LOG: "), "{error}");
}
