//! Server entry of a configuration file.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Deserialize;
use serde_json::Value;
use wharf_transport::client::ChildCommand;

use super::{ConfigError, env_file, expand, expand::Variables, mask, spelling};
use crate::client::Target;
use crate::client::config::locations;

/// Server entry of a configuration file.
///
/// ```
/// use wharf::client::config::Config;
///
/// let text = r#"{"mcpServers": {"files": {"command": "files-server", "disabled": true}}}"#;
/// let config = Config::parse(text, "mcp.json")?;
/// let entry = &config.entries[0];
/// assert_eq!(entry.name, "files");
/// assert!(entry.is_disabled() && !entry.is_trusted());
/// # Ok::<(), wharf::client::config::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct Entry {
    /// Name of the entry.
    pub name: String,
    /// Path of the file.
    pub source: PathBuf,
    /// Parsed entry, or the parse error.
    spec: Result<EntrySpec, String>,
    /// Keys that look misspelt.
    misspelt: Vec<String>,
    /// SHA-256 of the file's text, in hex.
    digest: Arc<str>,
    trusted: bool,
}

#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EntrySpec {
    command: Option<String>,
    args: Vec<String>,
    env: BTreeMap<String, Value>,
    env_file: Option<String>,
    cwd: Option<String>,
    #[serde(alias = "serverUrl", alias = "httpUrl")]
    url: Option<String>,
    headers: BTreeMap<String, String>,
    disabled: bool,
}

/// Server with the headers of each request to it.
type ResolvedTarget = (Target, Vec<(String, String)>);

impl Entry {
    pub(super) fn new(
        name: &str,
        value: &Value,
        source: &Path,
        digest: &str,
        trusted: bool,
    ) -> Self {
        let spec = EntrySpec::deserialize(value)
            .map_err(|error| format!("it cannot be read: {}", expected_type(&error)));
        let misspelt = spelling::problems_of_entry(value);
        let digest = digest.into();
        Entry { name: name.to_owned(), source: source.into(), spec, misspelt, digest, trusted }
    }

    /// True if the file disables the entry.
    #[must_use]
    pub fn is_disabled(&self) -> bool {
        self.spec.as_ref().is_ok_and(|spec| spec.disabled)
    }

    /// Error of an entry that cannot be used: it cannot be parsed, or names no server.
    #[must_use]
    pub fn problem(&self) -> Option<ConfigError> {
        let problem = match &self.spec {
            Err(problem) => problem.clone(),
            Ok(spec) if spec.command.is_none() && spec.url.is_none() => self.no_target(),
            Ok(_) => return None,
        };
        Some(self.error(&problem))
    }

    /// Warnings for a usable entry: unsupported keys that resemble supported ones.
    #[must_use]
    pub fn warnings(&self) -> Vec<ConfigError> {
        self.misspelt.iter().map(|problem| self.error(problem)).collect()
    }

    /// True if the file is one of the user's own settings, or was [trusted](Entry::trust).
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// Allows the file to start programs and read environment variables: the user agreed, or wrote
    /// it.
    ///
    /// ```
    /// use wharf::client::config::Config;
    ///
    /// let text = r#"{"mcpServers": {"files": {"command": "files-server"}}}"#;
    /// let config = Config::parse(text, "/tmp/project/.mcp.json")?;
    /// let entry = config.entry("files").unwrap().clone();
    /// assert!(entry.resolve().is_err());
    /// assert!(entry.trust().resolve().is_ok());
    /// # Ok::<(), wharf::client::config::ConfigError>(())
    /// ```
    #[must_use]
    pub fn trust(mut self) -> Self {
        self.trusted = true;
        self
    }

    /// SHA-256 of the file's text, in hex. Trust is valid until it changes.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Canonical folder of the file: the value of `${workspaceFolder}`. Through a link, the same
    /// file may mean other programs.
    #[must_use]
    pub fn workspace(&self) -> PathBuf {
        locations::workspace(&self.source)
    }

