//! Parsed and checked URL of a request.

use std::fmt;

use wharf_connect::{Origin, Url};
use wharf_model::excerpt;

use crate::fetch::FetchError;

/// A URL with an allowed scheme: `https`, or `http` to loopback.
pub(super) struct TargetUrl {
    url: Url,
    pub(super) origin: Origin,
}

impl TargetUrl {
    pub(super) fn parse(text: &str) -> Result<TargetUrl, FetchError> {
        let (url, origin) = Origin::parse_url(text)?;
        if !origin.is_encrypted() && !origin.is_loopback() {
            let shown = excerpt(text.split(['?', '#']).next().unwrap_or_default()).into_owned();
            return Err(FetchError::Forbidden {
                message: format!(
                    "the URL {shown:?} is not allowed: the request would be unencrypted; it must begin with https://"
                ),
            });
        }
        Ok(TargetUrl { url, origin })
    }

    /// Host and port, as in the `Host` header.
    pub(super) fn authority(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        self.url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// Request target: path and query.
    pub(super) fn path_and_query(&self) -> String {
        let query = self.url.query().map_or(String::new(), |query| format!("?{query}"));
        format!("{}{query}", self.url.path())
    }
}

/// Omits the query: it may contain secrets.
impl fmt::Display for TargetUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.url.path())
    }
}
