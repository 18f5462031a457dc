//! Options of connections: `--proxy`, `--cacert`, `--cert`, `--key`, and the variables of the environment.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    sync::{Arc, Mutex},
    thread,
};

use crate::cli::sandbox::{DemoServer, Sandbox, WHARF, finished};

/// Proxy that refuses every request, and records their first lines.
struct RefusingProxy {
    url: String,
    lines: Arc<Mutex<Vec<String>>>,
}

impl RefusingProxy {
    fn start() -> RefusingProxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = lines.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut line = String::new();
                let _ = BufReader::new(&stream).read_line(&mut line);
                seen.lock().unwrap().push(line.trim_end().to_owned());
                let _ = stream.write_all(b"HTTP/1.1 403 Refused\r\nContent-Length: 0\r\n\r\n");
            }
        });
        RefusingProxy { url, lines }
    }

    /// First line of the first request since the last call.
    fn first(&self) -> Option<String> {
        let lines = std::mem::take(&mut *self.lines.lock().unwrap());
        lines.into_iter().next()
    }
}

#[test]
fn the_proxy_is_that_of_the_option_or_of_the_environment() {
    let sandbox = Sandbox::new("proxy");
    let (proxy, other) = (RefusingProxy::start(), RefusingProxy::start());
    let (http, https) = ("http://mcp.invalid/mcp", "https://mcp.invalid/mcp");
    let connect = Some("CONNECT mcp.invalid:443 HTTP/1.1".to_owned());
    let forward = Some("POST http://mcp.invalid/mcp HTTP/1.1".to_owned());
    for (url, option, variables, expected) in [
        (https, Some(&*proxy.url), vec![], connect.clone()),
        (http, Some(&*proxy.url), vec![], forward.clone()),
        (https, None, vec![("HTTPS_PROXY", &*proxy.url)], connect.clone()),
        (https, None, vec![("https_proxy", &*proxy.url)], connect.clone()),
        (http, None, vec![("ALL_PROXY", &*proxy.url)], forward),
        (https, Some(&*proxy.url), vec![("HTTPS_PROXY", &*other.url)], connect.clone()),
        (https, Some("@env:WHERE"), vec![("WHERE", &*proxy.url)], connect),
        (https, Some(""), vec![("HTTPS_PROXY", &*proxy.url)], None),
        (https, None, vec![("HTTPS_PROXY", &*proxy.url), ("NO_PROXY", ".invalid")], None),
        ("http://127.0.0.1:1/mcp", Some(&*proxy.url), vec![], None),
    ] {
        let mut words = vec!["list", url];
        words.extend(option.into_iter().flat_map(|it| ["--proxy", it]));
        let mut command = sandbox.command(&words);
        command.envs(variables.clone());
        let ended = finished(command, "");
        assert_ne!(ended.code, 0, "{url} {option:?} {variables:?}");
        assert_eq!(proxy.first(), expected, "{url} {option:?} {variables:?}");
    }
    assert_eq!(other.first(), None);
    // The demo server is on loopback.
    let served = DemoServer::http(&sandbox);
    sandbox.run(&["list", &served.url, "--proxy", &proxy.url]).json();
}

#[test]
fn wrong_options_of_connections_are_errors_of_the_command_line() {
    let sandbox = Sandbox::new("connection-options");
    let file = sandbox.write("empty.pem", "");
    for words in [
        vec!["list", "https://a.invalid/mcp", "--cacert", "missing.pem"],
        vec!["list", "https://a.invalid/mcp", "--cacert", &file],
        vec!["list", "https://a.invalid/mcp", "--cert", &file],
        vec!["list", "https://a.invalid/mcp", "--key", &file],
        vec!["list", "https://a.invalid/mcp", "--proxy", "socks5://localhost:1080"],
        vec!["auth", "login", "https://a.invalid/mcp", "--cacert", &file],
        vec!["list", "--proxy", "http://localhost:1", "--", WHARF, "serve"],
        vec!["list", "--cacert", &file, "--", WHARF, "serve"],
    ] {
        sandbox.run(&words).error(1);
    }
}
