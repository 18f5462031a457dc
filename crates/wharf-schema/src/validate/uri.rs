//! Schema URIs: reference resolution of RFC 3986.

/// Components of a URI, without the fragment.
struct UriParts<'u> {
    scheme: Option<&'u str>,
    authority: Option<&'u str>,
    path: &'u str,
    query: Option<&'u str>,
}

fn parts(uri: &str) -> UriParts<'_> {
    let (before, query) = match uri.split_once('?') {
        Some((before, query)) => (before, Some(query)),
        None => (uri, None),
    };
    let (scheme, rest) = match before.split_once(':') {
        Some((scheme, rest)) if !scheme.contains('/') => (Some(scheme), rest),
        _ => (None, before),
    };
    let Some(after) = rest.strip_prefix("//") else {
        return UriParts { scheme, authority: None, path: rest, query };
    };
    let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
    UriParts { scheme, authority: Some(authority), path, query }
}

/// Splits a URI at its `#`.
pub(crate) fn split(uri: &str) -> (&str, &str) {
    uri.split_once('#').unwrap_or((uri, ""))
}

/// Resolves `reference`, which has no fragment, against `base`.
pub(crate) fn resolve(base: &str, reference: &str) -> String {
    let (from, to) = (parts(base), parts(reference));
    if to.scheme.is_some() {
        return join(&to, without_dots(to.path));
    }
    if to.authority.is_some() {
        return join(&UriParts { scheme: from.scheme, ..to }, without_dots(to.path));
    }
    if to.path.is_empty() {
        let query = to.query.or(from.query);
        return join(&UriParts { query, ..from }, from.path.to_owned());
    }
    let path = match (to.path.starts_with('/'), from.path.rfind('/')) {
        (true, _) => to.path.to_owned(),
        (false, Some(end)) => format!("{}{}", &from.path[..=end], to.path),
        (false, None) if from.authority.is_some() => format!("/{}", to.path),
        (false, None) => to.path.to_owned(),
    };
    join(&UriParts { query: to.query, ..from }, without_dots(&path))
}

fn join(parts: &UriParts<'_>, path: String) -> String {
    let mut uri = String::new();
    if let Some(scheme) = parts.scheme {
        uri.extend([scheme, ":"]);
    }
    if let Some(authority) = parts.authority {
        uri.extend(["//", authority]);
    }
    uri.push_str(&path);
    if let Some(query) = parts.query {
        uri.extend(["?", query]);
    }
    uri
}

fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." => {}
            ".." if kept.last().is_some_and(|it| !it.is_empty()) => drop(kept.pop()),
            ".." => {}
            other => {
                kept.push(other);
                continue;
            }
        }
        if is_last {
            kept.push("");
        }
    }
    kept.join("/")
}

/// Percent-decodes a fragment.
pub(super) fn decoded(fragment: &str) -> String {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = (*first == b'%').then(|| after.get(..2)).flatten();
        let byte = hex.and_then(|hex| std::str::from_utf8(hex).ok());
        match byte.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_uris_are_resolved() {
        for (base, reference, whole) in [
            ("http://a/b/c/d?q", "g", "http://a/b/c/g"),
            ("http://a/b/c/d?q", "./g/../h", "http://a/b/c/h"),
            ("http://a/b/c/d?q", "../../../g", "http://a/g"),
            ("http://a/b/c/d?q", "/g", "http://a/g"),
            ("http://a/b/c/d?q", "//g", "http://g"),
            ("http://a/b/c/d?q", "?y", "http://a/b/c/d?y"),
            ("http://a/b/c/d?q", "", "http://a/b/c/d?q"),
            ("http://a/b/c/d?q", "g/.", "http://a/b/c/g/"),
            ("http://a/b/c/d?q", "x:y", "x:y"),
            ("http://a", "g", "http://a/g"),
            ("", "g", "g"),
            ("tree", "leaf", "leaf"),
            ("urn:example:root", "urn:example:leaf", "urn:example:leaf"),
        ] {
            assert_eq!(resolve(base, reference), whole, "{base} {reference}");
        }
        assert_eq!(decoded("/a%25b%zz%"), "/a%b%zz%");
    }
}
