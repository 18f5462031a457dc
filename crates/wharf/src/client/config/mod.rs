//! Servers that other programs know: entries of `mcp.json` files and their like.
//!
//! Read are `mcpServers` (Claude Desktop, Claude Code, Cursor and most others) and VS Code's
//! `servers`, with comments and trailing commas.

mod expand;
mod places;

use std::{
    collections::BTreeMap,
    fmt, fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::Value;
use wharf_transport::client::ChildCommand;

use self::expand::Variables;
use super::Target;

pub use places::{Place, places};

/// No configuration file is longer than this.
const LONGEST: u64 = 16 << 20;

/// A configuration file, and the servers it names.
///
/// ```
/// use wharf::config::Config;
///
/// let text = r#"{"mcpServers": {"files": {"command": "files-server", "args": ["/tmp"]}}}"#;
/// let config = Config::parse(text, "mcp.json")?;
/// assert_eq!(config.entries[0].name, "files");
/// # Ok::<(), wharf::config::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it was read.
    pub path: PathBuf,
    /// The servers, by name.
    pub entries: Vec<Entry>,
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or names no servers in a way we know.
    pub fn read(path: impl AsRef<Path>) -> Result<Config, ConfigError> {
        let path = path.as_ref();
        let fail = |problem: String| ConfigError::new(path, problem);
        let size = fs::metadata(path).map_err(|error| fail(error.to_string()))?.len();
        if size > LONGEST {
            return Err(fail(format!("it is longer than {} MiB", LONGEST >> 20)));
        }
        let text = fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
        Config::parse(&text, path)
    }

    /// Reads the text of a file that lies at `path`.
    ///
    /// # Errors
    /// If it names no servers in a way we know.
    pub fn parse(text: &str, path: impl AsRef<Path>) -> Result<Config, ConfigError> {
        let path = path.as_ref();
        let fail = |problem: String| ConfigError::new(path, problem);
        // Editors on Windows begin their files with a mark that is no JSON.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let json: Value = jsonc_parser::parse_to_serde_value(text, &Default::default())
            .map_err(|error| fail(format!("it is no JSON: {error}")))?;
        let tables = servers(&json, path);
        if tables.is_empty() {
            let error = fail("it has neither `mcpServers` nor `servers`".into());
            return Err(ConfigError { names_no_servers: true, ..error });
        }
        // One that cannot be read takes nothing from the others.
        let entry = |(name, value): (&String, &Value)| Entry {
            name: name.clone(),
            source: path.into(),
            spec: Spec::deserialize(value)
                .map_err(|error| format!("it cannot be read: {}", wanted(&error))),
        };
        let entries = tables.into_iter().flatten().map(entry).collect();
        Ok(Config { path: path.into(), entries })
    }

    /// The entry with this name.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }
}

type Table = serde_json::Map<String, Value>;

/// What a value should have been. What it is may be a secret.
fn wanted(error: &serde_json::Error) -> String {
    let problem = error.to_string();
    match problem.rsplit_once(", expected ") {
        Some((_, wanted)) => format!("expected {wanted}"),
        None => problem,
    }
}

/// Every table of servers in the file that counts in the current directory.
fn servers<'a>(json: &'a Value, path: &Path) -> Vec<&'a Table> {
    let mut tables = Vec::new();
    // Claude Code keeps what belongs to one project beside what belongs to all, and it goes first.
    if path.file_name().is_some_and(|name| name == ".claude.json")
        && let Ok(here) = std::env::current_dir()
    {
        tables.push(&json["projects"][here.to_string_lossy().as_ref()]["mcpServers"]);
    }
    tables.extend([&json["mcpServers"], &json["servers"], &json["mcp"]["servers"]]);
    tables.into_iter().filter_map(Value::as_object).collect()
}

/// One server of a configuration file.
#[derive(Clone)]
pub struct Entry {
    /// What the file calls it.
    pub name: String,
    /// The file.
    pub source: PathBuf,
    /// What the file says about it, or why that cannot be read.
    spec: Result<Spec, String>,
}

#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    command: Option<String>,
    args: Vec<String>,
    env: BTreeMap<String, Value>,
    cwd: Option<String>,
    #[serde(alias = "serverUrl", alias = "httpUrl")]
    url: Option<String>,
    headers: BTreeMap<String, String>,
    disabled: bool,
}

impl Entry {
    /// Whether the file says not to use it.
    #[must_use]
    pub fn is_disabled(&self) -> bool {
        self.spec.as_ref().is_ok_and(|spec| spec.disabled)
    }

    /// Why it can be of no use, if what the file says about it cannot be read.
    #[must_use]
    pub fn problem(&self) -> Option<ConfigError> {
        self.spec.as_ref().err().map(|problem| self.error(problem))
    }

    fn error(&self, problem: &str) -> ConfigError {
        ConfigError::new(&self.source, format!("entry {:?}: {problem}", self.name))
    }

    /// Whether another entry leads to the same server.
    #[must_use]
    pub fn is_same_server(&self, other: &Entry) -> bool {
        self.spec == other.spec
    }

    /// Where the server is, with variables replaced, and the headers that go with each request.
    ///
    /// # Errors
    /// If a variable is not set, or the entry says neither `command` nor `url`.
    pub fn resolve(&self) -> Result<(Target, Vec<(String, String)>), ConfigError> {
        let variables = Variables::of(&self.source);
        self.located(&|text| variables.expand(text).map_err(|problem| self.error(&problem)))
    }

    /// As [`resolve`](Entry::resolve), with variables as the file has them: their values may be
    /// secret.
    ///
    /// # Errors
    /// If the entry says neither `command` nor `url`.
    pub fn as_written(&self) -> Result<(Target, Vec<(String, String)>), ConfigError> {
        self.located(&|text| Ok(text.clone()))
    }

