//! Interoperability of `wharf serve` with clients of other SDKs, in both eras and over every transport.
//!
//! Their scripts are in `tests/foreign`; `cargo xtask foreign` installs the packages. rmcp, which needs no
//! installation, is in `tests/peers`.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use wharf_testbed::foreign_programs::Installed;

const TIMEOUT: Duration = Duration::from_secs(120);

/// One test for each client, era and transport.
macro_rules! clients {
    ($($test:ident: $script:literal $era:literal over $over:ident;)*) => {
        $(
            #[test]
            fn $test() {
                if let Err(why) = drive(stringify!($test), $script, $era, ServerTransport::$over) {
                    panic!("{why}");
                }
            }
        )*
    };
}

clients! {
    typescript1_legacy_stdio: "sdk1.mjs" "--legacy" over Stdio;
    typescript1_legacy_http: "sdk1.mjs" "--legacy" over Http;
    typescript1_legacy_websocket: "sdk1.mjs" "--legacy" over WebSocket;
    typescript1_legacy_sse: "sdk1.mjs" "--legacy" over Sse;
    typescript2_legacy_http: "sdk2.mjs" "--legacy" over Http;
    typescript2_modern_stdio: "sdk2.mjs" "--modern" over Stdio;
    typescript2_modern_http: "sdk2.mjs" "--modern" over Http;
    typescript2_modern_websocket: "sdk2.mjs" "--modern" over WebSocket;
    python_legacy_stdio: "sdk.py" "--legacy" over Stdio;
    python_legacy_http: "sdk.py" "--legacy" over Http;
    python_legacy_sse: "sdk.py" "--legacy" over Sse;
    python_modern_stdio: "sdk.py" "--modern" over Stdio;
    python_modern_http: "sdk.py" "--modern" over Http;
    fastmcp_legacy_http: "fastmcp_client.py" "--legacy" over Http;
    fastmcp_legacy_sse: "fastmcp_client.py" "--legacy" over Sse;
    fastmcp_modern_http: "fastmcp_client.py" "--modern" over Http;
    python_rounds_modern_stdio: "rounds.py" "--modern" over Stdio;
    python_rounds_modern_http: "rounds.py" "--modern" over Http;
    typescript2_schemas_legacy_http: "schemas.mjs" "--legacy" over Http;
    typescript2_schemas_modern_http: "schemas.mjs" "--modern" over Http;
    typescript2_schemas_modern_stdio: "schemas.mjs" "--modern" over Stdio;
    typescript2_skills_legacy_stdio: "skills2.mjs" "--legacy" over Stdio;
    typescript2_skills_legacy_http: "skills2.mjs" "--legacy" over Http;
    typescript2_skills_modern_stdio: "skills2.mjs" "--modern" over Stdio;
    typescript2_skills_modern_http: "skills2.mjs" "--modern" over Http;
    typescript1_tasks_stdio: "tasks1.mjs" "--legacy" over Stdio;
    typescript1_tasks_http: "tasks1.mjs" "--legacy" over Http;
    extension_tasks_legacy_http: "tasks2.mjs" "--legacy" over Http;
    extension_tasks_modern_http: "tasks2.mjs" "--modern" over Http;
    chromium_app_legacy: "app.mjs" "--legacy" over Http;
    chromium_app_modern: "app.mjs" "--modern" over Http;
    inspector_legacy_http: "inspector.mjs" "--legacy" over Http;
    inspector_legacy_sse: "inspector.mjs" "--legacy" over Sse;
    inspector_modern_http: "inspector.mjs" "--modern" over Http;
    typescript1_legacy_http_bridge_to_modern: "sdk1.mjs" "--legacy" over HttpBridgeToModern;
    typescript2_modern_bridge_to_modern: "sdk2.mjs" "--modern" over BridgeToModern;
    typescript2_modern_http_bridge_to_modern: "sdk2.mjs" "--modern" over HttpBridgeToModern;
}

/// Options of the server that a script needs.
fn server_options(script: &str) -> &'static [&'static str] {
    const SUITE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/skills");
    const OWN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/skills");
    if script.starts_with("skills") { &["--skills", SUITE, "--skills", OWN] } else { &[] }
}

#[derive(Clone, Copy)]
enum ServerTransport {
    /// The client starts the server.
    Stdio,
    Http,
    WebSocket,
    /// HTTP+SSE of 2024-11-05.
    Sse,
    /// The client starts `wharf bridge`, which negotiates this era with the server.
    BridgeToModern,
    /// `wharf bridge` over HTTP.
    HttpBridgeToModern,
}

