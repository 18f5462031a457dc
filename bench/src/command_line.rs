//! Command line of the benchmark servers: `stdio TOOLS` or `http PORT TOOLS MODE`.

use std::env;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// Protocol version and session mode of HTTP clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// 2025-11-25, with a session for each connection.
    Stateful,
    /// 2025-11-25, without sessions.
    Stateless,
    /// 2026-07-28.
    Modern,
}

const MODES: [(&str, Mode); 3] =
    [("stateful", Mode::Stateful), ("stateless", Mode::Stateless), ("2026", Mode::Modern)];

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = MODES.iter().find(|(name, _)| *name == text);
        known.map(|(_, mode)| *mode).ok_or_else(|| format!("`{text}` is not a mode\n{USAGE}"))
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = MODES.iter().find(|(_, mode)| mode == self);
        f.write_str(known.map_or("", |(name, _)| name))
    }
}

/// Transport and size of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serve {
    /// Serve stdin and stdout.
    Stdio {
        /// Number of generated tools.
        tools: usize,
    },
    /// Serve HTTP at `/mcp`.
    Http {
        /// Loopback address to bind.
        address: SocketAddr,
        /// Number of generated tools.
        tools: usize,
        /// Mode of the clients.
        mode: Mode,
    },
}

const USAGE: &str = "usage: stdio TOOLS | http PORT TOOLS stateful|stateless|2026";

impl Serve {
    /// Parses the command line of this process.
    pub fn from_command_line() -> Result<Self, String> {
        let words: Vec<String> = env::args().skip(1).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            ["stdio"] => Ok(Serve::Stdio { tools: 0 }),
            ["stdio", tools] => Ok(Serve::Stdio { tools: number(tools)? }),
            ["http", port, tools, mode] => Ok(Serve::Http {
                address: SocketAddr::from((Ipv4Addr::LOCALHOST, number(port)?)),
                tools: number(tools)?,
                mode: mode.parse()?,
            }),
            _ => Err(USAGE.to_owned()),
        }
    }

    /// Number of generated tools.
    pub fn tools(&self) -> usize {
        match self {
            Serve::Stdio { tools } | Serve::Http { tools, .. } => *tools,
        }
    }
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number in range\n{USAGE}"))
}
