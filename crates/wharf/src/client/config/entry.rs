//! One server of a configuration file.

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
use crate::Target;
use crate::client::config::locations;

/// One server of a configuration file.
#[derive(Clone)]
pub struct Entry {
    /// What the file calls it.
    pub name: String,
    /// The file.
    pub source: PathBuf,
    /// What the file says about it, or why that cannot be read.
    spec: Result<Spec, String>,
    /// Keys of it that look misspelt.
    misspelt: Vec<String>,
    /// The SHA-256 of the file's text, in hex.
    digest: Arc<str>,
    trusted: bool,
}

#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
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

/// A server, and the headers that go with each request to it.
type Located = (Target, Vec<(String, String)>);

impl Entry {
    pub(super) fn new(
        name: &str,
        value: &Value,
        source: &Path,
        digest: &str,
        trusted: bool,
    ) -> Self {
        let spec = Spec::deserialize(value)
            .map_err(|error| format!("it cannot be read: {}", wanted(&error)));
        let misspelt = spelling::of_entry(value);
        let digest = digest.into();
        Entry { name: name.to_owned(), source: source.into(), spec, misspelt, digest, trusted }
    }

    /// Whether the file says not to use it.
    #[must_use]
    pub fn is_disabled(&self) -> bool {
        self.spec.as_ref().is_ok_and(|spec| spec.disabled)
    }

    /// Why it can be of no use: what the file says about it cannot be read, or names no server.
    #[must_use]
    pub fn problem(&self) -> Option<ConfigError> {
        let problem = match &self.spec {
            Err(problem) => problem.clone(),
            Ok(spec) if spec.command.is_none() && spec.url.is_none() => self.nowhere(),
            Ok(_) => return None,
        };
        Some(self.error(&problem))
    }

    /// What looks like a mistake in an entry that can be used: keys that are read by no program, and
    /// nearly spelt like those that are.
    #[must_use]
    pub fn warnings(&self) -> Vec<ConfigError> {
        self.misspelt.iter().map(|problem| self.error(problem)).collect()
    }

    /// Whether its file is one of the user's own settings, or was [trusted](Entry::trust).
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// Says that its file may start programs and read variables of the environment: the user was
    /// asked, or wrote it.
    ///
    /// ```
    /// use wharf::config::Config;
    ///
    /// let text = r#"{"mcpServers": {"files": {"command": "files-server"}}}"#;
    /// let config = Config::parse(text, "/tmp/project/.mcp.json")?;
    /// let entry = config.entry("files").unwrap().clone();
    /// assert!(entry.resolve().is_err());
    /// assert!(entry.trust().resolve().is_ok());
    /// # Ok::<(), wharf::config::ConfigError>(())
    /// ```
    #[must_use]
    pub fn trust(mut self) -> Self {
        self.trusted = true;
        self
    }

    /// The SHA-256 of the file's text, in hex: what was trusted is trusted until it changes.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The folder that its file belongs to, without links: what `${workspaceFolder}` stands for. The same file may
    /// mean other programs where a link leads to it.
    #[must_use]
    pub fn workspace(&self) -> PathBuf {
        locations::workspace(&self.source)
    }

    /// The variables of the environment that it reads.
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

    /// The file that more variables for its program come from, as the entry has it.
    #[must_use]
    pub fn env_file(&self) -> Option<&str> {
        self.spec.as_ref().ok()?.env_file.as_deref()
    }

    fn nowhere(&self) -> String {
        let neither = "it says neither `command` nor `url`";
        [&[neither.to_owned()], &self.misspelt[..]].concat().join("; ")
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
    /// If the entry is disabled or not [trusted](Entry::trust), a variable is not set, `envFile`
    /// cannot be read, or the entry says neither `command` nor `url`.
    pub fn resolve(&self) -> Result<Located, ConfigError> {
        if let Some(problem) = self.problem() {
            return Err(problem);
        }
        if self.is_disabled() {
            let problem = "it is disabled: take `\"disabled\": true` away to use it";
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

    /// As [`resolve`](Entry::resolve), to be shown to the user, and not to be used: of an entry
    /// that is disabled or not trusted, too.
    ///
    /// # Errors
    /// If a variable is not set, `envFile` cannot be read, or the entry says neither `command` nor
    /// `url`.
    pub fn reveal(&self) -> Result<Located, ConfigError> {
        let variables = Variables::of(&self.source);
        let expand = |text: &String| variables.expand(text).map_err(|problem| self.error(&problem));
        let mut located = self.located(&expand)?;
        if let (Target::Command(command), Some(file)) = (&mut located.0, self.env_file()) {
            let file = variables.workspace().join(expand(&file.to_owned())?);
            let more = env_file::read(&file).map_err(|problem| self.error(&problem))?;
            // What the entry itself says goes before what the file says, `null` included.
            let said = |name: &String| self.spec.as_ref().is_ok_and(|it| it.env.contains_key(name));
            command.env.extend(more.into_iter().filter(|(name, _)| !said(name)));
        }
        Ok(located)
    }

    /// As [`resolve`](Entry::resolve), with variables as the file has them: their values may be
    /// secret.
    ///
    /// # Errors
    /// If the entry says neither `command` nor `url`.
    pub fn as_written(&self) -> Result<Located, ConfigError> {
        self.located(&|text| Ok(text.clone()))
    }

    /// As [`as_written`](Entry::as_written), without what may be a credential: values of headers
    /// and of the environment, and what looks like one in the URL and the arguments.
    ///
    /// # Errors
    /// If the entry says neither `command` nor `url`.
    pub fn masked(&self) -> Result<Located, ConfigError> {
        let (target, mut headers) = self.as_written()?;
        for (_, value) in &mut headers {
            mask::HIDDEN.clone_into(value);
        }
        let target = match target {
            Target::Url(url) => Target::Url(mask::masked_url(&url)),
            Target::Command(mut command) => {
                command.args = mask::args(&command.args);
                for (_, value) in &mut command.env {
                    mask::HIDDEN.clone_into(value);
                }
                Target::Command(command)
            }
            other => other,
        };
        Ok((target, headers))
    }

    fn located(&self, expand: Expand<'_>) -> Result<Located, ConfigError> {
        let spec = self.spec.as_ref().map_err(|problem| self.error(problem))?;
        let headers = spec.headers.iter();
        let headers: Vec<(String, String)> = headers
            .map(|(name, value)| Ok((name.clone(), expand(value)?)))
            .collect::<Result<_, _>>()?;
        match (&spec.command, &spec.url) {
            (Some(command), _) => Ok((spec.command(command, expand)?.into(), headers)),
            (None, Some(url)) => Ok((expand(url)?.into(), headers)),
            (None, None) => Err(self.error(&self.nowhere())),
        }
    }

    /// The command line or URL as the file has it, without headers, environment, and what looks
    /// like a credential.
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
                let args = mask::args(&self.args);
                let words = std::iter::once(command).chain(&args);
                words.map(String::as_str).collect::<Vec<_>>().join(" ")
            }
            (None, Some(url)) => mask::masked_url(url),
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

/// What a value should have been. What it is may be a secret.
fn wanted(error: &serde_json::Error) -> String {
    let problem = error.to_string();
    match problem.rsplit_once(", expected ") {
        Some((_, wanted)) => format!("expected {wanted}"),
        None => problem,
    }
}
