//! `wharf config`: the servers that other programs have configured.

use serde_json::{Map, Value, json};
use wharf::client::{
    Target,
    config::{Config, ConfigLocation, Entry, config_locations},
};

use crate::{
    cli,
    cli::ConfigCommand,
    error::CliError,
    show::ResultOutput,
    target_argument,
    terminal::{StderrOutput, clean_line, table},
};

/// Runs `wharf config`.
pub(crate) fn configured(config: cli::Config, screen: &StderrOutput) -> Result<(), CliError> {
    let out = ResultOutput::new(config.json);
    match config.what.unwrap_or(ConfigCommand::List) {
        ConfigCommand::List => list(out, screen),
        ConfigCommand::Show { name, reveal } => show(&target_argument::entry(&name)?, reveal, out),
        ConfigCommand::Paths => paths(out),
    }
}

/// Configured server with its source.
struct ConfiguredServer {
    place: ConfigLocation,
    entry: Entry,
}

impl ConfiguredServer {
    fn json(&self) -> Value {
        let ConfiguredServer { place, entry } = self;
        json!({"name": entry.name, "server": entry.summary(), "program": place.program,
            "file": place.path.to_string_lossy(), "disabled": entry.is_disabled()})
    }

    fn row(&self) -> Vec<String> {
        let ConfiguredServer { place, entry } = self;
        let off = if entry.is_disabled() { " (disabled)" } else { "" };
        let name = format!("{}{off}", clean_line(&entry.name));
        let summary = clean_line(&entry.summary()).into_owned();
        let file = clean_line(&place.path.to_string_lossy()).into_owned();
        vec![name, summary, place.program.to_owned(), file]
    }
}

/// Files that also hold other settings and need not name servers.
const MIXED_SETTINGS_FILES: [&str; 3] =
    ["settings.json", ".claude.json", "claude_desktop_config.json"];

/// All configured servers, and the errors of files that could not be read.
fn all() -> (Vec<ConfiguredServer>, Vec<String>) {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for place in config_locations().into_iter().filter(|place| place.path.exists()) {
        match Config::read(&place.path) {
            Ok(config) => {
                problems.extend(config.problems.iter().map(ToString::to_string));
                for entry in config.entries {
                    match entry.problem() {
                        Some(problem) => problems.push(problem.to_string()),
                        None => {
                            problems.extend(entry.warnings().iter().map(ToString::to_string));
                            found.push(ConfiguredServer { place: place.clone(), entry });
                        }
                    }
                }
            }
            Err(error)
                if error.names_no_servers()
                    && MIXED_SETTINGS_FILES.iter().any(|name| place.path.ends_with(name)) => {}
            Err(error) => problems.push(error.to_string()),
        }
    }
    (found, problems)
}

fn list(out: ResultOutput, screen: &StderrOutput) -> Result<(), CliError> {
    let (found, problems) = all();
    if out.is_json() {
        let servers: Vec<Value> = found.iter().map(ConfiguredServer::json).collect();
        let mut all = json!({"servers": servers});
        if !problems.is_empty() {
            all["problems"] = problems.into();
        }
        return out.json(&all);
    }
    for problem in &problems {
        screen.line(&screen.paint().yellow(&clean_line(problem)));
    }
    if found.is_empty() {
        screen.line("No server is configured. `wharf config paths` shows where they could be.");
        return Ok(());
    }
    let rows: Vec<Vec<String>> = found.iter().map(ConfiguredServer::row).collect();
    out.lines(&table(&["NAME", "SERVER", "PROGRAM", "FILE"], &rows, out.columns(), out.paint()))
}

fn paths(out: ResultOutput) -> Result<(), CliError> {
    let locations = config_locations();
    if out.is_json() {
        let each = locations.iter().map(|place| {
            json!({"program": place.program, "file": place.path.to_string_lossy(),
                "exists": place.path.exists()})
        });
        return out.json(&json!({"files": each.collect::<Vec<_>>()}));
    }
    let row = |place: &ConfigLocation| {
        let there = if place.path.exists() { "yes" } else { "no" };
        vec![place.program.to_owned(), there.to_owned(), place.path.to_string_lossy().into_owned()]
    };
    let rows: Vec<Vec<String>> = locations.iter().map(row).collect();
    out.lines(&table(&["PROGRAM", "THERE", "FILE"], &rows, out.columns(), out.paint()))
}

fn show(entry: &Entry, reveal: bool, out: ResultOutput) -> Result<(), CliError> {
    // Variables may occur anywhere, and their values are as secret as the rest.
    let read = if reveal { entry.reveal() } else { entry.masked() };
    let (target, headers) = read.map_err(|error| CliError::usage(error.to_string()))?;
    let mut all = Map::new();
    all.insert("name".into(), entry.name.as_str().into());
    all.insert("file".into(), entry.source.to_string_lossy().into());
    all.insert("disabled".into(), entry.is_disabled().into());
    match target {
        Target::Url(url) => _ = all.insert("url".into(), url.into()),
        Target::Command(command) => {
            let text = |it: &std::ffi::OsStr| Value::from(it.to_string_lossy());
            all.insert("command".into(), text(command.program.as_ref()));
            let args: Vec<Value> = command.args.iter().map(|it| text(it.as_ref())).collect();
            all.insert("args".into(), args.into());
            let env = command.env.iter().map(|(name, it)| (name.clone(), it.as_str().into()));
            all.insert("env".into(), Value::Object(env.collect()));
            all.extend(entry.env_file().map(|file| ("envFile".into(), file.into())));
            all.extend(command.dir.iter().map(|dir| ("cwd".into(), dir.to_string_lossy().into())));
        }
        other => _ = all.insert("server".into(), other.to_string().into()),
    }
    if !headers.is_empty() {
        let headers = headers.iter().map(|(name, it)| (name.clone(), it.as_str().into()));
        all.insert("headers".into(), Value::Object(headers.collect()));
    }
    out.json(&all)
}
