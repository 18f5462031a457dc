//! Argument that names the server on the command line: a URL, a configured server, a file or a command.

use std::path::Path;

use wharf::client::{
    ChildCommand, Target,
    config::{self, Config, ConfigError, Entry},
};

use crate::error::CliError;
use crate::suggest;

/// Supported URL schemes.
const SCHEMES: [&str; 6] = ["http://", "https://", "ws://", "wss://", "tcp://", "unix:"];

/// Interpreters of scripts that are not executable.
const INTERPRETERS: [(&str, &str); 6] = [
    ("py", "python3"),
    ("js", "node"),
    ("mjs", "node"),
    ("cjs", "node"),
    ("rb", "ruby"),
    ("sh", "sh"),
];

const TARGET_HINT: &str = "Give a URL, the name of a configured server (`wharf config` lists them), a file to start, \
                   or `-- COMMAND...` at the end.";

/// Splits the words into the server and the arguments of the command.
pub(crate) fn split(
    mut words: Vec<String>,
    command: &[String],
) -> Result<(Target, Vec<String>), CliError> {
    if let Some((program, args)) = command.split_first() {
        return Ok((ChildCommand::new(program).args(args).into(), words));
    }
    if words.is_empty() {
        return Err(CliError::usage("No server is given").hint(TARGET_HINT.to_owned()));
    }
    let target = words.remove(0);
    Ok((find(&target)?, words))
}

/// Resolves the server that `word` names.
pub(crate) fn find(word: &str) -> Result<Target, CliError> {
    let lower = word.to_ascii_lowercase();
    if SCHEMES.iter().any(|scheme| lower.starts_with(scheme)) {
        return Ok(word.into());
    }
    if word.contains("://") {
        let hint = "An address begins with http://, https://, ws://, wss://, tcp:// or unix:.";
        return Err(CliError::usage(format!(
            "`{}` is not a server address",
            config::masked_url(word)
        ))
        .hint(hint.to_owned()));
    }
    if let Some((file, name)) = word.rsplit_once('#').filter(|(file, _)| is_json(file)) {
        return entry_of(file, Some(name)).map(Into::into);
    }
    if is_json(word) {
        return entry_of(word, None).map(Into::into);
    }
    if word.contains(['/', '\\']) || (interpreter(word).is_some() && Path::new(word).is_file()) {
        return program(word).map(Into::into);
    }
    entry(word).map(Into::into)
}

/// Configured server with this name, or `FILE#NAME`.
pub(crate) fn entry(word: &str) -> Result<Entry, CliError> {
    if let Some((file, name)) = word.rsplit_once('#').filter(|(file, _)| is_json(file)) {
        return entry_of(file, Some(name));
    }
    config::find(word).map_err(|error| unknown(word, &error))
}

/// Hint for an address without its scheme, such as `localhost:8000/mcp`. The path defaults to the usual `/mcp`.
fn missing_scheme(word: &str) -> Option<String> {
    let (authority, path) = word.split_once('/').unwrap_or((word, "mcp"));
    let (host, port) = authority.rsplit_once(':')?;
    let is_address = !host.is_empty() && port.parse::<u16>().is_ok();
    is_address.then(|| format!("For an address, write its scheme: http://{authority}/{path}"))
}

fn unknown(word: &str, error: &ConfigError) -> CliError {
    let alike = suggest::did_you_mean(word, error.known.iter().map(String::as_str));
    let file = Path::new(word).is_file();
    let file = file.then(|| format!("To start the file with that name, write ./{word}."));
    let hint = alike.or(file).or_else(|| missing_scheme(word));
    CliError::usage(error.to_string()).hint(hint.or_else(|| Some(TARGET_HINT.to_owned())))
}

fn is_json(file: &str) -> bool {
    let extension = Path::new(file).extension();
    extension.is_some_and(|it| it.eq_ignore_ascii_case("json") || it.eq_ignore_ascii_case("jsonc"))
}

/// Entry `name` of a file, or its only entry.
fn entry_of(file: &str, name: Option<&str>) -> Result<Entry, CliError> {
    let config = Config::read(file).map_err(|error| CliError::usage(error.to_string()))?;
    let names: Vec<&str> = config.entries.iter().map(|entry| entry.name.as_str()).collect();
    match (name, config.entries.as_slice()) {
        (Some(name), _) => config.entry(name).cloned().ok_or_else(|| {
            let there = format!("{file} has: {}", names.join(", "));
            let hint = suggest::did_you_mean(name, names.iter().copied()).unwrap_or(there);
            CliError::usage(format!("{file} has no server {name:?}")).hint(hint)
        }),
        (None, [only]) => Ok(only.clone()),
        (None, []) => Err(CliError::usage(format!("{file} names no server"))),
        (None, _) => Err(CliError::usage(format!("{file} names {} servers", names.len()))
            .hint(format!("Choose one: {file}#NAME, with one of {}.", names.join(", ")))),
    }
}

