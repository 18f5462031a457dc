//! Rules of the registry for the transports of packages and remotes.

use std::collections::BTreeSet;

use serde_json::Value;
use url::Url;

use crate::registry::{
    inputs,
    report::{PublishReport, member, objects, required, text},
};

/// Transports over HTTP.
const HTTP: [&str; 2] = ["streamable-http", "sse"];

/// Checks a remote: a public https URL, whose variables are described.
pub(super) fn check(path: &str, remote: &Value, report: &mut PublishReport) {
    let at = member(path, "type");
    if let Some(kind) = required(remote, "type", path, report).filter(|it| !HTTP.contains(it)) {
        report.error(at, format!("{kind:?} is not allowed"), "write streamable-http or sse");
    }
    let variables = remote.get("variables").and_then(Value::as_object);
    let known: Vec<&str> = variables.into_iter().flatten().map(|it| it.0.as_str()).collect();
    if let Some(url) = required(remote, "url", path, report) {
        let at = member(path, "url");
        let parsed = check_url(&at, url, &known, report);
        if let Some(parsed) = parsed {
            let host = parsed.host_str().unwrap_or_default();
            let is_local =
                host == "localhost" || host.ends_with(".localhost") || host.starts_with("127.");
            if parsed.scheme() != "https" || is_local || host == "[::1]" {
                let fix = "write the https URL at which everybody reaches the server";
                report.error(at, format!("{url:?} is not a public https URL"), fix);
            }
        }
    }
    inputs::check_headers(path, remote, report);
    for (name, input) in variables.into_iter().flatten() {
        inputs::check_input(&member(path, &format!("variables.{name}")), input, report);
    }
}

/// Reports two remotes with the same URL.
pub(super) fn check_unique(remotes: &[(String, &Value)], report: &mut PublishReport) {
    let mut seen = BTreeSet::new();
    for (path, remote) in remotes {
        if let Some(url) = remote["url"].as_str().filter(|url| !seen.insert(*url)) {
            let fix = "remove one of them: the registry knows each URL once";
            report.error(member(path, "url"), format!("{url:?} is there twice"), fix);
        }
    }
}

/// Checks the transport of a package. `known` are the variables that its URL may have.
pub(super) fn check_local(
    path: &str,
    transport: &Value,
    known: &[&str],
    report: &mut PublishReport,
) {
    let at = member(path, "url");
    match required(transport, "type", path, report) {
        Some("stdio") => {
            let url = text(transport, "url", path, report);
            if url.is_some_and(|url| !url.is_empty()) {
                report.error(at, "stdio has no URL", "remove it");
            }
        }
        Some(kind) if HTTP.contains(&kind) => {
            if let Some(url) = required(transport, "url", path, report) {
                check_url(&at, url, known, report);
            }
            inputs::check_headers(path, transport, report);
        }
        Some(kind) => {
            let fix = "write stdio, streamable-http or sse";
            report.error(member(path, "type"), format!("{kind:?} is not allowed"), fix);
        }
        None => {}
    }
}

/// Checks a URL with variables, and returns it with values for them.
fn check_url(path: &str, url: &str, known: &[&str], report: &mut PublishReport) -> Option<Url> {
    let mut filled = String::new();
    let mut rest = url;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        if !known.contains(&name) {
            let fix = format!(
                "describe it: among `variables` of a remote, or as an argument or environment variable {name:?} of a package"
            );
            report.error(path, format!("the variable {{{name}}} of {url:?} is unknown"), fix);
        }
        filled.push_str(before);
        // A number fits everywhere: in a host, as a port, in a path.
        filled.push_str("8080");
        rest = after;
    }
    filled.push_str(rest);
    let parsed = Url::parse(&filled).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    if parsed.is_none() || url.contains(char::is_whitespace) || !url.starts_with("http") {
        report.error(path, format!("{url:?} is not an http or https URL"), "write https://…");
    }
    parsed
}

/// Headers of a transport.
pub(super) fn headers<'a>(
    path: &str,
    transport: &'a Value,
    report: &mut PublishReport,
) -> Vec<(String, &'a Value)> {
    objects(transport, "headers", path, report)
}
