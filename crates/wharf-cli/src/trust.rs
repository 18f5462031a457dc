//! Trust in configuration files of projects. A file is used after consent, until it changes.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use wharf::{
    auth::client::FileTokenStore,
    client::{
        Target,
        config::{Config, Entry, masked_url, masked_variable},
    },
};

use crate::error::CliError;
use crate::{
    context::Context,
    terminal::{clean_line, is_interactive},
};

/// Maximum number of trusted files stored, the latest first.
const MAX_TRUSTED_FILES: usize = 1000;

/// Returns the entry if its file is the user's own, was trusted before, or is now.
pub(crate) async fn agreed(entry: Entry, context: &Context) -> Result<Entry, CliError> {
    // The error for an entry with a problem repeats its warnings.
    for warning in entry.warnings().iter().filter(|_| entry.problem().is_none()) {
        context.note(&warning.to_string());
    }
    // Disabled or invalid entries fail without a prompt.
    if entry.is_trusted() || entry.is_disabled() || entry.problem().is_some() {
        return Ok(entry);
    }
    if context.shared.trust || TrustedFiles::read().has(&entry) {
        return Ok(entry.trust());
    }
    if !is_interactive() {
        return Err(refused(&entry));
    }
    let question = format!("{}\nUse it, until it changes?", description(&entry)?);
    if !context.questions.agree(question).await? {
        let file = entry.source.display();
        return Err(CliError::untrusted(format!("{file} was not trusted, so nothing was started")));
    }
    if let Err(error) = TrustedFiles::read().and(&entry).write() {
        context.note(&format!("cannot store the trusted file: {error}"));
    }
    Ok(entry.trust())
}

/// Returns the entry if its file may be used without a prompt.
pub(crate) fn known(entry: Entry) -> Result<Entry, CliError> {
    let usable = !entry.is_disabled() && entry.problem().is_none();
    match usable && !entry.is_trusted() {
        true if TrustedFiles::read().has(&entry) => Ok(entry.trust()),
        true => Err(refused(&entry).hint(format!(
            "Run `wharf inspect {}` at a terminal to be asked once, or give the URL itself.",
            entry.name
        ))),
        false => Ok(entry),
    }
}

fn refused(entry: &Entry) -> CliError {
    let message = format!(
        "{} is a file of a project, and was not trusted: it could start any program and send any \
         variable anywhere (this entry: {})",
        entry.source.display(),
        entry.summary()
    );
    CliError::untrusted(message).hint(
        "Look into it. Then run this at a terminal to be asked once, or give --trust.".to_owned(),
    )
}

/// Commands and URLs of every server of the file, with their variables. Commands are not masked:
/// masking could hide their effect. Values of `env` are masked only if they look like credentials.
fn description(entry: &Entry) -> Result<String, CliError> {
    let file = entry.source.display();
    let config = Config::read(&entry.source).map_err(|error| CliError::usage(error.to_string()))?;
    let mut lines =
        vec![format!("{} is a file of a project. Its servers:", clean_line(&file.to_string()))];
    for entry in config.entries.iter().filter(|it| it.problem().is_none()) {
        lines.push(format!("  {}", clean_line(&entry.name)));
        lines.extend(facts(entry).into_iter().map(|fact| format!("    {}", clean_line(&fact))));
    }
    let is_same = |other: &Entry| other.digest() == entry.digest();
    match !config.entries.is_empty() && config.entries.iter().all(is_same) {
        true => Ok(lines.join("\n")),
        false => Err(CliError::usage(format!("{file} is being changed: try again"))),
    }
}

fn facts(entry: &Entry) -> Vec<String> {
    let Ok((target, headers)) = entry.as_written() else { return Vec::new() };
    let mut facts = Vec::new();
    let mut named = |what: &str, names: Vec<String>| {
        if !names.is_empty() {
            facts.push(format!("{what} {}", names.join(", ")));
        }
    };
    match target {
        Target::Command(command) => {
            let words = std::iter::once(&command.program).chain(&command.args);
            let words: Vec<String> = words.map(|word| quoted(word)).collect();
            named("starts", vec![words.join(" ")]);
            let dir = command.dir.map(|dir| dir.to_string_lossy().into_owned());
            named("in", dir.into_iter().collect());
            let shown = |(name, value): (String, String)| {
                format!("{name}={}", quoted(&masked_variable(&name, &value)))
            };
            named("sets", command.env.into_iter().map(shown).collect());
            named("reads the file", entry.env_file().map(str::to_owned).into_iter().collect());
        }
        other => named("connects to", vec![masked_url(&other.to_string())]),
    }
    named("sends the headers", headers.into_iter().map(|(name, _)| name).collect());
    named("reads the variables", entry.variables());
    facts
}

