//! Rules of the registry for packages, and their comparison with the local files.

use serde_json::Value;
use url::Url;

use crate::{
    cargo_manifest::CargoPackage,
    registry::{
        inputs,
        readme::{self, NameToken},
        remotes,
        report::{PublishReport, member, objects, required, text},
        server_json::{exact_version, https},
    },
};

/// Whether a package has a member.
#[derive(Clone, Copy)]
enum FieldRule {
    Required,
    Optional,
    Forbidden,
}
use FieldRule::{Forbidden, Optional, Required};

/// Rules for the packages of one registry.
struct PackageRules {
    registry: &'static str,
    /// The only `registryBaseUrl`; empty for none.
    base_url: &'static str,
    version: FieldRule,
    sha256: FieldRule,
    runtime_hint: FieldRule,
}

const fn rules(
    registry: &'static str,
    base_url: &'static str,
    [version, sha256, runtime_hint]: [FieldRule; 3],
) -> PackageRules {
    PackageRules { registry, base_url, version, sha256, runtime_hint }
}

static REGISTRIES: [PackageRules; 7] = [
    rules("npm", "https://registry.npmjs.org", [Required, Forbidden, Optional]),
    rules("pypi", "https://pypi.org", [Required, Forbidden, Optional]),
    rules("nuget", "https://api.nuget.org/v3/index.json", [Required, Forbidden, Optional]),
    rules("cargo", "https://crates.io", [Required, Forbidden, Forbidden]),
    rules("go", "https://proxy.golang.org", [Required, Forbidden, Optional]),
    rules("oci", "", [Forbidden, Forbidden, Optional]),
    rules("mcpb", "", [Optional, Required, Optional]),
];

/// Local files that packages of a `server.json` are compared with.
pub(super) struct PackageFiles {
    pub(super) cargo: Option<CargoPackage>,
    /// File names of bundles, with their SHA-256.
    pub(super) bundles: Vec<(String, String)>,
}

/// Checks one package.
pub(super) fn check(path: &str, package: &Value, report: &mut PublishReport) {
    let registry = required(package, "registryType", path, report);
    let identifier = required(package, "identifier", path, report);
    if let Some(identifier) = identifier.filter(|it| it.contains(char::is_whitespace)) {
        let message = format!("{identifier:?} has spaces");
        report.error(member(path, "identifier"), message, "write the name of the package only");
    }
    let version = text(package, "version", path, report);
    if let Some(version) = version {
        exact_version(&member(path, "version"), version, report);
    }
    if let Some(registry) = registry {
        match REGISTRIES.iter().find(|it| it.registry == registry) {
            Some(rules) => check_rules(path, package, rules, report),
            None => {
                let known: Vec<&str> = REGISTRIES.iter().map(|it| it.registry).collect();
                let fix = format!("write one of {}", known.join(", "));
                report.error(
                    member(path, "registryType"),
                    format!("{registry:?} is not supported"),
                    fix,
                );
            }
        }
        if registry == "mcpb"
            && let Some(identifier) = identifier
        {
            bundle_url(&member(path, "identifier"), identifier, report);
        }
    }
    inputs::check_package(path, package, report);
    match package.get("transport") {
        Some(transport) => {
            let known = inputs::variables_of(package);
            remotes::check_local(&member(path, "transport"), transport, &known, report);
        }
        None => {
            let fix = "write {\"type\": \"stdio\"} for a program that is started";
            report.error(member(path, "transport"), "it is missing", fix);
        }
    }
}

fn check_rules(path: &str, package: &Value, rules: &PackageRules, report: &mut PublishReport) {
    let registry = rules.registry;
    let members = [
        ("version", rules.version, "the tag in `identifier` is the version"),
        ("fileSha256", rules.sha256, "it is for mcpb bundles"),
        ("runtimeHint", rules.runtime_hint, "no runtime starts it"),
    ];
    for (key, rule, reason) in members {
        match (package.get(key), rule) {
            (None, Required) => {
                let message = format!("a package of {registry} needs it");
                report.error(member(path, key), message, "add it");
            }
            (Some(_), Forbidden) => {
                let message = format!("a package of {registry} must not have it");
                report.error(member(path, key), message, format!("remove it: {reason}"));
            }
            _ => {}
        }
    }
    if let Some(hash) = text(package, "fileSha256", path, report) {
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if hash.len() != 64 || !hash.bytes().all(is_hex) {
            let fix = "write 64 lower case hexadecimal digits, as `wharf pack` prints them";
            report.error(member(path, "fileSha256"), format!("{hash:?} is not a SHA-256"), fix);
        }
    }
    if let Some(url) =
        text(package, "registryBaseUrl", path, report).filter(|it| *it != rules.base_url)
    {
        let fix = match rules.base_url {
            "" => "remove it: `identifier` names the registry".to_owned(),
            base => format!("write {base:?}, or remove it"),
        };
        report.error(
            member(path, "registryBaseUrl"),
            format!("{url:?} is not that of {registry}"),
            fix,
        );
    }
}

