//! The same commands over every transport, in both eras.

use crate::cli::sandbox::{DemoServer, Sandbox, WHARF, finished};

#[test]
fn the_same_over_every_transport_and_era() {
    let sandbox = Sandbox::new("transports");
    let http = DemoServer::start(&sandbox, &["serve", "--http", "127.0.0.1:0", "--sse"]);
    let web = http.url.replacen("http:", "ws:", 1);
    let events = http.url.replace("/mcp", "/sse");
    let mut targets = vec![
        (http.url.clone(), vec!["modern", "legacy", "2025-03-26"]),
        (web, vec!["modern", "legacy"]),
        (events, vec!["2024-11-05"]),
    ];
    let tcp = DemoServer::start(&sandbox, &["serve", "--tcp", "127.0.0.1:0"]);
    targets.push((tcp.url.clone(), vec!["modern", "legacy", "2024-11-05"]));
    for (target, eras) in &targets {
        for era in eras {
            let words = ["call", target, "add", "a=1", "b=2", "--era", era];
            let result = sandbox.run(&words).json();
            assert_eq!(result["content"][0]["text"], "3", "{target} {era}");
        }
        let result = sandbox.run(&["call", target, "countdown", "from=3"]).json();
        assert_eq!(result["content"][0]["text"], "lift-off", "{target}");
    }
}

#[cfg(unix)]
#[test]
fn a_unix_socket_is_reached_by_its_path() {
    let sandbox = Sandbox::new("unix");
    let path = sandbox.dir.join("s").to_string_lossy().into_owned();
    let served = DemoServer::start(&sandbox, &["serve", "--unix", &path]);
    let result = sandbox.run(&["call", &served.url, "echo", "text=hi"]).json();
    assert_eq!(result["content"][0]["text"], "hi");
}

#[test]
fn the_protocol_version_of_a_server_is_cached() {
    let sandbox = Sandbox::new("verdicts");
    let first = sandbox.demo(&["inspect"]).json();
    let second = sandbox.demo(&["inspect"]).json();
    assert_eq!(first, second);
    let mut files = walk(&sandbox.dir);
    assert!(files.any(|file| file.ends_with("revisions.json")), "{}", sandbox.dir.display());
}

fn walk(dir: &std::path::Path) -> Box<dyn Iterator<Item = std::path::PathBuf>> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    Box::new(
        entries.flat_map(
            |path| if path.is_dir() { walk(&path) } else { Box::new([path].into_iter()) },
        ),
    )
}

#[test]
fn a_header_reaches_the_server_and_its_value_stays_off_the_command_line() {
    let sandbox = Sandbox::new("header");
    let served = DemoServer::http(&sandbox);
    // The demo server rejects other origins; the rejection shows that the header arrived.
    let refused = sandbox.run(&["list", &served.url, "--header", "Origin: https://evil.example"]);
    refused.error(3);
    let mut command = sandbox.command(&["list", &served.url, "--header", "Origin: @env:WHERE"]);
    command.env("WHERE", "https://evil.example");
    finished(command, "").error(3);
    sandbox.run(&["list", &served.url, "--header", "X-Harmless: yes"]).json();
}

#[cfg(unix)]
#[test]
fn a_file_is_started() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = Sandbox::new("file");
    let script = format!("#!/bin/sh\nexec '{WHARF}' serve\n");
    let file = sandbox.write("server.sh", &script);
    // The script runs with the interpreter for its file type, because it is not executable yet.
    for target in [file.as_str(), "server.sh", "./server.sh"] {
        let result = sandbox.run(&["call", target, "echo", "text=hi"]).json();
        assert_eq!(result["content"][0]["text"], "hi", "{target}");
    }
    let program = sandbox.write("server", &script);
    sandbox.run(&["list", &program]).error(1);
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    sandbox.run(&["list", &program]).json();
}