/// Quotes a word for a shell, so that one word does not pass for two.
fn quoted(word: &str) -> String {
    let plain = |c: char| !c.is_whitespace() && !"'\"\\".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// The files that were trusted.
#[derive(Debug, Default, Deserialize, Serialize)]
struct TrustedFiles {
    files: Vec<TrustedFile>,
}

/// A file as it was when it was trusted. Its place counts too: it may name files beside it. So does the folder that
/// it was found for, because another project may have a link to it.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct TrustedFile {
    file: PathBuf,
    #[serde(default)]
    folder: PathBuf,
    sha256: String,
}

impl TrustedFile {
    fn of(entry: &Entry) -> Self {
        let source = &entry.source;
        let file = source.canonicalize().unwrap_or_else(|_| source.clone());
        TrustedFile { file, folder: entry.workspace(), sha256: entry.digest().to_owned() }
    }
}

impl TrustedFiles {
    /// Reads the trusted files; empty if the file cannot be read or others could have written it.
    fn read() -> Self {
        let read = || {
            let text = wharf::server::read_private(place()?).ok()?;
            serde_json::from_str(&text).ok()
        };
        read().unwrap_or_default()
    }

    fn has(&self, entry: &Entry) -> bool {
        self.files.contains(&TrustedFile::of(entry))
    }

    fn and(mut self, entry: &Entry) -> Self {
        self.files.insert(0, TrustedFile::of(entry));
        self.files.truncate(MAX_TRUSTED_FILES);
        self
    }

    /// Replaces the file atomically; only its owner can read and write it.
    fn write(&self) -> io::Result<()> {
        let place = place().ok_or_else(|| io::Error::other("there is no home directory"))?;
        let folder = place.parent().unwrap_or(Path::new("."));
        let mut options = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut options, 0o700);
        options.recursive(true).create(folder)?;
        let beside = place.with_extension(format!("{}.tmp", std::process::id()));
        let _ = fs::remove_file(&beside);
        let mut options = fs::File::options();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.write(true).create_new(true).open(&beside)?;
        let written = file.write_all(&serde_json::to_vec(self)?);
        written.and_then(|()| fs::rename(&beside, place)).inspect_err(|_| {
            let _ = fs::remove_file(&beside);
        })
    }
}

/// Path of the file, beside the logins.
fn place() -> Option<PathBuf> {
    Some(FileTokenStore::usual("wharf")?.with_file_name("trusted.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_words_are_quoted() {
        for (word, shown) in
            [("a", "a"), ("a b", "'a b'"), ("", "''"), ("it's", "'it'\\''s'"), ("${A}", "${A}")]
        {
            assert_eq!(quoted(word), shown);
        }
    }

    #[test]
    fn the_trust_prompt_lists_commands_urls_and_variables() {
        let text = r#"{"mcpServers": {"a": {"command": "sh", "args": ["-c", "x y"], "cwd": "/b",
            "env": {"C": "${D}", "H": "x y", "KEY": "hunter2"}, "envFile": ".env"}, "e": {"url": "http://h/?k=${F}",
            "headers": {"G": "h"}}}}"#;
        let config = Config::parse(text, "mcp.json").unwrap();
        let all = [
            "starts sh -c 'x y'",
            "in /b",
            "sets C=${D}, H='x y', KEY=***",
            "reads the file .env",
            "reads the variables D",
        ];
        assert_eq!(facts(config.entry("a").unwrap()), all);
        let all = ["connects to http://h/?k=${F}", "sends the headers G", "reads the variables F"];
        assert_eq!(facts(config.entry("e").unwrap()), all);
    }
}
