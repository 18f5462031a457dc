//! The server's URL, and the resolution of URLs that the server sends.

use std::fmt;

use http::{Uri, uri::Scheme};
use wharf_model::{Error, ErrorKind, FailureOrigin, excerpt};

/// Maximum length of a URL.
const MAX_URL_BYTES: usize = 8 << 10;

/// An absolute `http` or `https` URL without credentials and fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerUrl(Uri);

/// Origin: scheme, host and port. Credentials are bound to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    encrypted: bool,
    host: String,
    port: u16,
}

impl ServerUrl {
    pub(crate) fn parse(url: &str) -> Result<ServerUrl, Error> {
        let bad = |why: &str| bad_url(url, why);
        if url.len() > MAX_URL_BYTES {
            return Err(bad("it is too long"));
        }
        let uri: Uri =
            url.trim().parse().map_err(|_| bad("it is malformed, or its host is not in ASCII"))?;
        if uri.scheme().is_none_or(|it| *it != Scheme::HTTP && *it != Scheme::HTTPS) {
            return Err(bad("it must begin with http:// or https://"));
        }
        if uri.authority().is_some_and(|it| it.as_str().contains('@')) {
            return Err(bad("send credentials in a header, such as Authorization"));
        }
        match uri.host() {
            None | Some("" | "[]") => Err(bad("it has no host")),
            Some(_) => Ok(ServerUrl(uri)),
        }
    }

    pub(crate) fn uri(&self) -> &Uri {
        &self.0
    }

    pub(crate) fn origin(&self) -> Origin {
        Origin::of(&self.0)
    }

    /// Resolves `reference`, relative or absolute, against this URL.
    pub(crate) fn join(&self, reference: &str) -> Result<ServerUrl, Error> {
        let reference = reference.split('#').next().unwrap_or_default().trim();
        if has_scheme(reference) {
            return ServerUrl::parse(reference);
        }
        let scheme = self.0.scheme_str().unwrap_or("http");
        if reference.starts_with("//") {
            return ServerUrl::parse(&format!("{scheme}:{reference}"));
        }
        let authority = self.0.authority().map_or("", |it| it.as_str());
        let (path, query) = match reference.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (reference, None),
        };
        let here = self.0.path();
        let path = match path {
            "" => here.to_owned(),
            path if path.starts_with('/') => remove_dot_segments(path),
            path => {
                let folder = here.rfind('/').map_or("/", |slash| &here[..=slash]);
                remove_dot_segments(&format!("{folder}{path}"))
            }
        };
        let query = match query {
            None if reference.is_empty() => self.0.query(),
            query => query,
        };
        let query = query.map_or(String::new(), |query| format!("?{query}"));
        ServerUrl::parse(&format!("{scheme}://{authority}{path}{query}"))
    }
}

/// Omits the query, which may hold secrets.
impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin(), self.0.path())
    }
}

impl Origin {
    pub(crate) fn of(uri: &Uri) -> Origin {
        let encrypted = uri.scheme() == Some(&Scheme::HTTPS);
        let port = uri.port_u16().unwrap_or(if encrypted { 443 } else { 80 });
        Origin { encrypted, host: uri.host().unwrap_or_default().to_ascii_lowercase(), port }
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    /// The same host and port without TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn unencrypted(&self) -> Origin {
        Origin { encrypted: false, host: self.host.clone(), port: self.port }
    }

    /// The host name or address, as a resolver takes it.
    pub(crate) fn host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, usual) = if self.encrypted { ("https", 443) } else { ("http", 80) };
        write!(f, "{scheme}://{}", self.host)?;
        if self.port == usual { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

fn has_scheme(reference: &str) -> bool {
    let end = reference.find([':', '/', '?']);
    let scheme = end.filter(|end| reference[*end..].starts_with(':')).map(|end| &reference[..end]);
    scheme.is_some_and(|it| it.starts_with(|first: char| first.is_ascii_alphabetic()))
}

/// Resolves `.` and `..` segments (RFC 3986, section 5.2.4).
fn remove_dot_segments(path: &str) -> String {
    let mut segments_kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    segments_kept.pop();
                }
                if is_last {
                    segments_kept.push("");
                }
            }
            segment => segments_kept.push(segment),
        }
    }
    format!("/{}", segments_kept.join("/"))
}

fn bad_url(url: &str, why: &str) -> Error {
    // Parts that may hold secrets are omitted.
    let shown = url.split(['?', '#']).next().unwrap_or_default();
    let shown = match shown.split_once("://").map(|(scheme, rest)| (scheme, rest.rsplit_once('@')))
    {
        Some((scheme, Some((_, rest)))) => format!("{scheme}://…@{rest}"),
        _ => shown.to_owned(),
    };
    let message = format!("invalid URL {:?}: {why}", excerpt(&shown));
    Error::new(ErrorKind::InvalidParams).with_message(message).from_client(FailureOrigin::Target)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn references_mean_what_browsers_think() {
        let base = ServerUrl::parse("http://Host.example:8080/a/b/sse?key=1").unwrap();
        let cases = [
            ("/messages?s=1", "/messages?s=1"),
            ("messages", "/a/b/messages"),
            ("./m", "/a/b/m"),
            ("../m", "/a/m"),
            ("../../../../m", "/m"),
            ("/x/./y/../z/", "/x/z/"),
            ("..", "/a/"),
            ("?s=2", "/a/b/sse?s=2"),
            ("", "/a/b/sse?key=1"),
            ("#part", "/a/b/sse?key=1"),
            ("//host.example:8080/m", "/m"),
            ("HTTP://HOST.example:8080/m#x", "/m"),
        ];
        for (reference, expected) in cases {
            let joined = base.join(reference).unwrap();
            assert_eq!(joined.origin(), base.origin(), "{reference}");
            assert_eq!(joined.uri().path_and_query().unwrap(), expected, "{reference}");
        }
        for reference in ["//other.example/m", "https://host.example:8080/m", "http://host.example"]
        {
            assert_ne!(base.join(reference).unwrap().origin(), base.origin(), "{reference}");
        }
        for reference in ["ftp://host/", "javascript:1", "//u@h/", "http:///x"] {
            assert!(base.join(reference).is_err(), "{reference}");
        }
    }

    #[test]
    fn debug_output_has_no_secrets() {
        let url = ServerUrl::parse("https://Example.com/mcp?token=secret").unwrap();
        assert_eq!(url.to_string(), "https://example.com/mcp");
        assert_eq!(url.origin().to_string(), "https://example.com");
        let refused = ServerUrl::parse("https://me:secret@example.com/?x=secret").unwrap_err();
        assert!(!refused.message.contains("secret"), "{refused}");
        assert!(refused.message.contains("header"), "{refused}");
        assert_eq!(ServerUrl::parse("http://[::1]:9/").unwrap().origin().host(), "::1");
    }
}
