//! Sandbox: a temporary home directory to run `wharf` in.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

/// Path of the binary under test, which is also its own demo server.
pub(crate) const WHARF: &str = env!("CARGO_BIN_EXE_wharf");

/// Timeout after which a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Environment variables of the home directory.
const HOMES: [&str; 6] =
    ["HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "APPDATA", "LOCALAPPDATA"];

/// Temporary home directory, removed on drop.
pub(crate) struct Sandbox {
    pub(crate) dir: PathBuf,
}

/// Exit code and output of a run.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl CommandOutput {
    /// Result, which must be one line of JSON.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{self:?}");
        assert_eq!(self.out.trim_end().lines().count(), 1, "{self:?}");
        serde_json::from_str(&self.out).expect("stdout is JSON")
    }

    /// Error, which must be one line of JSON with this exit code; stdout is empty then.
    pub(crate) fn error(&self, code: i32) -> Value {
        assert_eq!((self.code, self.out.as_str()), (code, ""), "{self:?}");
        self.printed_error(code)
    }

    /// Error that is printed in addition to a result.
    pub(crate) fn printed_error(&self, code: i32) -> Value {
        assert_eq!(self.code, code, "{self:?}");
        let line = self.err.lines().last().expect("stderr has a line");
        let mut told: Value = serde_json::from_str(line).expect("stderr is JSON");
        assert_eq!(told["error"]["exit"], code);
        told["error"].take()
    }
}

impl Sandbox {
    pub(crate) fn new(test: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cli-{test}"));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).expect("a place to work in");
        Sandbox { dir: dir.canonicalize().expect("it is there") }
    }

    /// Command that runs `wharf` with these arguments in this home directory.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(WHARF);
        command.args(words).current_dir(&self.dir);
        for name in HOMES {
            command.env(name, &self.dir);
        }
        for name in ["BROWSER", "COLUMNS", "DISPLAY", "NO_COLOR", "TERM", "WAYLAND_DISPLAY"] {
            command.env_remove(name);
        }
        for name in ["LANG", "LC_ALL", "LC_CTYPE", "RUST_LOG", "WHARF_LOG", "WHARF_LOG_FORMAT"] {
            command.env_remove(name);
        }
        // Tests do not use the keychain of the machine.
        command.env("WHARF_TOKEN_STORE", "file");
        command
    }

    /// Runs `wharf` with empty stdin.
    pub(crate) fn run(&self, words: &[&str]) -> CommandOutput {
        self.run_with(words, "")
    }

    /// Runs `wharf` with `input` on stdin.
    pub(crate) fn run_with(&self, words: &[&str], input: &str) -> CommandOutput {
        finished(self.command(words), input)
    }

    /// Runs `wharf` with the demo server after `--`.
    pub(crate) fn demo(&self, words: &[&str]) -> CommandOutput {
        self.run(&[words, &["--", WHARF, "serve"]].concat())
    }

    /// Writes a file to the home directory.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let file = self.dir.join(name);
        fs::create_dir_all(file.parent().expect("it has a folder")).expect("a folder");
        fs::write(&file, text).expect("a file");
        // Files with secrets are refused if others can read them.
        #[cfg(unix)]
        fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .expect("it is ours");
        file.to_string_lossy().into_owned()
    }

    /// Writes a file that only its owner can read.
    #[cfg(unix)]
    pub(crate) fn write_secret(&self, name: &str, text: &str) -> String {
        let file = self.write(name, text);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(&file, mode).expect("a mode");
        file
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Runs `command` to its end, with `input` on stdin.
pub(crate) fn finished(mut command: Command, input: &str) -> CommandOutput {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("wharf runs");
    let out = lines(child.stdout.take().expect("piped"));
    let err = lines(child.stderr.take().expect("piped"));
    let mut stdin = child.stdin.take().expect("piped");
    // The program may not read its stdin.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let code = ended(&mut child).code().expect("it was not killed");
    CommandOutput { code, out: rest(&out), err: rest(&err) }
}

/// Waits for the end of `child`. If it does not end, it is killed and the test fails.
pub(crate) fn ended(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().expect("it can be waited for") {
            return status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            panic!("it did not end within {PATIENCE:?}");
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// The lines of `from`, with their line ends, read in a separate thread, so that a test can time out.
pub(crate) fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (send, lines) = channel();
    thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = String::new();
        while let Ok(1..) = from.read_line(&mut line) {
            // Keep reading, or the program would block on a full pipe.
            let _ = send.send(std::mem::take(&mut line));
        }
    });
    lines
}

/// All remaining lines.
pub(crate) fn rest(lines: &Receiver<String>) -> String {
    let deadline = Instant::now() + PATIENCE;
    let mut rest = String::new();
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => rest.push_str(&line),
            Err(RecvTimeoutError::Disconnected) => return rest,
            Err(RecvTimeoutError::Timeout) => panic!("somebody still holds it, after: {rest}"),
        }
    }
}

/// Demo server on a socket, killed on drop.
pub(crate) struct DemoServer {
    child: Child,
    pub(crate) url: String,
}

impl DemoServer {
    /// Starts the server over HTTP, on a free port.
    pub(crate) fn http(sandbox: &Sandbox) -> Self {
        DemoServer::start(sandbox, &["serve", "--http", "127.0.0.1:0"])
    }

    /// Starts the server with these arguments and reads its address.
    pub(crate) fn start(sandbox: &Sandbox, words: &[&str]) -> Self {
        DemoServer::run(sandbox.command(words))
    }

    /// Starts the server with this command and reads its address.
    pub(crate) fn run(mut command: Command) -> Self {
        let child = command.env("WHARF_LOG_FORMAT", "text").stderr(Stdio::piped()).spawn();
        let mut child = child.expect("the demo starts");
        let lines = lines(child.stderr.take().expect("piped"));
        let is_address = |word: &&str| {
            ["http://", "tcp://", "unix:"].iter().any(|scheme| word.starts_with(scheme))
        };
        let url = std::iter::from_fn(|| lines.recv_timeout(PATIENCE).ok())
            .find_map(|line| line.split_whitespace().find(is_address).map(str::to_owned));
        DemoServer { child, url: url.expect("the demo says where it is") }
    }
}

impl DemoServer {
    /// Sends a signal to the server and waits for its end.
    #[cfg(target_os = "linux")]
    pub(crate) fn signal(mut self, signal: rustix::process::Signal) {
        crate::cli::pty::send(&self.child, signal);
        ended(&mut self.child);
    }

    /// Process id of the server.
    #[cfg(target_os = "linux")]
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for DemoServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
