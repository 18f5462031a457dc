//! Real processes: Redis and nodes, which can be killed, suspended and restarted.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    process::{Child, Command},
    time::{sleep, timeout},
};

/// Timeout for the start of a process. The machine may be busy.
const START: Duration = Duration::from_secs(30);

/// Temporary directory, removed on drop.
#[derive(Debug)]
pub struct TestDirectory(PathBuf);

impl TestDirectory {
    /// Creates a directory.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn new() -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("wharf-cluster-{}-{number}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(TestDirectory(path))
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A Redis process that writes everything to its disk before it replies.
pub struct RedisProcess {
    directory: TestDirectory,
    port: u16,
    child: Child,
}

impl RedisProcess {
    /// Starts it at a free port.
    ///
    /// # Errors
    /// If there is none, or it does not start.
    pub async fn start() -> io::Result<Self> {
        let directory = TestDirectory::new()?;
        let port = std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let child = RedisProcess::spawn(&directory, port)?;
        let redis = RedisProcess { directory, port, child };
        redis.answers().await?;
        Ok(redis)
    }

    fn spawn(directory: &TestDirectory, port: u16) -> io::Result<Child> {
        let said = fs::File::create(directory.path().join("redis.log"))?;
        Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"])
            .args(["--appendfsync", "always", "--port", &port.to_string()])
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(said.try_clone()?)
            .stderr(said)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| {
                let advice = "redis-server cannot be started: `cargo xtask redis` installs it";
                io::Error::new(error.kind(), format!("{advice} ({error})"))
            })
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// Store URL for a Redis at this address: this one, or a proxy in front of it.
    #[must_use]
    pub fn url(address: SocketAddr) -> String {
        format!("redis://{address}")
    }

    /// Returns whether a string is in any data that it was ever sent.
    ///
    /// # Errors
    /// If its file cannot be read.
    pub fn has_stored(&self, text: &str) -> io::Result<bool> {
        for file in fs::read_dir(self.directory.path().join("appendonlydir"))? {
            let written = fs::read(file?.path())?;
            if written.windows(text.len()).any(|it| it == text.as_bytes()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Kills it.
    ///
    /// # Errors
    /// If it cannot be killed.
    pub async fn kill(&mut self) -> io::Result<()> {
        self.child.kill().await
    }

    /// Restarts it with its data.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn restart(&mut self) -> io::Result<()> {
        self.child = RedisProcess::spawn(&self.directory, self.port)?;
        self.answers().await
    }

    /// Suspends it: it is connected and does not reply.
    ///
    /// # Errors
    /// If it cannot be suspended.
    pub async fn pause(&self) -> io::Result<()> {
        signal(&self.child, "STOP").await
    }

    /// Resumes it.
    ///
    /// # Errors
    /// If it cannot be resumed.
    pub async fn go_on(&self) -> io::Result<()> {
        signal(&self.child, "CONT").await
    }

    async fn answers(&self) -> io::Result<()> {
        let ping = async || {
            let mut stream = TcpStream::connect(self.address()).await?;
            stream.write_all(b"PING\r\n").await?;
            let mut answer = [0; 5];
            stream.read_exact(&mut answer).await?;
            if &answer == b"+PONG" {
                Ok(())
            } else {
                Err(io::Error::from(io::ErrorKind::WouldBlock))
            }
        };
        let answers = timeout(START, async {
            while ping().await.is_err() {
                sleep(Duration::from_millis(20)).await;
            }
        });
        Ok(answers.await?)
    }
}

async fn signal(child: &Child, name: &str) -> io::Result<()> {
    let Some(id) = child.id() else { return Err(io::ErrorKind::NotFound.into()) };
    let sent = Command::new("kill").args([&format!("-{name}"), &id.to_string()]).status().await?;
    if sent.success() { Ok(()) } else { Err(io::ErrorKind::Other.into()) }
}

/// Settings of a node process.
#[derive(Clone, Debug)]
pub struct NodePlan {
    /// Path of the program, set by the tests.
    pub program: PathBuf,
    /// URL of the store.
    pub store: String,
    /// Journal of its tools.
    pub journal: PathBuf,
    /// Duration of its leases, in milliseconds.
    pub lease: u64,
    /// Rate limit for tools per caller and second.
    pub rate: Option<u32>,
}

/// A node process.
pub struct NodeProcess {
    plan: NodePlan,
    name: String,
    starts: usize,
    child: Child,
    address: SocketAddr,
}

impl NodeProcess {
    /// Starts a node.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn start(plan: NodePlan, name: &str) -> io::Result<Self> {
        let (child, address) = NodeProcess::spawn(&plan, name, 1).await?;
        Ok(NodeProcess { plan, name: name.into(), starts: 1, child, address })
    }

    async fn spawn(plan: &NodePlan, name: &str, start: usize) -> io::Result<(Child, SocketAddr)> {
        let by = format!("{name}/{start}");
        let mut child = Command::new(&plan.program)
            .arg(&plan.store)
            .arg(&plan.journal)
            .args([&by, &plan.lease.to_string()])
            .args(plan.rate.map(|rate| rate.to_string()))
            .env("WHARF_STATE_KEY", "07".repeat(32))
            .env("WHARF_STORE_KEY", "08".repeat(32))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let said = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut lines = BufReader::new(said).lines();
        let line = timeout(START, lines.next_line()).await??.unwrap_or_default();
        let address = line
            .parse()
            .map_err(|_| io::Error::other(format!("{by} did not say where it is but {line:?}")))?;
        Ok((child, address))
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its name in the journal.
    #[must_use]
    pub fn by(&self) -> String {
        format!("{}/{}", self.name, self.starts)
    }

    /// Kills it, as `kill -9` does.
    ///
    /// # Errors
    /// If it cannot be killed.
    pub async fn kill(&mut self) -> io::Result<()> {
        self.child.kill().await
    }

    /// Suspends or resumes it.
    ///
    /// # Errors
    /// If it does not exist.
    pub async fn freeze(&self, frozen: bool) -> io::Result<()> {
        signal(&self.child, if frozen { "STOP" } else { "CONT" }).await
    }

    /// Restarts it at another port.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn restart(&mut self) -> io::Result<()> {
        self.starts += 1;
        (self.child, self.address) =
            NodeProcess::spawn(&self.plan, &self.name, self.starts).await?;
        Ok(())
    }

    /// Its memory, in KiB.
    #[must_use]
    pub fn memory(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()?)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.split_whitespace().next()?.parse().ok()
    }
}
