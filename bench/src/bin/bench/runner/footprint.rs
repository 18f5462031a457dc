//! Memory, program size, dependencies and build time of the servers.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use bench::command_line::Mode;
use bench::load::{Client, Operation, Sample, Template};
use bench::process::Cores;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use super::contenders::{Contender, ListeningServer, RUST, WHARF};

type MeasureResult = Result<Sample, String>;

/// Number of clients that open sessions concurrently.
const OPENERS: u64 = 16;

/// Opens sessions and leaves them open.
pub(crate) fn open_sessions(address: SocketAddr, count: u64) -> Result<(), String> {
    if count == 0 {
        return Ok(());
    }
    block_on(async {
        let clients = session_clients(address).await?;
        open_more(clients, count - OPENERS).await.map(|_| ())
    })
}

/// Measures the memory of an idle session.
pub(crate) fn sessions(cores: &Cores, contender: &Contender, count: u64) -> MeasureResult {
    let listening = contender.listen(cores, Mode::Stateful, 0)?;
    let more = count - OPENERS;
    let memory = block_on(async {
        // Connections and lazily initialized state do not count.
        let clients = session_clients(listening.address).await?;
        let before = resident_memory(&listening)?;
        let _clients = open_more(clients, more).await?;
        Ok(resident_memory(&listening)?.saturating_sub(before))
    })?;
    Ok(Sample::from([("bytes_each", memory as f64 / more as f64)]))
}

/// Opens clients with one session each.
async fn session_clients(address: SocketAddr) -> Result<Vec<Client>, String> {
    let mut clients = Vec::new();
    for _ in 0..OPENERS {
        clients.push(warm_client(address, Mode::Stateful).await?);
    }
    Ok(clients)
}

async fn open_more(clients: Vec<Client>, count: u64) -> Result<Vec<Client>, String> {
    let mut opening = JoinSet::new();
    for (number, mut client) in (0..).zip(clients) {
        let share = (count + number) / OPENERS;
        opening.spawn(async move {
            for _ in 0..share {
                client.open_session().await?;
            }
            Ok::<_, String>(client)
        });
    }
    let mut clients = Vec::new();
    while let Some(client) = opening.join_next().await {
        clients.push(client.map_err(|e| e.to_string())??);
    }
    Ok(clients)
}

/// Measures the memory of an open stream, without and with its connection.
pub(crate) fn listens(
    cores: &Cores,
    contender: &Contender,
    mode: Mode,
    count: u64,
) -> MeasureResult {
    let listening = contender.listen(cores, mode, 0)?;
    let (connections, streams) = block_on(async {
        let mut first = warm_client(listening.address, mode).await?;
        first.listen().await?;
        let empty = resident_memory(&listening)?;
        let mut clients = Vec::new();
        for _ in 0..count {
            clients.push(warm_client(listening.address, mode).await?);
        }
        let connected = resident_memory(&listening)?;
        for client in &mut clients {
            client.listen().await?;
        }
        let listened = resident_memory(&listening)?;
        Ok((connected.saturating_sub(empty), listened.saturating_sub(connected)))
    })?;
    Ok(Sample::from([
        ("bytes_each", streams as f64 / count as f64),
        ("bytes_with_connection", (connections + streams) as f64 / count as f64),
    ]))
}

async fn warm_client(address: SocketAddr, mode: Mode) -> Result<Client, String> {
    let mut client = Client::open(address, mode).await?;
    client.prepare(&[Operation::Echo(32)]);
    client.turn(Template::FIRST_ID).await?;
    Ok(client)
}

/// Resident memory, after a pause in which the server becomes idle.
fn resident_memory(listening: &ListeningServer) -> Result<u64, String> {
    thread::sleep(Duration::from_millis(300));
    let usage =
        listening.server.usage().map_err(|e| format!("cannot read the server's memory: {e}"))?;
    Ok(usage.memory)
}

fn block_on<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|e| format!("no runtime: {e}"))?.block_on(work)
}

/// Measures the size of the stripped release program.
pub(crate) fn size(contender: &Contender) -> MeasureResult {
    rust_only(contender)?;
    let program = contender.program();
    let bytes = |path: &Path| fs::metadata(path).map(|found| found.len() as f64);
    let size = bytes(&program).map_err(|e| format!("cannot read {}: {e}", program.display()))?;
    let mut sample = Sample::from([("size_bytes", size)]);
    let quickstart = bytes(&program.with_file_name("bench-quickstart"));
    if let (WHARF, Ok(size)) = (contender.name, quickstart) {
        sample.insert("quickstart_bytes", size);
    }
    Ok(sample)
}

/// Counts the crates that the server links, including macros.
pub(crate) fn crates(contender: &Contender) -> MeasureResult {
    let mut tree = cargo("tree", contender)?;
    tree.args(["--edges", "normal", "--prefix", "none", "--format", "{p}"]);
    let tree = tree.output().map_err(|e| format!("cannot run cargo: {e}"))?;
    if !tree.status.success() {
        return Err(format!("cargo tree: {}", String::from_utf8_lossy(&tree.stderr)));
    }
    let tree = String::from_utf8_lossy(&tree.stdout);
    let mut crates: Vec<&str> = tree.lines().map(|line| line.trim_end_matches(" (*)")).collect();
    crates.sort_unstable();
    crates.dedup();
    // This package itself does not count.
    Ok(Sample::from([("crates", crates.len().saturating_sub(1) as f64)]))
}

/// Measures the CPU time of a clean build, including all child processes of cargo.
pub(crate) fn build(cores: &Cores, contender: &Contender) -> MeasureResult {
    let directory = contender.program().with_file_name("bench-build");
    let mut build = cargo("build", contender)?;
    build.args(["--release", "--quiet", "--target-dir"]).arg(&directory);
    let seconds = build_cpu(cores, &mut build, &directory);
    let seconds = seconds.map_err(|e| format!("cannot build: {e}"))?;
    Ok(Sample::from([("build_cpu_seconds", seconds)]))
}

fn build_cpu(cores: &Cores, build: &mut Command, directory: &Path) -> io::Result<f64> {
    remove(directory)?;
    cores.use_all()?;
    let before = children_cpu()?;
    let status = build.status()?;
    let after = children_cpu()?;
    cores.generate()?;
    remove(directory)?;
    if status.success() { Ok(after - before) } else { Err(io::Error::other(status.to_string())) }
}

fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

fn cargo(task: &str, contender: &Contender) -> Result<Command, String> {
    let program = rust_only(contender)?;
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).arg(task);
    command.args(["--package", "bench", "--no-default-features", "--features", contender.name]);
    if task == "build" {
        command.args(["--bin", program]);
    }
    Ok(command)
}

fn rust_only(contender: &Contender) -> Result<&'static str, String> {
    let known = RUST.iter().find(|(name, _)| *name == contender.name);
    known.map(|(_, program)| *program).ok_or_else(|| "not in Rust".to_owned())
}

/// CPU seconds of all exited child processes, recursively.
fn children_cpu() -> io::Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The process name in parentheses may contain spaces.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(13).take(2);
    let ticks: u64 = ticks.filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}