fn drive(test: &str, script: &str, era: &str, over: ServerTransport) -> Result<(), String> {
    let installed = Installed::find()?;
    let runtime = installed.runtime(script);
    // A file, because a pipe would have to be read while the driver runs.
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.log"));
    let file = File::create(&log).map_err(|e| format!("cannot create {}: {e}", log.display()))?;
    let share = || file.try_clone().map_err(|e| format!("cannot share {}: {e}", log.display()));
    let options = server_options(script);
    let server = match over.is_stdio() {
        true => None,
        false => Some(Server::start(over, options, share()?)?),
    };
    let target = match &server {
        Some(server) => vec![over.address(&server.url)],
        None => over.command(&[]).iter().chain(options).map(|it| (*it).to_owned()).collect(),
    };
    let mut driver = Command::new(runtime)
        .args([script, era])
        .args(target)
        .current_dir(&installed.scripts)
        .env("WHARF_FOREIGN", &installed.home)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdout(share()?)
        .stderr(share()?)
        .spawn()
        .map_err(|e| {
            format!("cannot run {}: {e}; run `cargo xtask foreign` again", runtime.display())
        })?;
    let ended =
        wait(&mut driver).map_err(|e| format!("cannot wait for {}: {e}", runtime.display()))?;
    drop(server);
    let said = fs::read_to_string(&log).unwrap_or_default();
    match ended {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("{script} {era} ended with {status} and said:\n{said}")),
        None => {
            Err(format!("{script} {era} had not ended after {TIMEOUT:?} and had said:\n{said}"))
        }
    }
}

impl ServerTransport {
    fn is_stdio(self) -> bool {
        matches!(self, Self::Stdio | Self::BridgeToModern)
    }

    /// Era that a bridge negotiates.
    fn bridge_to(self) -> Option<&'static str> {
        match self {
            Self::BridgeToModern | Self::HttpBridgeToModern => Some("modern"),
            _ => None,
        }
    }

    /// Command of the server, with the options of its transport. Options of the demo server may follow.
    fn command(self, transport: &[&'static str]) -> Vec<&'static str> {
        const WHARF: &str = env!("CARGO_BIN_EXE_wharf");
        match self.bridge_to() {
            None => [&[WHARF, "serve"], transport].concat(),
            Some(era) => {
                let bridge = [WHARF, "bridge", "--era", era];
                [&bridge, transport, &["--", WHARF, "serve"]].concat()
            }
        }
    }

    /// URL of the transport, if Streamable HTTP is at `mcp`.
    fn address(self, mcp: &str) -> String {
        match self {
            Self::WebSocket => mcp.replacen("http:", "ws:", 1),
            Self::Sse => mcp.replace("/mcp", "/sse"),
            _ => mcp.to_owned(),
        }
    }
}

/// `wharf serve --http` on a free port, ended on drop.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start(over: ServerTransport, options: &[&str], log: File) -> Result<Self, String> {
        // The address is read from a line of text.
        let transport: &[_] = match over {
            ServerTransport::Sse => &["--http", "127.0.0.1:0", "--log-format", "text", "--sse"],
            _ => &["--http", "127.0.0.1:0", "--log-format", "text"],
        };
        let words = over.command(transport);
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(options);
        let process = command.stderr(Stdio::piped()).spawn();
        let mut server = Self {
            process: process.map_err(|e| format!("cannot run wharf: {e}"))?,
            url: String::new(),
        };
        let stderr = server.process.stderr.take().ok_or("wharf has no stderr")?;
        server.url = address(stderr, log)?;
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Address in the server's output at its start. All further output is written to the log.
fn address(stderr: ChildStderr, mut log: File) -> Result<String, String> {
    let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
    let mut said = String::new();
    for line in lines.by_ref() {
        let _ = writeln!(log, "{line}");
        if let Some(url) =
            line.split_whitespace().find(|word| word.starts_with("http://127.0.0.1:"))
        {
            let url = url.trim_end_matches('.').to_owned();
            thread::spawn(move || lines.for_each(|line| drop(writeln!(log, "{line}"))));
            return Ok(url);
        }
        said = said + &line + "\n";
    }
    Err(format!("wharf did not say where it serves HTTP:\n{said}"))
}

/// `None` if the child had to be killed.
fn wait(child: &mut Child) -> std::io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + TIMEOUT;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(Duration::from_millis(20));
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

/// npm's `server-everything`, a legacy server, through a bridge to clients of both eras.
#[test]
fn server_everything_through_a_bridge() -> Result<(), String> {
    let installed = Installed::find()?;
    let script = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    let node = installed.runtime(script).to_string_lossy().into_owned();
    let script = installed.home.join(script).to_string_lossy().into_owned();
    let wharf = env!("CARGO_BIN_EXE_wharf");
    for era in ["modern", "legacy"] {
        for (words, text) in [
            (&["call", "get-sum", "a=2", "b=3"][..], "5"),
            (&["list", "resources"], "uri"),
            (&["inspect"], "mcp-servers/everything"),
        ] {
            let run = Command::new(wharf)
                .args(words)
                .args([
                    "--json", "--era", era, "--", wharf, "bridge", "--", &node, &script, "stdio",
                ])
                .output();
            let run = run.map_err(|e| format!("cannot run {wharf}: {e}"))?;
            let said = String::from_utf8_lossy(&run.stdout);
            assert!(run.status.success() && said.contains(text), "{era} {words:?}: {run:?}");
        }
    }
    Ok(())
}
