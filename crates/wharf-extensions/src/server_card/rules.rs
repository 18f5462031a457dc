//! Rules of the specification for the values of a card, and the parts of URLs that they need.

use crate::server_card::{CardRemote, ServerCard};

/// Longest name.
const MAX_NAME: usize = 200;
/// Longest version.
const MAX_VERSION: usize = 255;
/// Longest description and title, in characters.
const MAX_TEXT: usize = 100;
/// Prefix and suffix of the URL of the schema, with the version of the schema between them.
const SCHEMA: (&str, &str) =
    ("https://static.modelcontextprotocol.io/schemas/v", "/server-card.schema.json");

/// Returns the violations of the specification.
pub(crate) fn card_problems(card: &ServerCard) -> Vec<String> {
    let mut problems = Vec::new();
    problems.extend(schema_problem(&card.schema));
    problems.extend(name_problem(&card.name));
    problems.extend(version_problem(&card.version));
    let description = "set one of at most 100 characters with `Server::description` or \
                       `ServerCard::description`";
    problems.extend(text_problem("description", &card.description, description));
    if let Some(title) = &card.title {
        problems.extend(text_problem("title", title, "give it 1 to 100 characters"));
    }
    if let Some(url) = card.website_url.as_deref().filter(|url| host(url).is_none()) {
        problems.push(format!("websiteUrl {url:?} is not an http or https URL"));
    }
    if let Some(repository) = &card.repository {
        if host(&repository.url).is_none() {
            problems
                .push(format!("repository.url {:?} is not an http or https URL", repository.url));
        }
        if repository.source.is_empty() {
            let fix = "name the hosting service, such as github";
            problems.push(format!("repository.source is missing: {fix}"));
        }
        if let Some(path) = repository.subfolder.as_deref().filter(|path| !is_clean_path(path)) {
            problems.push(format!("repository.subfolder {path:?} is not a clean relative path"));
        }
    }
    problems.extend(card.remotes.iter().flat_map(remote_problems));
    for list in ["tools", "resources", "prompts", "capabilities", "packages"] {
        if card.extra.contains_key(list) {
            problems
                .push(format!("{list} does not belong in a card: clients list it at the server"));
        }
    }
    problems
}

fn schema_problem(schema: &str) -> Option<String> {
    let version = schema.strip_prefix(SCHEMA.0).and_then(|rest| rest.strip_suffix(SCHEMA.1));
    let is_number = |it: &str| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit());
    (!version.is_some_and(is_number))
        .then(|| format!("$schema {schema:?} is not {}N{} with a number N", SCHEMA.0, SCHEMA.1))
}

/// Returns the violation of the rules for the name of a server, which cards and the registry share.
///
/// ```
/// # mod wharf { pub mod server_card { pub use wharf_extensions::server_card::*; } }
/// use wharf::server_card::name_problem;
///
/// assert_eq!(name_problem("com.example/weather"), None);
/// assert!(name_problem("weather").is_some());
/// ```
#[must_use]
pub fn name_problem(name: &str) -> Option<String> {
    let is_namespace = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
    let is_part = |byte: u8| is_namespace(byte) || byte == b'_';
    let parts = name.split_once('/').filter(|(namespace, part)| {
        !namespace.is_empty()
            && namespace.bytes().all(is_namespace)
            && !part.is_empty()
            && part.bytes().all(is_part)
    });
    let rule = "write a domain in reverse and a name, such as com.example/weather, with letters, \
                digits, `.` and `-` (and `_` after the slash)";
    match parts {
        None => Some(format!("name {name:?}: {rule}")),
        Some(_) if name.len() > MAX_NAME => {
            Some(format!("name {name:?} has {} characters; at most 200 are allowed", name.len()))
        }
        Some(_) => None,
    }
}

/// Returns the violation of the rules for the version of a server: it is exact.
///
/// ```
/// # mod wharf { pub mod server_card { pub use wharf_extensions::server_card::*; } }
/// use wharf::server_card::version_problem;
///
/// assert_eq!(version_problem("1.0.2"), None);
/// assert!(version_problem("^1.0").is_some());
/// ```
#[must_use]
pub fn version_problem(version: &str) -> Option<String> {
    if version.is_empty() {
        return Some("version is missing".to_owned());
    }
    if version.chars().count() > MAX_VERSION {
        return Some(format!("version {version:?} has more than 255 characters"));
    }
    is_version_range(version)
        .then(|| format!("version {version:?} is a range: write the exact version, such as 1.2.3"))
}

/// Returns true for `^1.2`, `>=1`, `1.x`, `1.*`, `1 - 2` and `1 || 2`.
fn is_version_range(version: &str) -> bool {
    let version = version.trim();
    let core = version.split(['-', '+']).next().unwrap_or_default();
    version.starts_with(['^', '~', '<', '>', '='])
        || version.contains("||")
        || version.contains(" - ")
        || core.split('.').any(|part| matches!(part, "x" | "X" | "*"))
}

fn text_problem(field: &str, text: &str, fix: &str) -> Option<String> {
    match text.chars().count() {
        _ if text.trim().is_empty() => Some(format!("{field} is missing: {fix}")),
        length if length > MAX_TEXT => {
            Some(format!("{field} {text:?} has {length} characters; at most 100 are allowed"))
        }
        _ => None,
    }
}

fn remote_problems(remote: &CardRemote) -> Vec<String> {
    let url = &remote.url;
    let mut problems = Vec::new();
    if !["streamable-http", "sse"].contains(&&*remote.transport) {
        let transport = &remote.transport;
        problems.push(format!("remote {url:?}: type {transport:?} is not streamable-http or sse"));
    }
    let starts_with_variable = url.strip_prefix('{').is_some_and(|rest| rest.contains('}'));
    if url.contains(char::is_whitespace) || !(starts_with_variable || host(url).is_some()) {
        problems.push(format!(
            "remote {url:?}: write an http or https URL, or one that begins with a {{variable}}"
        ));
    }
    if authority(url).is_some_and(|it| it.contains('@')) {
        problems.push(format!(
            "remote {}: the URL has a user or password, and a card is public",
            url.replace(userinfo(url), "***@")
        ));
    }
    for name in url.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|it| it.0) {
        if !remote.variables.contains_key(name) {
            let fix = format!("describe it with `CardRemote::variable({name:?}, …)`");
            problems.push(format!("remote {url:?}: the variable {{{name}}} is unknown; {fix}"));
        }
    }
    let secrets = remote.headers.iter().filter(|it| it.is_secret && it.value.is_some());
    problems.extend(secrets.map(|it| {
        let name = it.name.as_deref().unwrap_or_default();
        format!("remote {url:?}: the header {name} has the value of a secret, and a card is public")
    }));
    problems
}

fn is_clean_path(path: &str) -> bool {
    path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// Authority of an http or https URL: the text between `//` and the path.
fn authority(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once("://")?;
    let is_http = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    let authority = rest.split(['/', '?', '#']).next()?;
    (is_http && !authority.is_empty()).then_some(authority)
}

/// User and password of a URL, with the `@` after them.
fn userinfo(url: &str) -> &str {
    let authority = authority(url).unwrap_or_default();
    &authority[..authority.rfind('@').map_or(0, |at| at + 1)]
}

/// Returns the host of an http or https URL, with its port.
pub(crate) fn host(url: &str) -> Option<&str> {
    let authority = authority(url)?;
    Some(authority.rsplit_once('@').map_or(authority, |it| it.1)).filter(|host| !host.is_empty())
}