/// Checks the URL of a bundle: a release on GitHub or GitLab, with `mcp` in it.
fn bundle_url(path: &str, url: &str, report: &mut PublishReport) {
    https(path, url, report);
    if !url.to_ascii_lowercase().contains("mcp") {
        report.error(path, format!("{url:?} does not contain `mcp`"), "name the file x.mcpb");
    }
    let parsed = Url::parse(url).ok();
    let host = parsed.as_ref().and_then(Url::host_str).unwrap_or_default();
    let is_release = url.contains("/releases/");
    if !matches!(host, "github.com" | "gitlab.com") || !is_release {
        let fix = "upload the bundle to a release on github.com or gitlab.com";
        report.error(path, format!("{url:?} is not a file of a release"), fix);
    }
}

/// Compares packages with the local files.
pub(super) fn check_files(document: &Value, files: &PackageFiles, report: &mut PublishReport) {
    let name = document["name"].as_str().unwrap_or_default();
    // Their types were checked before.
    for (path, package) in objects(document, "packages", "", &mut PublishReport::default()) {
        match package["registryType"].as_str() {
            Some("cargo") => check_cargo(&path, package, name, files.cargo.as_ref(), report),
            Some("mcpb") => check_bundle(&path, package, &files.bundles, report),
            Some("go") => check_module(&path, package, name, report),
            _ => {}
        }
    }
}

fn check_cargo(
    path: &str,
    package: &Value,
    name: &str,
    cargo: Option<&CargoPackage>,
    report: &mut PublishReport,
) {
    let Some(cargo) = cargo else {
        let fix = "name it with --manifest-path";
        report.warning(path, "there is no Cargo.toml to compare with", fix);
        return;
    };
    let identifier = package["identifier"].as_str().unwrap_or_default();
    if identifier != cargo.name {
        let message = format!("{identifier:?} is not the package in Cargo.toml, {:?}", cargo.name);
        report.error(member(path, "identifier"), message, format!("write {:?}", cargo.name));
    }
    let version = package["version"].as_str().unwrap_or_default();
    if let Some(own) = cargo.version.as_deref().filter(|own| *own != version) {
        let message = format!("{version:?} is not the version in Cargo.toml, {own:?}");
        report.error(member(path, "version"), message, format!("write {own:?}"));
    }
    if !cargo.is_published {
        let fix = "remove `publish` from Cargo.toml, or the package from server.json";
        report.error(path, "Cargo.toml has publish = false", fix);
    }
    let line = format!("mcp-name: {name}");
    let fix =
        format!("write the line `{line}` as visible text, and publish a new version of the crate");
    let token = cargo.readme.as_ref().map(|file| readme::read(file, name));
    match token {
        None => report.error(path, "Cargo.toml has no README", fix),
        Some(Err(error)) => report.error(path, error, fix),
        Some(Ok(NameToken::Found)) => {}
        Some(Ok(NameToken::Missing)) => {
            report.error(path, format!("the README does not have `{line}`"), fix);
        }
        Some(Ok(NameToken::InComment)) => {
            let message =
                format!("`{line}` is in a comment, which crates.io removes from a README");
            report.error(path, message, fix);
        }
        Some(Ok(NameToken::Glued(next))) => {
            let message = format!("`{line}` is followed by {next:?} in the README");
            report.error(path, message, "put it on a line of its own");
        }
    }
}

/// Checks that a Go module is of the owner of the name.
fn check_module(path: &str, package: &Value, name: &str, report: &mut PublishReport) {
    let owner = name.split_once('/').and_then(|it| it.0.strip_prefix("io.github."));
    let module = package["identifier"].as_str().unwrap_or_default();
    let of = module.strip_prefix("github.com/").and_then(|it| it.split('/').next());
    let is_own = owner.zip(of).is_some_and(|(owner, of)| owner.eq_ignore_ascii_case(of));
    if !is_own {
        let fix = "the module of io.github.OWNER/NAME must begin with github.com/OWNER/";
        report.error(
            member(path, "identifier"),
            format!("{module:?} is not a module of the owner of {name:?}"),
            fix,
        );
    }
}

fn check_bundle(
    path: &str,
    package: &Value,
    bundles: &[(String, String)],
    report: &mut PublishReport,
) {
    let identifier = package["identifier"].as_str().unwrap_or_default();
    let own = identifier.rsplit('/').next().unwrap_or_default();
    let Some((file, hash)) = bundles.iter().find(|(name, _)| name == own) else {
        let fix = format!("give the bundle with --mcpb: wharf publish --check --mcpb {own}");
        report.warning(member(path, "fileSha256"), "it was not compared with the bundle", fix);
        return;
    };
    if package["fileSha256"].as_str() != Some(hash) {
        let message = format!("it is not the SHA-256 of {file}");
        report.error(member(path, "fileSha256"), message, format!("write {hash:?}"));
    }
}
