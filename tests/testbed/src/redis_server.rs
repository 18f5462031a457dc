//! A `redis-server` process for tests.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

/// A Redis on its own port, which ends with the test. Every acknowledged write is on the disk.
pub struct RedisServer {
    child: Child,
    pub port: u16,
    settings: Vec<String>,
    directory: PathBuf,
}

impl RedisServer {
    pub fn start() -> Self {
        RedisServer::start_with(Vec::new)
    }

    /// Starts with more settings. They are requested again if one names a port in use.
    pub fn start_with(settings: impl Fn() -> Vec<String>) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("wharf-redis-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        // Another process may take the port before Redis binds it.
        loop {
            let (port, settings, directory) = (free_port(), settings(), directory.clone());
            let child = spawn(port, &settings, &directory);
            let mut server = RedisServer { child, port, settings, directory };
            if server.wait_ready() {
                return server;
            }
        }
    }

    pub fn url(&self, prefix: &str) -> String {
        format!("redis://127.0.0.1:{}/0?prefix={prefix}", self.port)
    }

    /// Kills it, as a power failure would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again on the same port with the data on the disk.
    pub fn restart(&mut self) {
        self.child = spawn(self.port, &self.settings, &self.directory);
        assert!(self.wait_ready(), "redis-server restarts");
    }

    /// Suspends the process (`SIGSTOP`).
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    /// Resumes the process (`SIGCONT`).
    pub fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// Changes a setting at run time.
    pub fn set(&self, name: &str, value: &str) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(format!("CONFIG SET {name} {value}\r\n").as_bytes()).unwrap();
        let mut answer = [0; 3];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"+OK");
    }

    /// Waits until it replies to `PING`; false if the process ended.
    fn wait_ready(&mut self) -> bool {
        while self.child.try_wait().unwrap().is_none() {
            let answer = TcpStream::connect(("127.0.0.1", self.port)).and_then(|mut stream| {
                stream.set_read_timeout(Some(Duration::from_secs(5)))?;
                stream.write_all(b"PING\r\n")?;
                let mut answer = [0; 5];
                stream.read_exact(&mut answer)?;
                Ok(answer)
            });
            if answer.is_ok_and(|answer| &answer == b"+PONG") {
                return true;
            }
            thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn spawn(port: u16, more: &[String], directory: &PathBuf) -> Child {
    fs::create_dir_all(directory).unwrap();
    let port = port.to_string();
    let settings = [
        ["--port", &port],
        ["--bind", "127.0.0.1"],
        ["--save", ""],
        ["--appendonly", "yes"],
        ["--appendfsync", "always"],
        ["--loglevel", "warning"],
    ];
    Command::new("redis-server")
        .args(settings.as_flattened())
        .args(more)
        .arg("--dir")
        .arg(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap_or_else(|why| panic!("cannot start redis-server ({why}): run `cargo xtask redis`"))
}
