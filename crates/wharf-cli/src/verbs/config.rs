//! `wharf config`: the servers that other programs have configured.

use serde_json::{Map, Value, json};
use wharf::{
    Target,
    config::{Config, Entry, places},
};

use crate::{
    cli::{self, ConfigVerb},
    fail::Fail,
    show::Out,
    target,
    terminal::{Screen, clean_line, table},
};

/// What stands for a value that may be secret.
const HIDDEN: &str = "***";

/// Does what `wharf config` says.
pub(crate) fn configured(config: cli::Config, screen: &Screen) -> Result<(), Fail> {
    let out = Out::new(config.json);
    match config.what.unwrap_or(ConfigVerb::List) {
        ConfigVerb::List => list(out, screen),
        ConfigVerb::Show { name, reveal } => show(&target::entry(&name)?, reveal, out),
        ConfigVerb::Paths => paths(out),
    }
}

fn list(out: Out, screen: &Screen) -> Result<(), Fail> {
    let mut rows: Vec<[String; 4]> = Vec::new();
    let mut entries: Vec<Value> = Vec::new();
    for place in places() {
        if !place.path.exists() {
            continue;
        }
        let config = match Config::read(&place.path) {
            Ok(config) => config,
            // Settings of an editor need not name servers.
            Err(error) => {
                if screen.is_terminal() {
                    screen.line(&screen.paint().dim(&clean_line(&error.to_string())));
                }
                continue;
            }
        };
        for entry in config.entries {
            let file = place.path.to_string_lossy();
            entries.push(json!({"name": entry.name, "server": entry.summary(),
                "program": place.program, "file": file, "disabled": entry.is_disabled()}));
            let off = if entry.is_disabled() { " (disabled)" } else { "" };
            let name = format!("{}{off}", clean_line(&entry.name));
            let summary = clean_line(&entry.summary()).into_owned();
            rows.push([name, summary, place.program.to_owned(), file.into_owned()]);
        }
    }
    if out.is_json() {
        return out.json(&json!({"servers": entries}));
    }
    if rows.is_empty() && screen.is_terminal() {
        screen.line("No server is configured. `wharf config paths` shows where they could be.");
    }
    let rows: Vec<Vec<String>> = rows.into_iter().map(Vec::from).collect();
    if rows.is_empty() {
        return Ok(());
    }
    out.lines(&table(&["NAME", "SERVER", "PROGRAM", "FILE"], &rows, out.columns(), out.paint()))
}

fn paths(out: Out) -> Result<(), Fail> {
    let places = places();
    if out.is_json() {
        let each = places.iter().map(|place| {
            json!({"program": place.program, "file": place.path.to_string_lossy(),
                "exists": place.path.exists()})
        });
        return out.json(&json!({"files": each.collect::<Vec<_>>()}));
    }
    let row = |place: &wharf::config::Place| {
        let there = if place.path.exists() { "yes" } else { "no" };
        vec![place.program.to_owned(), there.to_owned(), place.path.to_string_lossy().into_owned()]
    };
    let rows: Vec<Vec<String>> = places.iter().map(row).collect();
    out.lines(&table(&["PROGRAM", "THERE", "FILE"], &rows, out.columns(), out.paint()))
}

fn show(entry: &Entry, reveal: bool, out: Out) -> Result<(), Fail> {
    let (target, headers) = entry.resolve().map_err(|error| Fail::usage(error.to_string()))?;
    let mut all = Map::new();
    all.insert("name".into(), entry.name.as_str().into());
    all.insert("file".into(), entry.source.to_string_lossy().into());
    all.insert("disabled".into(), entry.is_disabled().into());
    let value = |value: &str| Value::from(if reveal { value } else { HIDDEN });
    match target {
        Target::Url(url) => _ = all.insert("url".into(), url.into()),
        Target::Command(command) => {
            let text = |it: &std::ffi::OsStr| Value::from(it.to_string_lossy());
            all.insert("command".into(), text(command.program.as_ref()));
            let args: Vec<Value> = command.args.iter().map(|it| text(it.as_ref())).collect();
            all.insert("args".into(), args.into());
            let env = command.env.iter().map(|(name, it)| (name.clone(), value(it)));
            all.insert("env".into(), Value::Object(env.collect()));
            all.extend(command.dir.iter().map(|dir| ("cwd".into(), dir.to_string_lossy().into())));
        }
        other => _ = all.insert("server".into(), other.to_string().into()),
    }
    if !headers.is_empty() {
        let headers = headers.iter().map(|(name, it)| (name.clone(), value(it)));
        all.insert("headers".into(), Value::Object(headers.collect()));
    }
    out.json(&all)
}