    /// Environment variables that the entry reads.
    #[must_use]
    pub fn variables(&self) -> Vec<String> {
        let Ok(spec) = &self.spec else { return Vec::new() };
        let values = spec.env.values().filter_map(Value::as_str);
        let texts = [&spec.command, &spec.cwd, &spec.url, &spec.env_file].into_iter().flatten();
        let texts = texts.chain(&spec.args).chain(spec.headers.values());
        let mut names: Vec<String> =
            texts.map(String::as_str).chain(values).flat_map(expand::names).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// File with more variables for the program, as written in the entry.
    #[must_use]
    pub fn env_file(&self) -> Option<&str> {
        self.spec.as_ref().ok()?.env_file.as_deref()
    }

    fn no_target(&self) -> String {
        let neither = "it has neither `command` nor `url`";
        [&[neither.to_owned()], &self.misspelt[..]].concat().join("; ")
    }

    fn error(&self, problem: &str) -> ConfigError {
        ConfigError::new(&self.source, format!("entry {:?}: {problem}", self.name))
    }

    /// True if another entry resolves to the same server.
    #[must_use]
    pub fn is_same_server(&self, other: &Entry) -> bool {
        self.spec == other.spec
    }

    /// Resolves the server, with variables replaced, and the headers of each request.
    ///
    /// # Errors
    /// If the entry is disabled or not [trusted](Entry::trust), a variable is not set, `envFile`
    /// cannot be read, or the entry has neither `command` nor `url`.
    pub fn resolve(&self) -> Result<ResolvedTarget, ConfigError> {
        if let Some(problem) = self.problem() {
            return Err(problem);
        }
        if self.is_disabled() {
            let problem = "it is disabled: remove `\"disabled\": true` to use it";
            return Err(self.error(problem));
        }
        if !self.trusted {
            return Err(self.error(
                "the file is not one of the user's own settings, and programs of a project start \
                 only after `Entry::trust`",
            ));
        }
        self.reveal()
    }

    /// As [`resolve`](Entry::resolve), but for display only, so also for an entry that is disabled
    /// or not trusted.
    ///
    /// # Errors
    /// If a variable is not set, `envFile` cannot be read, or the entry has neither `command` nor
    /// `url`.
    pub fn reveal(&self) -> Result<ResolvedTarget, ConfigError> {
        let variables = Variables::of(&self.source);
        let expand = |text: &String| variables.expand(text).map_err(|problem| self.error(&problem));
        let mut resolved = self.resolve_with(&expand)?;
        if let (Target::Command(command), Some(file)) = (&mut resolved.0, self.env_file()) {
            let file = variables.workspace().join(expand(&file.to_owned())?);
            let more = env_file::read(&file).map_err(|problem| self.error(&problem))?;
            // Variables of the entry override those of the file, including `null`.
            let is_set =
                |name: &String| self.spec.as_ref().is_ok_and(|it| it.env.contains_key(name));
            command.env.extend(more.into_iter().filter(|(name, _)| !is_set(name)));
        }
        Ok(resolved)
    }

    /// As [`resolve`](Entry::resolve), with unexpanded variables: their values may be secret.
    ///
    /// # Errors
    /// If the entry has neither `command` nor `url`.
    pub fn as_written(&self) -> Result<ResolvedTarget, ConfigError> {
        self.resolve_with(&|text| Ok(text.clone()))
    }

    /// As [`as_written`](Entry::as_written), without possible credentials: values of headers and of
    /// the environment, and values that look like one in the URL and the arguments.
    ///
    /// # Errors
    /// If the entry has neither `command` nor `url`.
    pub fn masked(&self) -> Result<ResolvedTarget, ConfigError> {
        let (target, mut headers) = self.as_written()?;
        for (_, value) in &mut headers {
            mask::MASK.clone_into(value);
        }
        let target = match target {
            Target::Url(url) => Target::Url(mask::masked_url(&url)),
            Target::Command(mut command) => {
                command.args = mask::args(&command.args);
                for (_, value) in &mut command.env {
                    mask::MASK.clone_into(value);
                }
                Target::Command(command)
            }
            other => other,
        };
        Ok((target, headers))
    }

    fn resolve_with(&self, expand: ExpandFn<'_>) -> Result<ResolvedTarget, ConfigError> {
        let spec = self.spec.as_ref().map_err(|problem| self.error(problem))?;
        let headers = spec.headers.iter();
        let headers: Vec<(String, String)> = headers
            .map(|(name, value)| Ok((name.clone(), expand(value)?)))
            .collect::<Result<_, _>>()?;
        match (&spec.command, &spec.url) {
            (Some(command), _) => Ok((spec.command(command, expand)?.into(), headers)),
            (None, Some(url)) => Ok((expand(url)?.into(), headers)),
            (None, None) => Err(self.error(&self.no_target())),
        }
    }

    /// Command line or URL as written, without headers, environment and possible credentials.
    #[must_use]
    pub fn summary(&self) -> String {
        self.spec.as_ref().map_or_else(|_| String::new(), EntrySpec::summary)
    }
}

/// Function that replaces the variables in a string.
type ExpandFn<'a> = &'a dyn Fn(&String) -> Result<String, ConfigError>;

impl EntrySpec {
    fn command(&self, program: &String, expand: ExpandFn<'_>) -> Result<ChildCommand, ConfigError> {
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
                let args = mask::args(&self.args);
                let words = std::iter::once(command).chain(&args);
                words.map(String::as_str).collect::<Vec<_>>().join(" ")
            }
            (None, Some(url)) => mask::masked_url(url),
            (None, None) => String::new(),
        }
    }
}

/// Omits headers and environment, which may hold secrets.
impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("name", &self.name)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// Expected type of a value. The value itself may be a secret.
fn expected_type(error: &serde_json::Error) -> String {
    let problem = error.to_string();
    match problem.rsplit_once(", expected ") {
        Some((_, expected)) => format!("expected {expected}"),
        None => problem,
    }
}
