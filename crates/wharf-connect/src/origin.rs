//! Origin of a URL: scheme, host and port.

use std::{fmt, net::IpAddr};

use url::{Host, Url};
use wharf_model::excerpt;

use crate::ConnectionError;

/// Maximum length of a URL.
const MAX_URL_BYTES: usize = 8 << 10;

/// Origin: scheme, host and port. Credentials and trust are bound to it.
///
/// ```
/// use wharf_connect::Origin;
///
/// let origin = Origin::parse("https://MCP.example:443/path?x=1")?;
/// assert_eq!(origin.to_string(), "https://mcp.example");
/// assert_eq!(origin, Origin::parse("https://mcp.example/other")?);
/// # Ok::<(), wharf_connect::ConnectionError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    encrypted: bool,
    host: Host<String>,
    port: u16,
}

impl Origin {
    /// Parses the origin of a URL.
    ///
    /// # Errors
    /// See [`Origin::parse_url`].
    pub fn parse(text: &str) -> Result<Origin, ConnectionError> {
        Origin::parse_url(text).map(|(_, origin)| origin)
    }

    /// Parses a URL, with its origin. The URL has no fragment.
    ///
    /// # Errors
    /// If the URL is invalid or too long, its scheme is neither `http` nor `https`, or it contains a user or a
    /// password. The error shows neither them nor the query.
    pub fn parse_url(text: &str) -> Result<(Url, Origin), ConnectionError> {
        let invalid = |shown: &str, why: &str| {
            ConnectionError::settings(format!("invalid URL {:?}: {why}", excerpt(shown)))
        };
        let malformed = |why: &str| invalid(&without_secrets(text, UrlSyntax::Invalid), why);
        if text.len() > MAX_URL_BYTES {
            return Err(malformed("it is too long"));
        }
        let mut url = Url::parse(text.trim()).map_err(|error| match error {
            url::ParseError::EmptyHost => malformed("it has no host").because(error),
            url::ParseError::RelativeUrlWithoutBase => {
                malformed("it must begin with http:// or https://").because(error)
            }
            error => malformed(&error.to_string()).because(error),
        })?;
        let bad = |why: &str| invalid(&without_secrets(text, UrlSyntax::Valid), why);
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad("it must begin with http:// or https://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad("send credentials in a header, such as Authorization"));
        }
        url.set_fragment(None);
        let origin = Origin::of(&url).ok_or_else(|| bad("it has no host"))?;
        Ok((url, origin))
    }

    /// Returns the origin of a URL with a host and a known port. Every scheme but `https` is unencrypted.
    pub fn of(url: &Url) -> Option<Origin> {
        let encrypted = url.scheme() == "https";
        let port = url.port_or_known_default()?;
        Some(Origin { encrypted, host: url.host()?.to_owned(), port })
    }

    /// Creates the origin of a host and a port: a name or an address, IPv6 with or without brackets.
    ///
    /// # Errors
    /// If the host is invalid.
    pub fn new(host: &str, port: u16, encrypted: bool) -> Result<Origin, ConnectionError> {
        let host = match host.parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) => Host::Ipv4(address),
            Ok(IpAddr::V6(address)) => Host::Ipv6(address),
            Err(_) => Host::parse(host).map_err(|error| {
                ConnectionError::settings(format!("invalid host {:?}: {error}", excerpt(host)))
                    .because(error)
            })?,
        };
        Ok(Origin { encrypted, host, port })
    }

    /// Returns whether connections are encrypted with TLS.
    pub fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    /// Returns the same host and port without TLS.
    #[must_use]
    pub fn unencrypted(&self) -> Origin {
        Origin { encrypted: false, ..self.clone() }
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the host name or the address, without brackets.
    pub fn host(&self) -> String {
        match &self.host {
            Host::Domain(name) => name.clone(),
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        }
    }

    /// Returns host and port, with brackets around an IPv6 address.
    pub fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Returns the address, if the host is one.
    pub fn address(&self) -> Option<IpAddr> {
        match self.host {
            Host::Domain(_) => None,
            Host::Ipv4(address) => Some(address.into()),
            Host::Ipv6(address) => Some(address.into()),
        }
    }

    /// Returns whether the host is loopback literally: `localhost`, `127.0.0.1`, `[::1]`. An IPv4-mapped
    /// address is not.
    pub fn is_loopback(&self) -> bool {
        match &self.host {
            Host::Domain(name) => name == "localhost",
            Host::Ipv4(address) => address.is_loopback(),
            Host::Ipv6(address) => address.is_loopback(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, usual) = if self.encrypted { ("https", 443) } else { ("http", 80) };
        write!(f, "{scheme}://{}", self.host)?;
        if self.port == usual { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

/// Result of the URL parser for a text that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UrlSyntax {
    Valid,
    Invalid,
}

/// Text of a URL without query, fragment, user and password. A password may itself contain `@`, `?` or `#`, so
/// nothing after the scheme is shown where one of them leaves its end in doubt.
pub(crate) fn without_secrets(text: &str, syntax: UrlSyntax) -> String {
    let is_scheme =
        |it: &str| it.bytes().all(|it| it.is_ascii_alphanumeric() || b"+-.".contains(&it));
    let (scheme, rest) = match text.trim().split_once("://") {
        Some((scheme, rest)) if is_scheme(scheme) => (format!("{scheme}://"), rest),
        _ => (String::new(), text),
    };
    let has_query = rest.contains(['?', '#']);
    match (rest.rsplit_once('@'), syntax) {
        (Some((_, host)), UrlSyntax::Valid) if !has_query => format!("{scheme}…@{host}"),
        (None, _) if !has_query => format!("{scheme}{rest}"),
        (None, UrlSyntax::Valid) => {
            format!("{scheme}{}", rest.split(['?', '#']).next().unwrap_or_default())
        }
        _ => format!("{scheme}…"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_invalid_urls_are_not_shown() {
        for (text, shown) in [
            ("http://me:pa#ss@proxy:3128", "http://…"),
            ("http://me:pa?ss@proxy:port", "http://…"),
            ("http://me@example.com:secret", "http://…"),
            ("me:se://cret@host:port", "…@host:port"),
            ("http://host:port/path", "http://host:port/path"),
            ("http://host:port/?token=secret", "http://…"),
            ("ftp://host/path?token=secret", "ftp://host/path"),
            ("ftp://host/?mail=a@b&token=secret", "ftp://…"),
            ("https://me:se/cret@host/", "https://…"),
            ("https://me:secret@host/path", "https://…@host/path"),
        ] {
            let error = Origin::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("invalid URL {shown:?}: ")), "{text}: {error}");
        }
    }
}
