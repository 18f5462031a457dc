//! Runs `everything-client` against `everything-server` in both eras, without the suite.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Output, Stdio},
    thread,
};

struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start() -> Server {
        let mut child = Command::new(env!("CARGO_BIN_EXE_everything-server"))
            .args(["--http", "127.0.0.1:0", "--log-format", "text"])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let url = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let url = line.split_whitespace().find(|word| word.starts_with("http://"))?;
            Some(url.trim_end_matches('.').to_owned())
        });
        thread::spawn(move || lines.for_each(drop));
        Server { child, url: url.expect("the server says where it is") }
    }

    /// Runs the client as the suite does, with this context.
    fn run_client(&self, revision: Option<&str>, context: &str) -> Output {
        let mut client = Command::new(env!("CARGO_BIN_EXE_everything-client"));
        client.arg(&self.url).env("MCP_CONFORMANCE_CONTEXT", context);
        if let Some(revision) = revision {
            client.env("MCP_CONFORMANCE_PROTOCOL_VERSION", revision);
        }
        client.output().expect("the client runs")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn every_feature_works_in_each_era() {
    let server = Server::start();
    for revision in [Some("2025-11-25"), Some("2026-07-28"), None] {
        let ended = server.run_client(revision, "{}");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{revision:?}: {said}");
    }
}

#[test]
fn failures_are_reported_with_an_exit_code() {
    let server = Server::start();
    let no_revision = server.run_client(Some("2025-01-01"), "{}");
    assert_eq!(no_revision.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&no_revision.stderr).contains("2025-01-01"));
    let no_tool =
        server.run_client(Some("2026-07-28"), r#"{"toolCalls": [{"name": "no such tool"}]}"#);
    assert_eq!(no_tool.status.code(), Some(1));
    assert!(!no_tool.stderr.is_empty());
}
