//! `manifest.json` of a bundle (manifest version 0.4): made from options and the package, and checked.

use serde_json::{Map, Value, json};

use crate::{
    bundle::{
        Pack,
        archive::{BundleFile, MANIFEST, name_problem},
        args::CONFIG_TYPES,
        platform::BinaryFile,
    },
    cargo_manifest::CargoPackage,
    error::CliError,
};

/// Version of the manifest's format.
const VERSION: &str = "0.4";
/// Directory of the installed bundle, in commands and arguments.
const DIRECTORY: &str = "${__dirname}/";
/// Members that a manifest may have.
const MEMBERS: [&str; 28] = [
    "$schema",
    "_meta",
    "author",
    "compatibility",
    "description",
    "display_name",
    "documentation",
    "dxt_version",
    "homepage",
    "icon",
    "icons",
    "keywords",
    "license",
    "localization",
    "long_description",
    "manifest_version",
    "name",
    "privacy_policies",
    "prompts",
    "prompts_generated",
    "repository",
    "screenshots",
    "server",
    "support",
    "tools",
    "tools_generated",
    "user_config",
    "version",
];
/// Members that must be URLs.
const URLS: [&str; 3] = ["homepage", "documentation", "support"];

/// Sources of a manifest.
pub(super) struct ManifestInput<'a> {
    options: &'a Pack,
    package: CargoPackage,
    binaries: &'a [BinaryFile],
    /// Tools and prompts, if the program was asked.
    pub(super) listing: Map<String, Value>,
}

impl<'a> ManifestInput<'a> {
    pub(super) fn new(
        options: &'a Pack,
        package: Option<CargoPackage>,
        binaries: &'a [BinaryFile],
    ) -> Result<Self, CliError> {
        if let Some((name, _)) = options.add.iter().find(|it| name_problem(&it.0).is_some()) {
            return Err(CliError::usage(format!("--add {name}: the name leads out of the bundle")));
        }
        let package = package.unwrap_or_default();
        Ok(ManifestInput { options, package, binaries, listing: Map::new() })
    }

    /// Makes the manifest.
    pub(super) fn manifest(&self) -> Map<String, Value> {
        let (options, package) = (self.options, &self.package);
        let own_name = Some(package.name.clone()).filter(|it| !it.is_empty());
        let author = options.author.clone().or_else(|| package.authors.first().cloned());
        let repository = options.repository.as_ref().or(package.repository.as_ref());
        let members: [(&str, Option<Value>); 16] = [
            ("manifest_version", Some(VERSION.into())),
            ("name", options.name.clone().or(own_name).map(Into::into)),
            ("display_name", options.display_name.clone().map(Into::into)),
            (
                "version",
                options.version.as_ref().or(package.version.as_ref()).map(|it| it.as_str().into()),
            ),
            (
                "description",
                options
                    .description
                    .as_ref()
                    .or(package.description.as_ref())
                    .map(|it| it.as_str().into()),
            ),
            ("author", author.as_deref().map(author_of)),
            ("repository", repository.map(|url| json!({"type": "git", "url": url}))),
            ("homepage", package.homepage.clone().map(Into::into)),
            ("documentation", package.documentation.clone().map(Into::into)),
            ("icon", options.icon.as_ref().map(|_| "icon.png".into())),
            ("server", Some(self.server())),
            ("tools", self.listing.get("tools").cloned()),
            ("prompts", self.listing.get("prompts").cloned()),
            (
                "keywords",
                Some(package.keywords.clone()).filter(|it| !it.is_empty()).map(Into::into),
            ),
            (
                "license",
                options.license.as_ref().or(package.license.as_ref()).map(|it| it.as_str().into()),
            ),
            ("compatibility", Some(json!({"platforms": self.platforms()}))),
        ];
        let members = members.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        let mut manifest: Map<String, Value> = members.collect();
        if self.listing.contains_key("prompts_generated") {
            manifest.insert("prompts_generated".into(), true.into());
        }
        if !options.user_config.is_empty() {
            let config: Map<String, Value> = options.user_config.iter().cloned().collect();
            manifest.insert("user_config".into(), config.into());
        }
        manifest
    }

    fn server(&self) -> Value {
        let entry = self.binaries.first().map(|it| it.name.as_str()).unwrap_or_default();
        let variables: Map<String, Value> = self
            .options
            .variables
            .iter()
            .map(|(name, it)| (name.clone(), it.clone().into()))
            .collect();
        let mut config = json!({
            "command": format!("{DIRECTORY}{entry}"), "args": self.options.arg, "env": variables,
        });
        let others = self.binaries.iter().skip(1);
        let others: Map<String, Value> = others
            .flat_map(|it| it.platforms.iter().map(move |platform| (it, *platform)))
            .map(|(it, platform)| {
                (platform.to_owned(), json!({"command": format!("{DIRECTORY}{}", it.name)}))
            })
            .collect();
        if !others.is_empty() {
            config["platform_overrides"] = others.into();
        }
        json!({"type": "binary", "entry_point": entry, "mcp_config": config})
    }

    /// Systems of all binaries, in alphabetical order.
    fn platforms(&self) -> Vec<&'static str> {
        let mut all: Vec<_> = self.binaries.iter().flat_map(|it| it.platforms).copied().collect();
        all.sort_unstable();
        all
    }
}

/// Author of a manifest: `Name` or `Name <mail>`.
fn author_of(text: &str) -> Value {
    match text.split_once('<').map(|(name, mail)| (name.trim(), mail.trim_end_matches('>').trim()))
    {
        Some((name, mail)) if mail.contains('@') => json!({"name": name, "email": mail}),
        _ => json!({"name": text.trim()}),
    }
}

