//! The server's URL, and the resolution of URLs that the server sends.

use std::{fmt, sync::Arc};

use http::Uri;
use wharf_connect::{Origin, Url};
use wharf_model::{Error, ErrorKind, FailureOrigin};

use crate::client::not_connected;

/// An absolute `http` or `https` URL without credentials and fragment. Clones share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerUrl(Arc<ParsedUrl>);

#[derive(Debug, PartialEq, Eq)]
struct ParsedUrl {
    url: Url,
    origin: Origin,
    /// The same URL as `hyper` takes it.
    uri: Uri,
}

impl ServerUrl {
    pub(crate) fn parse(text: &str) -> Result<ServerUrl, Error> {
        let (url, origin) =
            Origin::parse_url(text).map_err(|error| not_connected(&error, error.to_string()))?;
        let uri = url.as_str().parse().map_err(|error| {
            let problem = format!("invalid URL \"{origin}{}\": {error}", url.path());
            Error::new(ErrorKind::InvalidParams)
                .with_message(problem)
                .from_client_because(FailureOrigin::Target, Arc::new(error))
        })?;
        Ok(ServerUrl(Arc::new(ParsedUrl { url, origin, uri })))
    }

    pub(crate) fn uri(&self) -> &Uri {
        &self.0.uri
    }

    pub(crate) fn origin(&self) -> &Origin {
        &self.0.origin
    }

    /// Resolves `reference`, relative or absolute, against this URL.
    pub(crate) fn join(&self, reference: &str) -> Result<ServerUrl, Error> {
        let joined = self.0.url.join(reference.trim());
        let text = joined.as_ref().map_or(reference, Url::as_str);
        ServerUrl::parse(text)
    }
}

/// Omits the query, which may hold secrets.
impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.0.origin, self.0.url.path())
    }
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
        // As browsers do, the parser skips extra slashes and reads backslashes as slashes.
        for reference in [
            "//other.example/m",
            "https://host.example:8080/m",
            "http://host.example",
            "http:///x",
            "\\\\other.example/m",
        ] {
            assert_ne!(base.join(reference).unwrap().origin(), base.origin(), "{reference}");
        }
        for reference in ["ftp://host/", "javascript:1", "//u@h/", "http://", "http://[x]/"] {
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