/// Command that starts a file, with an interpreter if it is not executable.
fn program(file: &str) -> Result<ChildCommand, CliError> {
    let path = Path::new(file);
    if !path.is_file() {
        let hint = missing_scheme(file).unwrap_or_else(|| TARGET_HINT.to_owned());
        return Err(CliError::usage(format!("There is no file {file}")).hint(hint));
    }
    // Without a directory, the program would be searched in `PATH`.
    let here = if file.contains(['/', '\\']) { file.to_owned() } else { format!("./{file}") };
    if is_executable(path) {
        return Ok(ChildCommand::new(here));
    }
    match interpreter(file) {
        Some(interpreter) => Ok(ChildCommand::new(interpreter).args([here])),
        None => Err(CliError::usage(format!("{file} cannot be started"))
            .hint(format!("Make it executable (chmod +x {file}), or write `-- COMMAND {file}`."))),
    }
}

fn interpreter(file: &str) -> Option<&'static str> {
    let extension = Path::new(file).extension()?.to_str()?;
    INTERPRETERS
        .iter()
        .find_map(|(known, interpreter)| (*known == extension).then_some(*interpreter))
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|it| it.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    let extension = path.extension().and_then(|it| it.to_str()).map(str::to_ascii_lowercase);
    matches!(extension.as_deref(), Some("exe" | "bat" | "cmd" | "com"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{env, fs, path::PathBuf};

    fn folder(name: &str) -> PathBuf {
        let dir = env::temp_dir().join(format!("wharf-target-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    fn error_of(word: &str) -> String {
        find(word).unwrap_err().json()
    }

    #[test]
    fn urls_are_used_unchanged() {
        for word in ["http://a/mcp", "HTTPS://a", "ws://a", "wss://a", "tcp://a:1", "unix:/a"] {
            assert!(matches!(find(word), Ok(Target::Url(url)) if url == word), "{word}");
        }
        assert!(error_of("ftp://a").contains("begins with http://"));
        assert!(error_of("localhost:8000/tools").contains("http://localhost:8000/tools"));
        assert!(error_of("127.0.0.1:8000").contains("http://127.0.0.1:8000/mcp"));
        assert!(!error_of("./a:b/c").contains("scheme") && !error_of("harbour").contains("scheme"));
    }

    #[test]
    fn files_of_entries_are_read() {
        let dir = folder("entries");
        let file = dir.join("mcp.json");
        let name = |entry: &str| format!("{}{entry}", file.display());
        fs::write(&file, r#"{"mcpServers": {"one": {"command": "a"}}}"#).unwrap();
        assert!(matches!(find(&name("")), Ok(Target::Entry(entry)) if entry.name == "one"));
        let two = r#"{"mcpServers": {"one": {"command": "a"}, "two": {"url": "http://b"}}}"#;
        fs::write(&file, two).unwrap();
        assert!(matches!(find(&name("#two")), Ok(Target::Entry(entry)) if entry.name == "two"));
        assert!(error_of(&name("")).contains("with one of one, two"));
        assert!(error_of(&name("#tow")).contains("Did you mean `two`?"));
        assert!(error_of(&name(".none.json")).contains(".none.json"));
        fs::remove_dir_all(dir).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn program_files_are_started() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = folder("files");
        let make = |name: &str, mode: u32| {
            let file = dir.join(name);
            fs::write(&file, "").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            file.to_string_lossy().into_owned()
        };
        let started = |file: &str| find(file).unwrap().to_string();
        let program = make("server", 0o755);
        assert_eq!(started(&program), program);
        let script = make("server.py", 0o644);
        assert_eq!(started(&script), format!("python3 {script}"));
        assert!(error_of(&make("notes.txt", 0o644)).contains("chmod +x"));
        assert!(error_of("./gone").contains("There is no file"));
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_missing_target_is_reported() {
        let fail = split(Vec::new(), &[]).unwrap_err();
        assert!(fail.json().contains("-- COMMAND"));
        let (target, rest) = split(vec!["add".into()], &["a".into(), "b".into()]).unwrap();
        assert_eq!((target.to_string(), rest), ("a b".into(), vec!["add".to_owned()]));
    }
}
