//! Options of `wharf pack`.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value};

use crate::common_options::CommonOptions;

/// Form of `--user-config`.
const USER_CONFIG: &str = "\
A --user-config is KEY,type=TYPE,title=TITLE and further settings, separated by commas: description=TEXT,
required, sensitive, multiple, default=VALUE, min=N, max=N. TYPE is string, number, boolean, directory or
file. The program gets it by --env NAME='${user_config.KEY}' or --arg '${user_config.KEY}'.";

/// Types of a user configuration.
pub(super) const CONFIG_TYPES: [&str; 5] = ["string", "number", "boolean", "directory", "file"];

#[derive(Debug, Args)]
#[command(after_help = USER_CONFIG, override_usage = "\
wharf pack [OPTIONS] --binary FILE [-o BUNDLE.mcpb]
       wharf pack --check BUNDLE.mcpb")]
pub(crate) struct Pack {
    /// Program to pack; repeat it for the same program of another system (Linux, macOS, Windows)
    #[arg(long, value_name = "FILE")]
    pub(crate) binary: Vec<PathBuf>,
    /// Bundle to write [default: NAME.mcpb]
    #[arg(long, short, value_name = "BUNDLE")]
    pub(crate) output: Option<PathBuf>,
    /// Check a bundle instead: its files, its manifest, its executable bits
    #[arg(long, value_name = "BUNDLE", conflicts_with_all = ["binary", "output"])]
    pub(crate) check: Option<PathBuf>,
    /// Package to take name, version, description, author, license and repository from [default: Cargo.toml]
    #[arg(long, value_name = "FILE")]
    pub(crate) manifest_path: Option<PathBuf>,
    /// JSON file whose members replace those of the manifest
    #[arg(long, value_name = "FILE")]
    pub(crate) manifest: Option<PathBuf>,
    /// Name of the bundle
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Display name
    #[arg(long)]
    pub(crate) display_name: Option<String>,
    /// Version
    #[arg(long = "bundle-version", value_name = "VERSION")]
    pub(crate) version: Option<String>,
    /// Description
    #[arg(long)]
    pub(crate) description: Option<String>,
    /// Author, 'Name' or 'Name <mail@example.com>'
    #[arg(long)]
    pub(crate) author: Option<String>,
    /// License
    #[arg(long)]
    pub(crate) license: Option<String>,
    /// URL of the repository
    #[arg(long, value_name = "URL")]
    pub(crate) repository: Option<String>,
    /// Icon, a PNG file
    #[arg(long, value_name = "FILE")]
    pub(crate) icon: Option<PathBuf>,
    /// Argument of the program; may be repeated
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub(crate) arg: Vec<String>,
    /// Environment variable of the program, NAME=VALUE; may be repeated
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = named)]
    pub(crate) variables: Vec<(String, String)>,
    /// Setting that the user enters when the bundle is installed; may be repeated
    #[arg(long, value_name = "CONFIG", value_parser = user_config)]
    pub(crate) user_config: Vec<(String, Value)>,
    /// Add a file under a name, NAME=FILE; may be repeated
    #[arg(long, value_name = "NAME=FILE", value_parser = named)]
    pub(crate) add: Vec<(String, String)>,
    /// Start the program, and list its tools and prompts in the manifest
    #[arg(long)]
    pub(crate) tools: bool,
    /// Print JSON, at a terminal too
    #[arg(long)]
    pub(crate) json: bool,
}

impl Pack {
    /// Options of the connection to the program, for its list of tools.
    pub(crate) fn common(&self) -> CommonOptions {
        let env = self.variables.iter().filter(|it| !it.1.contains("${")).cloned().collect();
        CommonOptions { json: self.json, env, ..CommonOptions::default() }
    }
}

fn named(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
    match name.is_empty() {
        true => Err("the name before `=` is missing".to_owned()),
        false => Ok((name.to_owned(), value.to_owned())),
    }
}

/// Parses `KEY,type=TYPE,title=TITLE,…`.
fn user_config(text: &str) -> Result<(String, Value), String> {
    let mut parts = text.split(',');
    let key = parts.next().unwrap_or_default();
    if key.is_empty() || key.contains('=') {
        return Err("begin with the key: KEY,type=string,title=TITLE".to_owned());
    }
    let mut settings = Map::new();
    for part in parts {
        let (setting, value) = part.split_once('=').unwrap_or((part, "true"));
        let value = match setting {
            "type" | "title" | "description" => Value::from(value),
            "required" | "sensitive" | "multiple" => value
                .parse::<bool>()
                .map(Value::from)
                .map_err(|_| format!("{part}: write true or false"))?,
            "min" | "max" => number(value).ok_or_else(|| format!("{part}: write a number"))?,
            "default" => Value::from(value),
            _ => return Err(format!("there is no setting `{setting}`")),
        };
        settings.insert(setting.to_owned(), value);
    }
    settings.entry("type").or_insert_with(|| "string".into());
    settings.entry("title").or_insert_with(|| key.into());
    let title = settings["title"].clone();
    settings.entry("description").or_insert(title);
    let kind = settings["type"].as_str().unwrap_or_default().to_owned();
    if !CONFIG_TYPES.contains(&kind.as_str()) {
        return Err(format!("type={kind}: the types are {}", CONFIG_TYPES.join(", ")));
    }
    if let Some(default) = settings.get_mut("default") {
        let typed = match (kind.as_str(), default.as_str()) {
            ("number", Some(text)) => number(text),
            ("boolean", Some(text)) => text.parse::<bool>().ok().map(Value::from),
            _ => Some(default.clone()),
        };
        *default = typed.ok_or_else(|| format!("default={default} is not of the type {kind}"))?;
    }
    Ok((key.to_owned(), settings.into()))
}

fn number(text: &str) -> Option<Value> {
    serde_json::from_str::<Value>(text).ok().filter(Value::is_number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_user_config_is_typed() {
        let (key, value) =
            user_config("port,type=number,title=Port,default=80,min=1,required").unwrap();
        let expected = json!({"type": "number", "title": "Port", "description": "Port",
            "default": 80, "min": 1, "required": true});
        assert_eq!((key.as_str(), value), ("port", expected));
        assert_eq!(user_config("key").unwrap().1["type"], "string");
        for wrong in ["", "type=string", "a,type=text", "a,colour=red", "a,type=number,default=x"] {
            assert!(user_config(wrong).is_err(), "{wrong}");
        }
    }
}
