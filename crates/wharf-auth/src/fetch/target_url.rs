//! Where a request goes.

use std::{fmt, net::IpAddr};

use url::{Host, Url};
use wharf_model::excerpt;

use crate::fetch::FetchError;

/// The longest URL that is used.
const LONGEST: usize = 8 << 10;

/// A URL that may be asked for: `https`, or `http` on this machine.
pub(super) struct Place {
    url: Url,
    pub(super) host: Who,
    pub(super) port: u16,
    pub(super) encrypted: bool,
}

/// Who is named by a URL.
pub(super) enum Who {
    /// This machine, by its name.
    Localhost,
    Name(String),
    Address(IpAddr),
}

impl Place {
    pub(super) fn parse(text: &str) -> Result<Place, FetchError> {
        let shown = excerpt(text.split(['?', '#']).next().unwrap_or_default()).into_owned();
        let bad = |why: &str| FetchError::Url(format!("The URL {shown:?} cannot be used: {why}"));
        if text.len() > LONGEST {
            return Err(bad("it is too long"));
        }
        let url = Url::parse(text).map_err(|error| bad(&error.to_string()))?;
        let encrypted = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err(bad("it must begin with https://")),
        };
        if !url.username().is_empty() || url.password().is_some() {
            let why = "it holds a user or a password";
            return Err(FetchError::Url(format!("A URL cannot be used: {why}")));
        }
        let host = match url.host() {
            Some(Host::Domain("localhost")) => Who::Localhost,
            Some(Host::Domain(name)) if !name.is_empty() => Who::Name(name.to_owned()),
            Some(Host::Ipv4(address)) => Who::Address(address.into()),
            Some(Host::Ipv6(address)) => Who::Address(address.into()),
            _ => return Err(bad("it names no host")),
        };
        if !encrypted && !host.is_this_machine() {
            return Err(FetchError::Forbidden(format!(
                "The URL {shown:?} is not used: what is sent there could be read on the way; it must \
                 begin with https://"
            )));
        }
        let port = url.port_or_known_default().unwrap_or(443);
        Ok(Place { url, host, port, encrypted })
    }

    /// The host as the header and certificates have it.
    pub(super) fn authority(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        self.url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// Scheme, host and port.
    pub(super) fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    /// The name that a certificate must be for.
    pub(super) fn name(&self) -> String {
        match &self.host {
            Who::Localhost => "localhost".into(),
            Who::Name(name) => name.clone(),
            Who::Address(address) => address.to_string(),
        }
    }

    /// Path and query.
    pub(super) fn target(&self) -> String {
        let query = self.url.query().map_or(String::new(), |query| format!("?{query}"));
        format!("{}{query}", self.url.path())
    }
}

impl Who {
    /// Whether this machine is meant, and literally.
    pub(super) fn is_this_machine(&self) -> bool {
        match self {
            Who::Localhost => true,
            Who::Name(_) => false,
            // Not an address that is another in disguise.
            Who::Address(address) => address.is_loopback(),
        }
    }
}

/// Shows no query: it may hold secrets.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.url.scheme(), self.authority(), self.url.path())
    }
}
