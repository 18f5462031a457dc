//! Servers that run as a child process, over its stdin and stdout.

pub(crate) mod environment;
pub(crate) mod process;
mod process_group;
pub(crate) mod stderr;

use std::{fmt, io, path::PathBuf, process::Stdio};

use tokio::process::{ChildStdin, ChildStdout, Command};
use wharf_model::{Error, ErrorKind, FailureOrigin};

pub use crate::client::stream::child::{environment::Environment, process_group::kill_children};

use crate::client::stream::child::{process::ChildProcess, stderr::StderrTail};
use crate::client::{
    ClientTransportOptions,
    stream::{
        connector::{ConnectionParts, Connector},
        json_lines::{LineSink, LineSource},
    },
};

/// A command that runs a server, without a shell.
///
/// The child gets its own process group: Ctrl-C at a terminal reaches this program only, which can
/// cancel its calls first. When the transport is closed or dropped, the child's stdin is closed. If
/// the child does not exit, the group gets SIGTERM after two seconds and SIGKILL after two more. When the child has
/// exited, other processes in its group get SIGTERM, and SIGKILL two seconds later.
/// When this program is killed, the child reads the end of its stdin. (The kernel could kill it,
/// but that needs code between fork and exec, which is `unsafe`.)
///
/// The child gets only a short list of this program's environment variables
/// ([`Environment::Basic`]), so that a server cannot read the secrets of others.
/// [`env`](ChildCommand::env) adds one, [`inherit_env`](ChildCommand::inherit_env) passes all.
///
/// ```
/// # mod wharf { pub use wharf_transport::client; }
/// use wharf::client::{ChildCommand, Stderr};
///
/// let command = ChildCommand::new("npx")
///     .args(["-y", "@modelcontextprotocol/server-everything"])
///     .env("LOG", "debug")
///     .stderr(Stderr::Inherit);
/// assert_eq!(command.to_string(), "npx -y @modelcontextprotocol/server-everything");
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChildCommand {
    /// The program: a name on the PATH, or a path.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Additional variables, besides those that `environment` selects.
    pub env: Vec<(String, String)>,
    /// The working directory; without one, that of this program.
    pub dir: Option<PathBuf>,
    /// The variables of this program's environment that the child gets.
    pub environment: Environment,
    /// The destination of its stderr.
    pub stderr: Stderr,
}

/// The destination of a child's stderr.
///
/// ```
/// # mod wharf { pub use wharf_transport::client; }
/// use wharf::client::{ChildCommand, Stderr};
///
/// let quiet = ChildCommand::new("my-server").stderr(Stderr::Null);
/// assert_eq!(quiet.stderr, Stderr::Null);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stderr {
    /// The stderr of this program.
    Inherit,
    /// Discarded, but the error that reports the child's exit includes the last lines.
    Null,
    /// The trace callback, line by line. The error that reports the child's exit includes the last
    /// lines.
    #[default]
    Note,
}

impl ChildCommand {
    /// Runs `program`, without arguments.
    pub fn new(program: impl Into<String>) -> Self {
        ChildCommand {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            dir: None,
            environment: Environment::default(),
            stderr: Stderr::default(),
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// Passes this program's whole environment, except the keys of a Wharf server.
    ///
    /// ```
    /// # mod wharf { pub use wharf_transport::client; }
    /// use wharf::client::{ChildCommand, Environment};
    ///
    /// let command = ChildCommand::new("cargo").args(["run"]).inherit_env();
    /// assert_eq!(command.environment, Environment::Inherit);
    /// ```
    #[must_use]
    pub fn inherit_env(mut self) -> Self {
        self.environment = Environment::Inherit;
        self
    }

    /// Passes nothing of this program's environment.
    #[must_use]
    pub fn clear_env(mut self) -> Self {
        self.environment = Environment::Clear;
        self
    }

    /// Sets the destination of its stderr.
    #[must_use]
    pub fn stderr(mut self, stderr: Stderr) -> Self {
        self.stderr = stderr;
        self
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).env_clear().envs(self.environment.variables());
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        command.stderr(match self.stderr {
            Stderr::Inherit => Stdio::inherit(),
            Stderr::Null | Stderr::Note => Stdio::piped(),
        });
        #[cfg(unix)]
        command.process_group(0);
        command
    }

    /// Advice for a program that cannot be started.
    fn advice(&self, problem: &io::Error) -> String {
        let missing_dir = self.dir.as_ref().filter(|dir| !dir.is_dir());
        match problem.kind() {
            _ if missing_dir.is_some() => "check its working directory".into(),
            io::ErrorKind::NotFound if self.program.contains(['/', '\\']) => {
                "check that the file and the interpreter in its first line exist".into()
            }
            io::ErrorKind::NotFound if self.program.contains(' ') => {
                "pass the program and its arguments separately".into()
            }
            io::ErrorKind::NotFound => {
                "check that it is installed and on the PATH, or use its full path".into()
            }
            io::ErrorKind::PermissionDenied => "check that the file is executable".into(),
            _ => "check the command".into(),
        }
    }
}

/// The command line. The environment is omitted, because it may hold secrets.
impl fmt::Display for ChildCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.program)?;
        self.args.iter().try_for_each(|arg| write!(f, " {arg}"))
    }
}

impl fmt::Debug for ChildCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.env.iter().map(|(name, _)| name).collect();
        f.debug_struct("ChildCommand")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("env", &names)
            .field("dir", &self.dir)
            .field("environment", &self.environment)
            .field("stderr", &self.stderr)
            .finish()
    }
}

impl Connector for ChildCommand {
    type Source = LineSource<ChildStdout>;
    type Sink = LineSink<ChildStdin>;
    type Guard = ChildProcess;

    fn name(&self) -> String {
        format!("`{}`", self.program)
    }

    fn is_process(&self) -> bool {
        true
    }

    fn key(&self) -> Option<String> {
        let dir = self.dir.as_ref().map(|dir| dir.display().to_string()).unwrap_or_default();
        Some(format!("child:{dir}\0{}\0{}", self.program, self.args.join("\0")))
    }

    async fn open(&self, options: &ClientTransportOptions) -> Result<ConnectionParts<Self>, Error> {
        let spawned = self.command().spawn();
        let mut child = spawned.map_err(|problem| {
            let advice = self.advice(&problem);
            failed(format!("Cannot start `{}`: {problem}; {advice}", self.program))
                .with_source(problem)
        })?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let Some((stdin, stdout)) = pipes else {
            return Err(failed(format!("Cannot start `{}`: it has no pipes", self.program)));
        };
        let tail = child.stderr.take().map(|stderr| {
            let trace = options.trace.clone().filter(|_| self.stderr == Stderr::Note);
            StderrTail::follow(stderr, trace)
        });
        let process = child.id().unwrap_or_default();
        options.note(format_args!("started `{}`, process {process}", self.program));
        Ok(ConnectionParts {
            source: LineSource::new(stdout, options),
            sink: LineSink::new(stdin),
            guard: ChildProcess::new(child, tail),
        })
    }
}

fn failed(message: String) -> Error {
    Error::new(ErrorKind::TransportError).with_message(message).from_client(FailureOrigin::Start)
}
