//! URIs and IRIs (RFC 3986 and RFC 3987).

use super::{
    ascii::AsciiSet,
    net::{is_ipv4, is_ipv6},
};

/// Unreserved characters and sub-delimiters: allowed in every part.
const PLAIN: AsciiSet = AsciiSet::ALPHANUMERIC.and("-._~").and("!$&'()*+,;=");
const USER: AsciiSet = PLAIN.and(":");
const PATH: AsciiSet = PLAIN.and(":@/");
const QUERY: AsciiSet = PLAIN.and(":@/?");

pub(super) fn is_uri(text: &str) -> bool {
    text.is_ascii() && is_absolute(text)
}

pub(super) fn is_iri(text: &str) -> bool {
    is_absolute(text)
}

pub(super) fn is_uri_reference(text: &str) -> bool {
    text.is_ascii() && is_iri_reference(text)
}

pub(super) fn is_iri_reference(text: &str) -> bool {
    // Text before the first colon is a scheme, unless a slash precedes the colon.
    let first = text.split(['/', '?', '#']).next().unwrap_or_default();
    if first.contains(':') { is_absolute(text) } else { is_hierarchy(text) }
}

fn is_absolute(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let is_char = |it: u8| it.is_ascii_alphanumeric() || b"+-.".contains(&it);
    scheme.starts_with(|it: char| it.is_ascii_alphabetic())
        && scheme.bytes().all(is_char)
        && is_hierarchy(rest)
}

/// Validates the part after the scheme.
fn is_hierarchy(text: &str) -> bool {
    let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
    let (before, query) = before.split_once('?').unwrap_or((before, ""));
    let is_path = match before.strip_prefix("//") {
        Some(rest) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            is_authority(authority) && is_made_of(path, PATH)
        }
        None => is_made_of(before, PATH),
    };
    is_path && is_made_of(query, QUERY) && is_made_of(fragment, QUERY)
}

fn is_authority(text: &str) -> bool {
    let (user, host_and_port) = text.rsplit_once('@').unwrap_or(("", text));
    let is_port = |port: &str| port.bytes().all(|it| it.is_ascii_digit());
    let is_rest = match host_and_port.strip_prefix('[') {
        Some(literal) => literal.split_once(']').is_some_and(|(address, port)| {
            is_address(address) && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
        }),
        None => {
            let (host, port) = host_and_port.split_once(':').unwrap_or((host_and_port, ""));
            is_made_of(host, PLAIN) && is_port(port)
        }
    };
    is_made_of(user, USER) && is_rest
}

/// Validates an IP literal in brackets: IPv6 or a future version.
fn is_address(text: &str) -> bool {
    let future = text.strip_prefix(['v', 'V']).and_then(|it| it.split_once('.'));
    match future {
        Some((version, rest)) => {
            !version.is_empty()
                && version.bytes().all(|it| it.is_ascii_hexdigit())
                && !rest.is_empty()
                && !rest.contains('%')
                && is_made_of(rest, USER)
        }
        None => is_ipv6(text) && !is_ipv4(text),
    }
}

/// True if the text has only characters of the set, escapes, and characters outside of ASCII.
fn is_made_of(text: &str, set: AsciiSet) -> bool {
    if text.bytes().all(|it| set.has(it)) {
        return true;
    }
    let mut chars = text.chars();
    while let Some(next) = chars.next() {
        let is_right = match next {
            '%' => {
                let mut hex = || chars.next().is_some_and(|it| it.is_ascii_hexdigit());
                hex() && hex()
            }
            it if it.is_ascii() => set.has(it as u8),
            it => !it.is_control() && !it.is_whitespace(),
        };
        if !is_right {
            return false;
        }
    }
    true
}