    fn located(&self, expand: Expand<'_>) -> Result<(Target, Vec<(String, String)>), ConfigError> {
        let spec = self.spec.as_ref().map_err(|problem| self.error(problem))?;
        let headers = spec.headers.iter();
        let headers: Vec<(String, String)> = headers
            .map(|(name, value)| Ok((name.clone(), expand(value)?)))
            .collect::<Result<_, _>>()?;
        match (&spec.command, &spec.url) {
            (Some(command), _) => Ok((spec.command(command, expand)?.into(), headers)),
            (None, Some(url)) => Ok((expand(url)?.into(), headers)),
            (None, None) => Err(self.error("it says neither `command` nor `url`")),
        }
    }

    /// The command line or URL as the file has it, without what may be secret: neither headers nor
    /// environment.
    #[must_use]
    pub fn summary(&self) -> String {
        self.spec.as_ref().map_or_else(|_| String::new(), Spec::summary)
    }
}

/// What replaces the variables in a text.
type Expand<'a> = &'a dyn Fn(&String) -> Result<String, ConfigError>;

impl Spec {
    fn command(&self, program: &String, expand: Expand<'_>) -> Result<ChildCommand, ConfigError> {
        let args = self.args.iter().map(expand).collect::<Result<Vec<_>, _>>()?;
        let mut command = ChildCommand::new(expand(program)?).args(args);
        for (name, value) in &self.env {
            let value = match value {
                Value::String(text) => expand(text)?,
                Value::Null => continue,
                other => other.to_string(),
            };
            command = command.env(name, value);
        }
        Ok(match &self.cwd {
            Some(dir) => command.dir(expand(dir)?),
            None => command,
        })
    }

    fn summary(&self) -> String {
        match (&self.command, &self.url) {
            (Some(command), _) => {
                let words = std::iter::once(command).chain(&self.args);
                words.map(String::as_str).collect::<Vec<_>>().join(" ")
            }
            (None, Some(url)) => url.clone(),
            (None, None) => String::new(),
        }
    }
}

/// Headers and environment may hold secrets.
impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("name", &self.name)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// Finds an entry by its name, in every place where programs keep them.
///
/// # Errors
/// If there is none, or several files mean different servers by it: then say which, as
/// `FILE#NAME`, for a project you just opened must not decide what a name stands for.
pub fn find(name: &str) -> Result<Entry, ConfigError> {
    let mut found: Vec<Entry> = Vec::new();
    let (mut others, mut unread) = (Vec::new(), Vec::new());
    for place in places().into_iter().filter(|place| place.path.exists()) {
        let config = match Config::read(&place.path) {
            Ok(config) => config,
            Err(error) if error.names_no_servers => continue,
            Err(error) => {
                unread.push(error.problem);
                continue;
            }
        };
        for entry in config.entries {
            // Within one file the first counts.
            let known =
                |other: &Entry| other.source == entry.source || other.is_same_server(&entry);
            match entry.name == name {
                true if !found.iter().any(known) => found.push(entry),
                true => {}
                false => others.push(entry.name),
            }
        }
    }
    match (found.pop(), found.is_empty()) {
        (Some(entry), true) => Ok(entry),
        (Some(entry), false) => {
            found.push(entry);
            Err(ConfigError::ambiguous(name, &found))
        }
        (None, _) => Err(ConfigError::unknown(name, others, &unread)),
    }
}

/// Why an entry cannot be used.
#[derive(Clone, Debug)]
pub struct ConfigError {
    problem: String,
    /// The names there are.
    pub known: Vec<String>,
    names_no_servers: bool,
}

impl ConfigError {
    fn new(path: &Path, problem: String) -> Self {
        Self::saying(format!("{}: {problem}", path.display()))
    }

    fn saying(problem: String) -> Self {
        ConfigError { problem, known: Vec::new(), names_no_servers: false }
    }

    /// Whether the file is in order, but says nothing about servers.
    #[must_use]
    pub fn names_no_servers(&self) -> bool {
        self.names_no_servers
    }

    fn ambiguous(name: &str, found: &[Entry]) -> Self {
        let each = |entry: &Entry| format!("{}#{name}", entry.source.display());
        let choices: Vec<String> = found.iter().map(each).collect();
        let choices = choices.join(" or ");
        Self::saying(format!("{name:?} means different servers in different files: say {choices}"))
    }

    /// `unread`: what is wrong with files that it may stand in.
    fn unknown(name: &str, mut known: Vec<String>, unread: &[String]) -> Self {
        known.sort_unstable();
        known.dedup();
        let mut problem = match known.is_empty() {
            true => format!("no server {name:?} is configured, and no other either"),
            false => format!("no server {name:?} is configured; there are {}", known.join(", ")),
        };
        if !unread.is_empty() {
            problem = format!("{problem} (not read: {})", unread.join("; "));
        }
        ConfigError { known, ..Self::saying(problem) }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_named_without_its_value() {
        for entry in [
            r#"{"url": "http://x/", "headers": "Bearer hunter2"}"#,
            r#"{"command": "x", "env": "KEY=hunter2"}"#,
            r#"{"command": "x", "args": "--key=hunter2, expected \"hunter2\""}"#,
            r#""hunter2""#,
        ] {
            let text = format!(r#"{{"mcpServers": {{"shop": {entry}}}}}"#);
            let config = Config::parse(&text, "mcp.json").unwrap();
            let problem = config.entries[0].resolve().map(drop).unwrap_err().to_string();
            assert_eq!(config.entries[0].problem().unwrap().to_string(), problem);
            assert!(problem.contains("\"shop\"") && problem.contains("expected"), "{problem}");
            assert!(!problem.contains("hunter2"), "{problem}");
        }
    }
}