/// Returns the violations of the format, and what the files of the bundle do not have.
pub(super) fn problems(manifest: &Map<String, Value>, files: &[BundleFile]) -> Vec<String> {
    let mut problems = Vec::new();
    let version = manifest.get("manifest_version").or(manifest.get("dxt_version"));
    let is_known = version
        .and_then(Value::as_str)
        .is_some_and(|it| ["0.1", "0.2", "0.3", VERSION].contains(&it));
    if !is_known {
        problems.push(format!("manifest_version: write {VERSION:?}"));
    }
    for key in ["name", "version", "description"] {
        if !is_text(manifest.get(key)) {
            problems.push(format!("{key} is missing"));
        }
    }
    if !is_text(manifest.get("author").and_then(|it| it.get("name"))) {
        problems.push("author is missing: --author sets it".to_owned());
    }
    let unknown = manifest.keys().filter(|key| !MEMBERS.contains(&key.as_str()));
    problems.extend(unknown.map(|key| format!("{key}: the format has no such member")));
    let urls = URLS.iter().filter_map(|key| Some((*key, manifest.get(*key)?)));
    let repository = manifest.get("repository").map(|it| ("repository.url", &it["url"]));
    for (key, value) in urls.chain(repository) {
        if value.as_str().is_none_or(|it| url::Url::parse(it).is_err()) {
            problems.push(format!("{key} {value} is not a URL"));
        }
    }
    for (list, text) in [("tools", None), ("prompts", Some("text"))] {
        let entries = manifest.get(list).and_then(Value::as_array).into_iter().flatten();
        let needs = |entry: &Value| {
            is_text(entry.get("name")) && text.is_none_or(|key| entry[key].is_string())
        };
        if !entries.into_iter().all(needs) {
            problems.push(format!("{list}: an entry lacks a required member"));
        }
    }
    problems.extend(config_problems(manifest));
    problems.extend(server_problems(manifest, files));
    if let Some(icon) = manifest.get("icon").and_then(Value::as_str)
        && !icon.starts_with("http")
    {
        match files.iter().find(|file| file.name == icon) {
            None => problems.push(format!("icon: the bundle has no file {icon:?}")),
            Some(file) if !file.content.starts_with(b"\x89PNG\r\n\x1a\n") => {
                problems.push(format!("icon: {icon:?} is not a PNG file"));
            }
            Some(_) => {}
        }
    }
    problems
}

fn is_text(value: Option<&Value>) -> bool {
    value.and_then(Value::as_str).is_some_and(|text| !text.trim().is_empty())
}

/// Checks the settings of the user, and that each that is used exists.
fn config_problems(manifest: &Map<String, Value>) -> Vec<String> {
    let config = manifest.get("user_config").and_then(Value::as_object);
    let mut problems = Vec::new();
    for (key, setting) in config.into_iter().flatten() {
        let kind = setting["type"].as_str().unwrap_or_default();
        if !CONFIG_TYPES.contains(&kind) {
            problems.push(format!(
                "user_config.{key}.type {kind:?}: write one of {}",
                CONFIG_TYPES.join(", ")
            ));
        }
        for member in ["title", "description"] {
            if !is_text(setting.get(member)) {
                problems.push(format!("user_config.{key}.{member} is missing"));
            }
        }
    }
    let command = manifest.get("server").map(|it| it["mcp_config"].to_string()).unwrap_or_default();
    for used in command.split("${user_config.").skip(1).filter_map(|rest| rest.split_once('}')) {
        if !config.is_some_and(|config| config.contains_key(used.0)) {
            problems.push(format!(
                "${{user_config.{}}} is used, but user_config has no {:?}",
                used.0, used.0
            ));
        }
    }
    problems
}

/// Checks the server: its type, its program and the programs of other systems, which the bundle must have.
fn server_problems(manifest: &Map<String, Value>, files: &[BundleFile]) -> Vec<String> {
    let Some(server) = manifest.get("server") else { return vec!["server is missing".to_owned()] };
    let mut problems = Vec::new();
    let kind = server["type"].as_str().unwrap_or_default();
    if !["binary", "node", "python", "uv"].contains(&kind) {
        problems.push(format!("server.type {kind:?}: write binary, node, python or uv"));
    }
    let config = &server["mcp_config"];
    if !is_text(config.get("command")) {
        problems.push("server.mcp_config.command is missing".to_owned());
    }
    let overrides = config["platform_overrides"].as_object();
    for platform in overrides.into_iter().flatten().map(|it| it.0) {
        if !["darwin", "linux", "win32"].contains(&platform.as_str()) {
            problems.push(format!("platform_overrides.{platform}: write darwin, linux or win32"));
        }
    }
    let commands = overrides.into_iter().flatten().map(|(_, it)| &it["command"]);
    let commands = [&config["command"]].into_iter().chain(commands).filter_map(Value::as_str);
    let mut programs: Vec<&str> = commands.filter_map(|it| it.strip_prefix(DIRECTORY)).collect();
    match server["entry_point"].as_str() {
        Some(entry) => programs.push(entry),
        None => problems.push("server.entry_point is missing".to_owned()),
    }
    programs.sort_unstable();
    programs.dedup();
    for program in programs {
        match files.iter().find(|file| file.name == program) {
            None => {
                problems.push(format!("the bundle has no file {program:?}, which server names"))
            }
            Some(file) if kind == "binary" && !file.is_executable && !program.ends_with(".exe") => {
                problems.push(format!(
                    "{program:?} is not executable: its mode must have the bits 0755"
                ))
            }
            Some(_) => {}
        }
    }
    if files.iter().filter(|file| file.name == MANIFEST).count() > 1 {
        problems.push(format!("{MANIFEST} is there twice"));
    }
    problems
}
