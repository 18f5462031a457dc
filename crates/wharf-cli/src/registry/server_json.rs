//! Rules of the registry for the top level of a `server.json`.

use serde_json::Value;
use url::Url;
use wharf::server_card::{name_problem, version_problem};

use crate::registry::{
    SCHEMA, packages, remotes,
    report::{PublishReport, member, objects, required, text},
};

/// Member of `_meta` that the registry keeps.
const PUBLISHER_META: &str = "io.modelcontextprotocol.registry/publisher-provided";
/// Largest size of that member as JSON.
const MAX_META: usize = 4096;
/// Longest description and title, in characters.
const MAX_TEXT: usize = 100;
/// Longest URL of an icon.
const MAX_ICON: usize = 255;
/// Members of the file.
const MEMBERS: [&str; 12] = [
    "$schema",
    "_meta",
    "description",
    "icons",
    "name",
    "packages",
    "remotes",
    "repository",
    "status",
    "title",
    "version",
    "websiteUrl",
];
/// Media types of icons.
const ICON_TYPES: [&str; 5] =
    ["image/png", "image/jpeg", "image/jpg", "image/svg+xml", "image/webp"];

/// Checks the whole file.
pub(super) fn check(document: &Value, report: &mut PublishReport) {
    schema(document, report);
    name(document, report);
    if let Some(version) = required(document, "version", "", report) {
        exact_version("version", version, report);
        if !is_semver(version) {
            let fix = "write it as 1.2.3: other versions may be sorted wrongly";
            report.warning("version", format!("{version:?} is not a semantic version"), fix);
        }
    }
    let description = required(document, "description", "", report);
    let title = text(document, "title", "", report);
    for (key, value) in [("description", description), ("title", title)] {
        let Some(value) = value else { continue };
        let length = value.chars().count();
        if length > MAX_TEXT {
            let fix = "shorten it to 100";
            report.error(key, format!("it has {length} characters"), fix);
        }
        if value.trim().is_empty() {
            report.error(key, "it is blank", "write a text, or remove it");
        }
    }
    if let Some(url) = text(document, "websiteUrl", "", report) {
        https("websiteUrl", url, report);
    }
    repository(document, report);
    for (path, icon) in objects(document, "icons", "", report) {
        check_icon(&path, icon, report);
    }
    let packages = objects(document, "packages", "", report);
    let remotes = objects(document, "remotes", "", report);
    if packages.is_empty() && remotes.is_empty() {
        let fix = "add a package or a remote: clients could not use the server";
        report.warning("", "there is neither a package nor a remote", fix);
    }
    packages.iter().for_each(|(path, package)| packages::check(path, package, report));
    remotes.iter().for_each(|(path, remote)| remotes::check(path, remote, report));
    remotes::check_unique(&remotes, report);
    meta(document, report);
    let members = document.as_object().into_iter().flatten();
    for (key, _) in members.filter(|(key, _)| !MEMBERS.contains(&key.as_str())) {
        let fix = "remove it, or correct its name: the registry ignores it";
        report.warning(key.clone(), "the format has no such member", fix);
    }
}

fn schema(document: &Value, report: &mut PublishReport) {
    let fix = format!("write {SCHEMA:?}");
    match required(document, "$schema", "", report) {
        Some(url) if url == SCHEMA => {}
        Some(url) if url.starts_with("https://static.modelcontextprotocol.io/schemas/") => {
            let is_draft = url.contains("/draft/");
            let message = format!("{url:?} is not the current schema");
            match is_draft {
                true => report.error("$schema", message, fix),
                false => report.warning("$schema", message, fix),
            }
        }
        Some(url) => {
            report.error("$schema", format!("{url:?} is not a schema of the registry"), fix)
        }
        None => {}
    }
}

fn name(document: &Value, report: &mut PublishReport) {
    let Some(name) = required(document, "name", "", report) else { return };
    if let Some(problem) = name_problem(name) {
        let problem = problem.split_once(": ").map_or(&*problem, |it| it.1).to_owned();
        report.error("name", format!("{name:?} is not allowed"), problem);
        return;
    }
    let (namespace, own) = name.split_once('/').unwrap_or_default();
    for (part, what) in [(namespace, "the domain"), (own, "the name after the slash")] {
        let ends = [part.chars().next(), part.chars().next_back()];
        if part.len() < 2 || !ends.iter().flatten().all(char::is_ascii_alphanumeric) {
            let message = format!("{what} {part:?} is too short or ends with punctuation");
            report.error("name", message, "begin and end it with a letter or digit, two at least");
        }
    }
    let url = document["repository"]["url"].as_str().unwrap_or_default();
    let owner = namespace.strip_prefix("io.github.").zip(github_owner(url));
    if let Some((login, owner)) = owner.filter(|(login, owner)| login != owner) {
        let fix = match login.eq_ignore_ascii_case(owner) {
            true => format!("write io.github.{owner}: the registry compares upper and lower case"),
            false => format!(
                "check that you may publish for {login}: an organization needs a login as its member"
            ),
        };
        let message = format!("io.github.{login} is not the owner of the repository, {owner}");
        report.warning("name", message, fix);
    }
}

