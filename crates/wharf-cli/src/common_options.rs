//! Options of every command that connects to a server.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use wharf::{
    Era, ProtocolVersion,
    model::{LogLevel, Root},
};

use crate::{error::CliError, tls_and_proxy_options::TlsAndProxyOptions};

/// Total timeout of a call, unless `--timeout` is longer.
pub(crate) const TOTAL_TIMEOUT: Duration = Duration::from_mins(10);

/// Options of every command that connects to a server.
#[derive(Debug, Default, Args)]
pub(crate) struct CommonOptions {
    /// Command that starts the server
    #[arg(last = true, hide = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
    /// Print JSON, at a terminal too
    #[arg(long, help_heading = "Options of every command that connects to a server")]
    pub(crate) json: bool,
    /// Negotiate only this: modern, legacy, or a revision by its date
    #[arg(long, value_parser = VersionChoice::parse, value_name = "ERA", help_heading = "Options of every command that connects to a server")]
    pub(crate) era: Option<VersionChoice>,
    /// Timeout of the whole command; without it, 60 seconds without a message from the server
    #[arg(long, value_parser = seconds, value_name = "SECONDS", help_heading = "Options of every command that connects to a server")]
    pub(crate) timeout: Option<Duration>,
    /// Send this HTTP header, 'Name: value'; a final @env:VARIABLE is read from the environment
    #[arg(long, value_parser = header, value_name = "HEADER", help_heading = "Options of every command that connects to a server")]
    pub(crate) header: Vec<(String, String)>,
    /// Allow authorization servers in a private network, such as a company's own
    #[arg(long, help_heading = "Options of every command that connects to a server")]
    pub(crate) allow_private: bool,
    #[command(flatten)]
    pub(crate) connection: TlsAndProxyOptions,
    /// Declare this directory as a root; may be repeated
    #[arg(
        long,
        value_name = "DIR",
        help_heading = "Options of every command that connects to a server"
    )]
    pub(crate) root: Vec<PathBuf>,
    /// Show the server's log messages of this level and above: debug, info, notice, warning, error ...
    #[arg(long, value_parser = level, value_name = "LEVEL", help_heading = "Options of every command that connects to a server")]
    pub(crate) log_level: Option<LogLevel>,
    /// Pass an environment variable to a started server: NAME with its current value, or NAME=VALUE
    #[arg(long, value_parser = variable, value_name = "NAME[=VALUE]", help_heading = "Options of every command that connects to a server")]
    pub(crate) env: Vec<(String, String)>,
    /// Trust the project's configuration file for this run, without a prompt
    #[arg(long, help_heading = "Options of every command that connects to a server")]
    pub(crate) trust: bool,
    /// Show the stderr of a started server
    #[arg(long, help_heading = "Options of every command that connects to a server")]
    pub(crate) stderr: bool,
    /// Show every message in both directions, with timestamps
    #[arg(long, help_heading = "Options of every command that connects to a server")]
    pub(crate) trace: bool,
}

/// Protocol versions to negotiate with the server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum VersionChoice {
    Era(Era),
    Exact(ProtocolVersion),
}

impl VersionChoice {
    fn parse(text: &str) -> Result<Self, String> {
        if let Some(era) = Era::from_name(text) {
            return Ok(VersionChoice::Era(era));
        }
        let version = text.parse().map(VersionChoice::Exact);
        version.map_err(|error: wharf::model::UnknownRevision| {
            format!("{error}; or write modern or legacy")
        })
    }
}

/// Suffixes of a duration, with their number of seconds.
const UNITS: [(&str, f64); 3] = [("ms", 0.001), ("s", 1.0), ("m", 60.0)];

/// Parses a duration: `10`, `10s`, `500ms` or `2m`.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    seconds_or_none(text).and_then(|time| match time {
        Duration::ZERO => Err("give a number of seconds above 0".to_owned()),
        time => Ok(time),
    })
}

