//! How to reach a server, as its command line says.

use std::{
    ffi::OsString,
    fmt,
    net::{SocketAddr, ToSocketAddrs},
    path::PathBuf,
};

use crate::{Failure, Result};

/// How to reach a server that [runs](crate::Server::run_over) for as long as its process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// Over stdin and stdout.
    #[default]
    Stdio,
    /// Lines over TCP, at an address of this machine's loopback.
    Tcp(SocketAddr),
    /// Lines over a Unix socket at this path.
    Unix(PathBuf),
}

/// What every server says to `--help`.
pub(crate) struct Usage<'a>(pub(crate) &'a str);

impl fmt::Display for Usage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0;
        write!(
            f,
            "{name}, a server of the Model Context Protocol\n\n\
             --stdio          serve the client at stdin and stdout (the default)\n\
             --tcp ADDRESS    serve lines over TCP, such as 127.0.0.1:4000\n\
             --unix PATH      serve lines over a Unix socket\n\
             --help           say this"
        )
    }
}

impl Transport {
    /// Lines over TCP at an address or host name with a port, such as `localhost:4000`.
    ///
    /// # Errors
    /// If there is no such address.
    pub fn tcp(address_and_port: &str) -> Result<Self> {
        address(address_and_port).map(Transport::Tcp)
    }

    /// Reads the command line, without the program's name. None if it asks for help.
    pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Option<Self>> {
        let mut arguments = arguments.into_iter();
        let mut transport = Transport::default();
        while let Some(argument) = arguments.next() {
            let argument = argument.to_string_lossy().into_owned();
            let (option, inline) = match argument.split_once('=') {
                Some((option, value)) => (option, Some(OsString::from(value))),
                None => (&*argument, None),
            };
            let mut value = |example: &str| {
                inline.clone().or_else(|| arguments.next()).ok_or_else(|| {
                    Failure::new(format!("{option} needs a value, such as {example}"))
                })
            };
            transport = match option {
                "--stdio" => Transport::Stdio,
                "--tcp" => Transport::tcp(&value("127.0.0.1:4000")?.to_string_lossy())?,
                "--unix" => Transport::Unix(value("/tmp/server.sock")?.into()),
                "--help" | "-h" => return Ok(None),
                "--http" => return Err(Failure::new("--http is not in this version yet")),
                _ => {
                    return Err(Failure::new(format!(
                        "unknown option {argument}; there are --stdio, --tcp, --unix and --help"
                    )));
                }
            };
        }
        Ok(Some(transport))
    }
}

fn address(text: &str) -> Result<SocketAddr> {
    let found = text.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    found.ok_or_else(|| {
        Failure::new(format!("{text:?} is no address and port, such as 127.0.0.1:4000"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Transport>, String> {
        Transport::parse(line.split_whitespace().map(OsString::from)).map_err(|e| e.to_string())
    }

    #[test]
    fn every_transport_has_its_option_and_the_last_one_counts() {
        let tcp = Transport::Tcp(([127, 0, 0, 1], 4000).into());
        let unix = Transport::Unix("a/b.sock".into());
        for (line, expected) in [
            ("", Some(Transport::Stdio)),
            ("--unix a --stdio", Some(Transport::Stdio)),
            ("--tcp 127.0.0.1:4000", Some(tcp.clone())),
            ("--tcp=127.0.0.1:4000", Some(tcp)),
            ("--unix a/b.sock", Some(unix)),
            ("--help --nonsense", None),
        ] {
            assert_eq!(parse(line), Ok(expected), "{line}");
        }
    }

    #[test]
    fn what_cannot_be_done_says_why() {
        for (line, reason) in [
            ("--tcp", "--tcp needs a value, such as 127.0.0.1:4000"),
            ("--tcp here", "\"here\" is no address and port, such as 127.0.0.1:4000"),
            ("--http 127.0.0.1:80", "--http is not in this version yet"),
            ("--port 1", "unknown option --port; there are --stdio, --tcp, --unix and --help"),
        ] {
            assert_eq!(parse(line), Err(reason.to_owned()), "{line}");
        }
    }
}
