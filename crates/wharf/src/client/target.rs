//! Location of a server.

use std::fmt;

use wharf_transport::client::ChildCommand;

use crate::{Endpoint, client::config::Entry};

/// Location of a server, or the command that starts it.
///
/// ```
/// use wharf::client::{ChildCommand, Target};
///
/// let remote: Target = "https://example.com/mcp".into();
/// let local: Target = ChildCommand::new("my-server").args(["--verbose"]).into();
/// # let _ = (remote, local);
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum Target {
    /// URL: `http`, `https`, `ws`, `wss`, `tcp://HOST:PORT` or `unix:PATH`.
    Url(String),
    /// Program to start, which communicates over its stdin and stdout.
    Command(ChildCommand),
    /// Server in this process.
    Server(Box<Endpoint>),
    /// Entry of a configuration file.
    Entry(Box<Entry>),
}

impl From<&str> for Target {
    fn from(url: &str) -> Self {
        Target::Url(url.into())
    }
}

impl From<String> for Target {
    fn from(url: String) -> Self {
        Target::Url(url)
    }
}

impl From<ChildCommand> for Target {
    fn from(command: ChildCommand) -> Self {
        Target::Command(command)
    }
}

impl From<Endpoint> for Target {
    fn from(server: Endpoint) -> Self {
        Target::Server(Box::new(server))
    }
}

impl From<&Endpoint> for Target {
    fn from(server: &Endpoint) -> Self {
        server.clone().into()
    }
}

impl From<Entry> for Target {
    fn from(entry: Entry) -> Self {
        Target::Entry(Box::new(entry))
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Url(url) => f.write_str(url),
            Target::Command(command) => write!(f, "{command}"),
            Target::Server(_) => f.write_str("a server in this process"),
            Target::Entry(entry) => f.write_str(&entry.name),
        }
    }
}