/// Parses a duration that may be 0.
pub(crate) fn seconds_or_none(text: &str) -> Result<Duration, String> {
    let with_unit =
        UNITS.iter().find_map(|(unit, length)| Some((text.strip_suffix(unit)?, *length)));
    let (number, length) = with_unit.unwrap_or((text, 1.0));
    let number: f64 = number.parse().map_err(|_| "this is not a number of seconds".to_owned())?;
    let seconds = number * length;
    // One year is practically unlimited, and no clock overflows.
    if !(0.0..=31_536_000.0).contains(&seconds) {
        return Err("give a number of seconds, up to a year".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn level(text: &str) -> Result<LogLevel, String> {
    let names = LogLevel::ALL.map(LogLevel::as_str).join(", ");
    text.to_lowercase().parse().map_err(|_| format!("the levels are {names}"))
}

/// Parses `NAME`, which must be set in the environment, or `NAME=VALUE`.
fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, with_secret(value)?),
        None => match std::env::var(text) {
            Ok(value) => (text, value),
            Err(std::env::VarError::NotUnicode(_)) => {
                return Err(format!("the environment variable {text} is not UTF-8"));
            }
            Err(_) => return Err(format!("the environment variable {text} is not set")),
        },
    };
    match name.is_empty() || name.contains('\0') {
        true => Err("write it as NAME or NAME=VALUE".to_owned()),
        false => Ok((name.to_owned(), value)),
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("write it as 'Name: value'")?;
    let (name, value) = (name.trim(), value.trim());
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(fits) {
        return Err(format!("{name:?} is not a valid header name"));
    }
    let value = with_secret(value)?;
    if value.chars().any(char::is_control) {
        return Err(format!("the value of {name} has control characters"));
    }
    Ok((name.to_owned(), value))
}

/// Value in which a final `@env:VARIABLE` is replaced from the environment.
pub(crate) fn with_secret(value: &str) -> Result<String, String> {
    let Some((before, variable)) = value.split_once("@env:") else { return Ok(value.to_owned()) };
    let secret = std::env::var(variable)
        .map_err(|_| format!("the environment variable {variable} is not set"))?;
    Ok(format!("{before}{}", secret.trim()))
}

impl CommonOptions {
    /// Directories of `--root` as MCP roots.
    pub(crate) fn roots(&self) -> Result<Vec<Root>, CliError> {
        self.root.iter().map(|dir| root(dir)).collect()
    }
}

fn root(dir: &std::path::Path) -> Result<Root, CliError> {
    let path = dir
        .canonicalize()
        .map_err(|error| CliError::usage(format!("--root {}: {error}", dir.display())))?;
    let text = path.to_string_lossy();
    let mut uri = String::from(if text.starts_with('/') { "file://" } else { "file:///" });
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' | b':' => {
                uri.push(char::from(byte));
            }
            b'\\' => uri.push('/'),
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(match name {
        Some(name) => Root::new(uri).name(name),
        None => Root::new(uri),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_expand_environment_secrets() {
        assert_eq!(header("X-A:  b: c "), Ok(("X-A".into(), "b: c".into())));
        let path = std::env::var("PATH").unwrap();
        assert_eq!(header("A: Bearer @env:PATH"), Ok(("A".into(), format!("Bearer {path}"))));
        for wrong in ["none", ": x", "a b: c", "a: b\r\nc: d", "a: @env:WHARF_NOT_SET"] {
            assert!(header(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn env_options_take_names_or_values() {
        let path = std::env::var("PATH").unwrap();
        assert_eq!(variable("PATH"), Ok(("PATH".into(), path.clone())));
        assert_eq!(variable("A=b=c"), Ok(("A".into(), "b=c".into())));
        assert_eq!(variable("A=@env:PATH"), Ok(("A".into(), path)));
        assert!(variable("WHARF_NOT_SET").is_err_and(|it| it.contains("is not set")));
        assert!(variable("=x").is_err());
    }

    #[test]
    fn times_and_eras_are_checked() {
        for (text, ms) in [("1.5", 1500), ("1.5s", 1500), ("250ms", 250), ("2m", 120_000)] {
            assert_eq!(seconds(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for wrong in ["0", "0s", "-1", "NaN", "inf", "soon", "s", "1h", "1e99", "1e99ms"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
        assert_eq!(seconds_or_none("0"), Ok(Duration::ZERO));
        assert!(seconds_or_none("-1ms").is_err());
        assert!(
            VersionChoice::parse("2025-06-18").is_ok() && VersionChoice::parse("modern").is_ok()
        );
        assert!(VersionChoice::parse("1999-01-01").unwrap_err().contains("2025-06-18"));
        assert_eq!(level("Warning"), Ok(LogLevel::Warning));
        assert!(level("loud").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn roots_are_file_urls() {
        let dir = std::env::temp_dir().join("wharf root ü");
        std::fs::create_dir_all(&dir).unwrap();
        let root = root(&dir).unwrap();
        assert!(root.uri.ends_with("/wharf%20root%20%C3%BC"), "{}", root.uri);
        assert_eq!(root.name.as_deref(), Some("wharf root ü"));
        std::fs::remove_dir(&dir).unwrap();
    }
}
