//! Real processes: Redis and nodes, which can be killed, stopped and started again.

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

/// How long a process may take to be there. The machine may be busy.
const START: Duration = Duration::from_secs(30);

/// A directory that is gone when this is.
#[derive(Debug)]
pub struct TestDirectory(PathBuf);

impl TestDirectory {
    /// A new directory.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new() -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("wharf-fleet-{}-{number}", std::process::id()));
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

/// A Redis of our own, which writes everything to its disk before it answers.
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

    /// Where a node finds a Redis at this address: this one, or a proxy before it.
    #[must_use]
    pub fn url(address: SocketAddr) -> String {
        format!("redis://{address}")
    }

    /// Whether a text is in anything that it was ever told to keep.
    ///
    /// # Errors
    /// If that cannot be read.
    pub fn has_stored(&self, text: &str) -> io::Result<bool> {
        for file in fs::read_dir(self.directory.path().join("appendonlydir"))? {
            let written = fs::read(file?.path())?;
            if written.windows(text.len()).any(|it| it == text.as_bytes()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Ends it at once.
    ///
    /// # Errors
    /// If it cannot be ended.
    pub async fn kill(&mut self) -> io::Result<()> {
        self.child.kill().await
    }

    /// Starts it again, with what it had.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn restart(&mut self) -> io::Result<()> {
        self.child = RedisProcess::spawn(&self.directory, self.port)?;
        self.answers().await
    }

    /// Stops its clock: it is there and does not answer.
    ///
    /// # Errors
    /// If it cannot be stopped.
    pub async fn pause(&self) -> io::Result<()> {
        signal(&self.child, "STOP").await
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// If it cannot go on.
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

/// How a node is started.
#[derive(Clone, Debug)]
pub struct NodePlan {
    /// The program: tests know where it is.
    pub program: PathBuf,
    /// Where it keeps what must be kept.
    pub store: String,
    /// Where its tools write down what they do.
    pub journal: PathBuf,
    /// How long its leases are, in milliseconds.
    pub lease: u64,
    /// How often a second a caller may use tools, if that is limited.
    pub rate: Option<u32>,
}

/// A node: the program of the tests in a process of its own.
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

    /// Its name in what its tools write down.
    #[must_use]
    pub fn by(&self) -> String {
        format!("{}/{}", self.name, self.starts)
    }

    /// Ends it at once, as `kill -9` does.
    ///
    /// # Errors
    /// If it cannot be ended.
    pub async fn kill(&mut self) -> io::Result<()> {
        self.child.kill().await
    }

    /// Stops its clock, or lets it go on.
    ///
    /// # Errors
    /// If it is not there.
    pub async fn freeze(&self, frozen: bool) -> io::Result<()> {
        signal(&self.child, if frozen { "STOP" } else { "CONT" }).await
    }

    /// Starts it again, at another port.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn restart(&mut self) -> io::Result<()> {
        self.starts += 1;
        (self.child, self.address) =
            NodeProcess::spawn(&self.plan, &self.name, self.starts).await?;
        Ok(())
    }

    /// How much memory it has, in KiB.
    #[must_use]
    pub fn memory(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()?)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.split_whitespace().next()?.parse().ok()
    }
}