/// Owner of a repository on GitHub.
pub(super) fn github_owner(url: &str) -> Option<&str> {
    let path = url.split_once("://")?.1.strip_prefix("www.").unwrap_or(url.split_once("://")?.1);
    path.strip_prefix("github.com/")?.split('/').next().filter(|owner| !owner.is_empty())
}

/// Reports a version that is a range, `latest`, or too long.
pub(super) fn exact_version(path: &str, version: &str, report: &mut PublishReport) {
    if version == "latest" {
        report.error(path, "\"latest\" is not a version", "write the exact version, such as 1.2.3");
    } else if version_problem(version).is_some() {
        let fix = "write the exact version, such as 1.2.3, in at most 255 characters";
        report.error(path, format!("{version:?} is not an exact version"), fix);
    }
}

fn is_semver(version: &str) -> bool {
    let core = version.split(['-', '+']).next().unwrap_or_default();
    let numbers: Vec<&str> = core.split('.').collect();
    let is_number = |it: &&str| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit());
    numbers.len() == 3 && numbers.iter().all(is_number)
}

/// Reports a URL that is not absolute with https.
pub(super) fn https(path: &str, url: &str, report: &mut PublishReport) {
    if !Url::parse(url).is_ok_and(|url| url.scheme() == "https" && url.has_host()) {
        report.error(path, format!("{url:?} is not an https URL"), "write https://…");
    }
}

fn repository(document: &Value, report: &mut PublishReport) {
    let Some(repository) = document.get("repository") else { return };
    let url = required(repository, "url", "repository", report);
    let source = required(repository, "source", "repository", report);
    if let (Some(url), Some(source)) = (url, source) {
        let host = format!("{source}.com");
        let segments = Url::parse(url).ok().filter(|url| {
            let own = url.host_str().map(|it| it.strip_prefix("www.").unwrap_or(it));
            own == Some(&*host) && matches!(url.scheme(), "http" | "https")
        });
        let count =
            segments.as_ref().map_or(0, |url| url.path().trim_matches('/').split('/').count());
        match source {
            "github" if count == 2 => {}
            "gitlab" if count >= 2 => {}
            "github" | "gitlab" => {
                let fix = format!("write https://{host}/OWNER/REPOSITORY");
                report.error(
                    "repository.url",
                    format!("{url:?} is not a repository of {source}"),
                    fix,
                );
            }
            _ => {
                let fix = "write github or gitlab, or leave `repository` out";
                report.error("repository.source", format!("{source:?} is not supported"), fix);
            }
        }
    }
    if let Some(path) = text(repository, "subfolder", "repository", report) {
        let is_plain = |part: &str| {
            let is_allowed = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
            !matches!(part, "" | "." | "..") && part.chars().all(is_allowed)
        };
        if !path.split('/').all(is_plain) {
            let fix = "write it as path/of/the/server";
            report.error(
                "repository.subfolder",
                format!("{path:?} is not a clean relative path"),
                fix,
            );
        }
    }
}

fn check_icon(path: &str, icon: &Value, report: &mut PublishReport) {
    if let Some(src) = required(icon, "src", path, report) {
        https(&member(path, "src"), src, report);
        if src.len() > MAX_ICON {
            report.error(
                member(path, "src"),
                "it has more than 255 characters",
                "use a shorter URL",
            );
        }
    }
    one_of(icon, "mimeType", path, &ICON_TYPES, report);
    one_of(icon, "theme", path, &["light", "dark"], report);
    let sizes = icon.get("sizes").and_then(Value::as_array).into_iter().flatten();
    for size in sizes.filter(|size| !size.as_str().is_some_and(is_icon_size)) {
        let fix = "write it as 48x48, or any";
        report.error(member(path, "sizes"), format!("{size} is not a size"), fix);
    }
}

fn is_icon_size(size: &str) -> bool {
    let is_number = |it: &str| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit());
    size == "any"
        || size.split_once('x').is_some_and(|(one, other)| is_number(one) && is_number(other))
}

/// Reports a member whose value is none of `allowed`.
pub(super) fn one_of(
    object: &Value,
    key: &str,
    path: &str,
    allowed: &[&str],
    report: &mut PublishReport,
) {
    if let Some(value) = text(object, key, path, report).filter(|it| !allowed.contains(it)) {
        let fix = format!("write one of {}", allowed.join(", "));
        report.error(member(path, key), format!("{value:?} is not allowed"), fix);
    }
}

fn meta(document: &Value, report: &mut PublishReport) {
    let Some(meta) = document.get("_meta") else { return };
    let Some(meta) = meta.as_object() else {
        report.error("_meta", "it is not an object", "write it in braces");
        return;
    };
    for (key, value) in meta {
        let path = format!("_meta[{key:?}]");
        let size = value.to_string().len();
        match key == PUBLISHER_META {
            false => {
                let fix = format!("move it into {PUBLISHER_META:?}");
                report.warning(path, "the registry does not keep it", fix);
            }
            true if !value.is_object() => {
                report.error(path, "it is not an object", "write it in braces")
            }
            true if size > MAX_META => {
                report.error(path, format!("it has {size} bytes"), "shorten it to 4096");
            }
            true => {}
        }
    }
}
