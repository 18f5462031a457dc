//! Servers configured for other programs: entries of `mcp.json` and similar files.
//!
//! Supports `mcpServers` (Claude Desktop, Claude Code, Cursor and most others) and VS Code's
//! `servers`, with comments and trailing commas.
//!
//! A file of the user's own settings is trusted. Any other file, such as the `.mcp.json` of a new
//! checkout, is not: its entries start no program and read no variable until the application calls
//! [`Entry::trust`] with the user's consent.

mod entry;
mod env_file;
mod expand;
mod find_entry;
mod locations;
mod mask;
mod spelling;

use std::{
    fmt, fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

pub use crate::client::config::locations::{ConfigLocation, config_locations};
pub use entry::Entry;
pub use find_entry::find;
pub use mask::{masked_url, masked_variable};

/// Maximum length of a configuration file.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Configuration file with its servers.
///
/// ```
/// use wharf::client::config::Config;
///
/// let text = r#"{"mcpServers": {"files": {"command": "files-server", "args": ["/tmp"]}}}"#;
/// let config = Config::parse(text, "mcp.json")?;
/// assert_eq!(config.entries[0].name, "files");
/// # Ok::<(), wharf::client::config::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Path of the file.
    pub path: PathBuf,
    /// Servers by name.
    pub entries: Vec<Entry>,
    /// Other parts of the file that look like mistakes.
    pub problems: Vec<ConfigError>,
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or has no supported table of servers.
    pub fn read(path: impl AsRef<Path>) -> Result<Config, ConfigError> {
        let path = path.as_ref();
        let fail = |problem: String| ConfigError::new(path, problem);
        let failed = |error: io::Error| fail(error.to_string()).because(error);
        // A project may contain a link to a device, which is endless.
        let is_file = fs::metadata(path).map_err(failed)?.is_file();
        if !is_file {
            return Err(fail("it is not a regular file".into()));
        }
        let file = fs::File::open(path).map_err(failed)?;
        let mut text = String::new();
        let read = file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text);
        read.map_err(failed)?;
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(fail(format!("it is longer than {} MiB", MAX_FILE_BYTES >> 20)));
        }
        Config::parse(&text, path)
    }

    /// Parses the text of the file at `path`.
    ///
    /// # Errors
    /// If it has no supported table of servers.
    pub fn parse(text: &str, path: impl AsRef<Path>) -> Result<Config, ConfigError> {
        let path = path.as_ref();
        let fail = |problem: String| ConfigError::new(path, problem);
        // Editors on Windows write a byte order mark, which is not JSON.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let json: Value = jsonc_parser::parse_to_serde_value(text, &Default::default())
            .map_err(|error| fail(format!("it is not valid JSON: {error}")).because(error))?;
        let tables = servers(&json, path);
        let problems = spelling::problems_of_file(&json);
        if tables.is_empty() {
            return Err(match problems.into_iter().next() {
                Some(problem) => fail(problem),
                None => ConfigError {
                    names_no_servers: true,
                    ..fail("it has neither `mcpServers` nor `servers`".into())
                },
            });
        }
        let digest: String =
            Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        let trusted = locations::is_user_file(path);
        // An invalid entry does not affect the others.
        let entries = tables.into_iter().flatten();
        let entries = entries.map(|(name, value)| Entry::new(name, value, path, &digest, trusted));
        let entries = entries.collect();
        let problems = problems.into_iter().map(fail).collect();
        Ok(Config { path: path.into(), entries, problems })
    }

    /// Entry with this name.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }
}

type ServerTable = serde_json::Map<String, Value>;

/// All tables of servers in the file that apply to the current directory.
fn servers<'a>(json: &'a Value, path: &Path) -> Vec<&'a ServerTable> {
    let mut tables = Vec::new();
    // Claude Code stores servers of one project beside those of all; the project's come first.
    if path.file_name().is_some_and(|name| name == ".claude.json")
        && let Ok(here) = std::env::current_dir()
    {
        tables.push(&json["projects"][here.to_string_lossy().as_ref()]["mcpServers"]);
    }
    tables.extend([&json["mcpServers"], &json["servers"], &json["mcp"]["servers"]]);
    tables.into_iter().filter_map(Value::as_object).collect()
}

/// Error of an entry or a configuration file.
///
/// ```
/// use wharf::client::config::Config;
///
/// let error = Config::parse("{}", "mcp.json").unwrap_err();
/// assert!(error.names_no_servers());
/// assert!(error.to_string().starts_with("mcp.json: "));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConfigError {
    problem: String,
    /// Existing names.
    pub known: Vec<String>,
    names_no_servers: bool,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl ConfigError {
    fn new(path: &Path, problem: String) -> Self {
        Self::with_message(format!("{}: {problem}", path.display()))
    }

    fn with_message(problem: String) -> Self {
        ConfigError { problem, known: Vec::new(), names_no_servers: false, source: None }
    }

    fn because(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// True if the file is valid but names no servers.
    #[must_use]
    pub fn names_no_servers(&self) -> bool {
        self.names_no_servers
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
