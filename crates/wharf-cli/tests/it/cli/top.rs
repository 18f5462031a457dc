//! `wharf top` at the admin listener of the demo server.

use std::{net::TcpListener, process::Stdio};

use serde_json::Value;

use crate::cli::{
    pty::Pty,
    sandbox::{DemoServer, PATIENCE, Sandbox, lines},
};

/// Demo server over HTTP, with an admin listener.
struct Observed {
    child: std::process::Child,
    url: String,
    admin: String,
}

impl Observed {
    fn start(sandbox: &Sandbox) -> Self {
        let words = ["serve", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
        let mut command = sandbox.command(&words);
        command.env("WHARF_LOG_FORMAT", "text").stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = lines(child.stderr.take().unwrap());
        let mut addresses =
            std::iter::from_fn(|| lines.recv_timeout(PATIENCE).ok()).filter_map(|line| {
                line.split_whitespace().find(|it| it.starts_with("http://")).map(str::to_owned)
            });
        let both: Vec<String> = addresses.by_ref().take(2).collect();
        let (metrics, urls): (Vec<_>, Vec<_>) =
            both.into_iter().partition(|address| address.ends_with("/metrics"));
        let ([metrics], [url]) = (&metrics[..], &urls[..]) else { panic!("{metrics:?} {urls:?}") };
        let url = url.clone();
        let admin = metrics.trim_start_matches("http://").trim_end_matches("/metrics").to_owned();
        Observed { child, url, admin }
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn one_report_as_json() {
    let sandbox = Sandbox::new("top-json");
    let server = Observed::start(&sandbox);
    assert_eq!(sandbox.run(&["call", &server.url, "add", "a=1", "b=2"]).code, 0);
    assert_eq!(sandbox.run(&["call", &server.url, "fail", "reason=tide"]).code, 5);
    let ran = sandbox.run(&["top", &server.admin, "--once", "--interval", "10ms"]);
    let report = ran.json();
    assert_eq!(report["target"], server.admin.as_str());
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    assert!(report["memory_bytes"].as_f64().unwrap() > 1e6, "{report}");
    let call = |tool: &str| -> Value {
        let rows = report["calls"].as_array().unwrap();
        rows.iter().find(|row| row["target"] == tool).unwrap_or_else(|| panic!("{report}")).clone()
    };
    assert_eq!(
        (&call("add")["method"], &call("add")["total"]),
        (&"tools/call".into(), &1.0.into())
    );
    assert_eq!(
        (&call("fail")["role"], &call("fail")["total_errors"]),
        (&"server".into(), &1.0.into())
    );
}

#[test]
fn the_terminal_shows_reports_until_it_is_interrupted() {
    let sandbox = Sandbox::new("top-live");
    let server = Observed::start(&sandbox);
    assert_eq!(sandbox.run(&["call", &server.url, "add", "a=1", "b=2"]).code, 0);
    let mut command = sandbox.command(&["top", &server.admin, "--interval", "50ms"]);
    command.env("NO_COLOR", "1").env("TERM", "xterm");
    let mut pty = Pty::start(command);
    pty.until("tools/call add");
    pty.interrupt();
    let (code, shown) = pty.end();
    assert_eq!(code, 130, "{shown}");
    assert!(shown.contains("\x1b[?1049h") && shown.contains("\x1b[?25h\x1b[?1049l"), "{shown:?}");
}

#[test]
fn narrow_terminals_and_other_locales_have_a_report() {
    let sandbox = Sandbox::new("top-narrow");
    let server = Observed::start(&sandbox);
    assert_eq!(sandbox.run(&["call", &server.url, "add", "a=1", "b=2"]).code, 0);
    for columns in ["30", "80", "200"] {
        let mut command = sandbox.command(&["top", &server.admin, "--once", "--interval", "10ms"]);
        command.env("NO_COLOR", "1").env("LC_ALL", "C").env("COLUMNS", columns);
        let (code, shown) = Pty::start(command).end();
        assert_eq!(code, 0, "{shown}");
        assert!(shown.contains("tools/call add") && shown.is_ascii(), "{shown}");
        let columns: usize = columns.parse().unwrap();
        assert!(shown.lines().all(|line| line.len() <= columns), "{columns}: {shown}");
    }
}

#[test]
fn another_server_is_no_admin_listener() {
    let sandbox = Sandbox::new("top-wrong");
    let served = DemoServer::http(&sandbox);
    let address = served.url.trim_start_matches("http://").trim_end_matches("/mcp");
    let error = sandbox.run(&["top", address, "--once"]).error(1);
    let message = format!(
        "{address} is not the admin listener of a Wharf server: /metrics there answered with HTTP 404"
    );
    assert_eq!(error["message"], message);
    assert!(error["hint"].as_str().unwrap().contains("--admin 127.0.0.1:9464"), "{error}");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let error = sandbox.run(&["top", &closed, "--once"]).error(4);
    assert!(error["message"].as_str().unwrap().contains(&closed), "{error}");
    assert_eq!(
        sandbox.run(&["top", "harbour"]).error(1)["hint"],
        "Write its host and port, such as 127.0.0.1:9464."
    );
}
