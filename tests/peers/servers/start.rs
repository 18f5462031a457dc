//! Starts the servers.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread;

use tokio::task::JoinHandle;
use wharf::{
    Client, Endpoint,
    client::{ChildCommand, Target},
};

use crate::server_under_test::{Server, TestTransport};
use wharf_testbed::foreign_programs::Installed;

/// Running server, ended on drop, or the command with which the client starts it.
pub(crate) struct RunningServer {
    target: Target,
    process: Option<Child>,
    proxy: Option<JoinHandle<()>>,
}

impl RunningServer {
    pub(crate) fn start(server: Server, over: TestTransport) -> Result<Self, String> {
        let port = free_port()?.to_string();
        let command = command(server, over)?.env("PORT", &port);
        if over == TestTransport::Stdio {
            return Ok(Self { target: command.into(), process: None, proxy: None });
        }
        let process = Command::new(&command.program)
            .args(&command.args)
            .envs(command.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("cannot run {command}: {e}"))?;
        let mut running = Self { target: "".into(), process: Some(process), proxy: None };
        running.target = running.address(over, &port)?.into();
        Ok(running)
    }

    /// Starts a proxy in front of the server that `client` is connected to.
    pub(crate) async fn behind(client: Client) -> wharf::Result<Self> {
        let endpoint = wharf::Server::from(client).build()?;
        let listener = Endpoint::listen_http("127.0.0.1:0").await?;
        let target = format!("http://{}/mcp", listener.local_addr()?).into();
        let proxy = tokio::spawn(async move { endpoint.serve_http_on(listener).await });
        Ok(Self { target, process: None, proxy: Some(proxy) })
    }

    pub(crate) fn target(&self) -> Target {
        self.target.clone()
    }

    /// URL that the server prints. npm's `server-everything` prints only that it uses the given port.
    fn address(&mut self, over: TestTransport, port: &str) -> Result<String, String> {
        let stderr = self.process.as_mut().and_then(|process| process.stderr.take());
        let mut lines = BufReader::new(stderr.ok_or("it has no stderr")?).lines();
        let mut said = String::new();
        for line in lines.by_ref().map_while(Result::ok) {
            let told = line.contains(&format!("port {port}"));
            let at = match told {
                true => Some(format!("http://127.0.0.1:{port}/mcp")),
                false => {
                    line.split_whitespace().find(|it| it.starts_with("http://")).map(str::to_owned)
                }
            };
            if let Some(at) = at {
                // Keeps reading, so that the server never blocks on a full pipe.
                thread::spawn(move || {
                    lines.map_while(Result::ok).for_each(|line| eprintln!("{line}"))
                });
                return Ok(if over == TestTransport::Sse {
                    at.replace("/mcp", "/sse")
                } else {
                    at
                });
            }
            said = said + &line + "\n";
        }
        Err(format!("the server did not say where it is:\n{said}"))
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
        if let Some(proxy) = &self.proxy {
            proxy.abort();
        }
    }
}

fn command(server: Server, over: TestTransport) -> Result<ChildCommand, String> {
    let script = match server {
        Server::Rmcp => {
            let command = ChildCommand::new(env!("CARGO_BIN_EXE_rmcp-server"));
            return Ok(command.args(option(over)));
        }
        Server::Everything => "node_modules/@modelcontextprotocol/server-everything/dist/index.js",
        Server::TypeScript2 => "servers/ts2_server.mjs",
        Server::TypeScript2Skills => "servers/ts2_skills.mjs",
        Server::Python => "servers/mcp_server.py",
        Server::FastMcp => "servers/fastmcp_server.py",
    };
    let installed = Installed::find()?;
    let (directory, mode) = match (server, over) {
        (Server::Everything, TestTransport::Stdio) => (&installed.home, Some("stdio")),
        (Server::Everything, TestTransport::Sse) => (&installed.home, Some("sse")),
        (Server::Everything, _) => (&installed.home, Some("streamableHttp")),
        _ => (&installed.scripts, option(over)),
    };
    let path = |path: &std::path::Path| path.to_string_lossy().into_owned();
    Ok(ChildCommand::new(path(installed.runtime(script)))
        .args([path(&directory.join(script))])
        .args(mode)
        .env("WHARF_FOREIGN", path(&installed.home))
        .env("PYTHONDONTWRITEBYTECODE", "1"))
}

fn option(over: TestTransport) -> Option<&'static str> {
    match over {
        TestTransport::Stdio => None,
        TestTransport::Sse => Some("--sse"),
        TestTransport::Http | TestTransport::ProxyToLegacy | TestTransport::ProxyToModern => {
            Some("--http")
        }
    }
}

/// Returns a free port, because some servers cannot choose one and print it.
fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    Ok(listener.map_err(|e| format!("no port is free: {e}"))?.port())
}
