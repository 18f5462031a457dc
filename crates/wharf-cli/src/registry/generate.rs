//! `wharf gen server-json`: a `server.json` from the package in `Cargo.toml`.

use std::{fs, path::Path};

use serde_json::{Map, Value, json};
use url::Url;

use crate::{
    bundle::sha256_of,
    cargo_manifest::CargoPackage,
    error::CliError,
    registry::{SCHEMA, args::GenServerJson, readme, readme::NameToken, server_json::github_owner},
};

/// Makes the file, and notes about what else the registry needs.
pub(super) fn server_json(options: &GenServerJson) -> Result<(Value, Vec<String>), CliError> {
    let found = CargoPackage::find(options.manifest_path.as_deref(), Path::new("."))?;
    let package = found.map(|it| it.1);
    let readme = package.as_ref().and_then(|it| it.readme.as_ref());
    let name = name(options, package.as_ref())?;
    let has_crate = package.as_ref().filter(|it| it.is_published && !options.no_cargo);
    let mut notes = Vec::new();
    if has_crate.is_some()
        && readme.and_then(|it| readme::read(it, &name).ok()) != Some(NameToken::Found)
    {
        notes.push(format!(
            "Add the line `mcp-name: {name}` to the README of the package, as visible text, before you publish the crate."
        ));
    }
    let package = package.clone().unwrap_or_default();
    let website = package.homepage.clone().filter(|it| it.starts_with("https://"));
    let version = options.version.as_ref().or(package.version.as_ref());
    let description = options.description.as_ref().or(package.description.as_ref());
    let mut packages = Vec::new();
    if has_crate.is_some() {
        packages.push(json!({"registryType": "cargo", "identifier": package.name,
            "version": package.version, "transport": {"type": "stdio"}}));
    }
    packages.extend(bundle(options)?);
    let remotes = options.remote.iter().map(|url| json!({"type": "streamable-http", "url": url}));
    let remotes: Vec<Value> = remotes.collect();
    let members: [(&str, Option<Value>); 9] = [
        ("$schema", Some(SCHEMA.into())),
        ("name", Some(name.into())),
        ("title", options.title.clone().map(Into::into)),
        ("description", description.map(|it| it.as_str().into())),
        ("version", version.map(|it| it.as_str().into())),
        ("repository", package.repository.as_deref().and_then(repository)),
        ("websiteUrl", website.map(Into::into)),
        ("packages", Some(packages).filter(|it| !it.is_empty()).map(Into::into)),
        ("remotes", Some(remotes).filter(|it| !it.is_empty()).map(Into::into)),
    ];
    let members = members.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Ok((Value::Object(members.collect::<Map<String, Value>>()), notes))
}

/// Name in the registry: of the option, of the README, or after the owner of the repository.
fn name(options: &GenServerJson, package: Option<&CargoPackage>) -> Result<String, CliError> {
    let in_readme = || {
        let text = fs::read_to_string(package?.readme.as_ref()?).ok()?;
        readme::first_name(&text)
    };
    let of_owner = || {
        let package = package?;
        let owner = github_owner(package.repository.as_deref()?)?;
        Some(format!("io.github.{owner}/{}", package.name))
    };
    options.name.clone().or_else(in_readme).or_else(of_owner).ok_or_else(|| {
        CliError::usage("The server has no name").hint(
            "Give one: --name com.example/weather for a domain that you own, or io.github.OWNER/NAME.".to_owned(),
        )
    })
}

/// Repository, if the registry supports its host.
fn repository(url: &str) -> Option<Value> {
    let parsed = Url::parse(url).ok()?;
    let source = match parsed.host_str()? {
        "github.com" => "github",
        "gitlab.com" => "gitlab",
        _ => return None,
    };
    let path: Vec<&str> = parsed.path().trim_matches('/').split('/').collect();
    let [owner, name, ..] = path.as_slice() else { return None };
    let name = name.strip_suffix(".git").unwrap_or(name);
    Some(json!({"url": format!("https://{source}.com/{owner}/{name}"), "source": source}))
}

/// Package of a bundle, with the hash of the option or of the file that it names.
fn bundle(options: &GenServerJson) -> Result<Option<Value>, CliError> {
    let Some(url) = &options.mcpb else { return Ok(None) };
    let Some(given) = &options.sha256 else {
        let hint = "`wharf pack` prints it; --sha256 FILE computes it.";
        return Err(CliError::usage("--mcpb needs --sha256").hint(hint.to_owned()));
    };
    let hash = match fs::read(given) {
        Ok(content) => sha256_of(&content),
        Err(_) => given.to_ascii_lowercase(),
    };
    Ok(Some(json!({"registryType": "mcpb", "identifier": url, "fileSha256": hash,
        "transport": {"type": "stdio"}})))
}
