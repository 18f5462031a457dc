//! Parsed and checked URL of a request.

use std::{fmt, net::IpAddr};

use url::{Host, Url};
use wharf_model::excerpt;

use crate::fetch::FetchError;

/// Longest accepted URL.
const MAX_URL_BYTES: usize = 8 << 10;

/// A URL with an allowed scheme: `https`, or `http` to loopback.
pub(super) struct TargetUrl {
    url: Url,
    pub(super) host: TargetHost,
    pub(super) port: u16,
    pub(super) encrypted: bool,
}

/// Host of a URL.
pub(super) enum TargetHost {
    /// The name `localhost`.
    Localhost,
    Name(String),
    Address(IpAddr),
}

impl TargetUrl {
    pub(super) fn parse(text: &str) -> Result<TargetUrl, FetchError> {
        let shown = excerpt(text.split(['?', '#']).next().unwrap_or_default()).into_owned();
        let bad = |why: &str| FetchError::Url(format!("invalid URL {shown:?}: {why}"));
        if text.len() > MAX_URL_BYTES {
            return Err(bad("it is too long"));
        }
        let url = Url::parse(text).map_err(|error| bad(&error.to_string()))?;
        let encrypted = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err(bad("it must begin with https://")),
        };
        if !url.username().is_empty() || url.password().is_some() {
            let why = "it contains a user or a password";
            return Err(FetchError::Url(format!("invalid URL: {why}")));
        }
        let host = match url.host() {
            Some(Host::Domain("localhost")) => TargetHost::Localhost,
            Some(Host::Domain(name)) if !name.is_empty() => TargetHost::Name(name.to_owned()),
            Some(Host::Ipv4(address)) => TargetHost::Address(address.into()),
            Some(Host::Ipv6(address)) => TargetHost::Address(address.into()),
            _ => return Err(bad("it names no host")),
        };
        if !encrypted && !host.is_loopback() {
            return Err(FetchError::Forbidden(format!(
                "the URL {shown:?} is not allowed: the request would be unencrypted; it must begin with https://"
            )));
        }
        let port = url.port_or_known_default().unwrap_or(443);
        Ok(TargetUrl { url, host, port, encrypted })
    }

    /// Host and port, as in the `Host` header.
    pub(super) fn authority(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        self.url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// Origin: scheme, host and port.
    pub(super) fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    /// Name that the certificate must be valid for.
    pub(super) fn name(&self) -> String {
        match &self.host {
            TargetHost::Localhost => "localhost".into(),
            TargetHost::Name(name) => name.clone(),
            TargetHost::Address(address) => address.to_string(),
        }
    }

    /// Request target: path and query.
    pub(super) fn path_and_query(&self) -> String {
        let query = self.url.query().map_or(String::new(), |query| format!("?{query}"));
        format!("{}{query}", self.url.path())
    }
}

impl TargetHost {
    /// Returns true if the URL names loopback literally.
    pub(super) fn is_loopback(&self) -> bool {
        match self {
            TargetHost::Localhost => true,
            TargetHost::Name(_) => false,
            // An IPv4-mapped address does not count.
            TargetHost::Address(address) => address.is_loopback(),
        }
    }
}

/// Omits the query: it may contain secrets.
impl fmt::Display for TargetUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.url.scheme(), self.authority(), self.url.path())
    }
}
