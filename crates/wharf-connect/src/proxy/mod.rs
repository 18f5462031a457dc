//! HTTP proxies: named by the program, or by the environment.

mod environment;
mod no_proxy;
pub(crate) mod tunnel;

use std::{fmt, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use percent_encoding::percent_decode_str;
use url::Url;
use wharf_model::excerpt;

use self::environment::{ProxyVariables, VariableNames};
use crate::{
    ConnectionError, Origin,
    origin::{UrlSyntax, without_secrets},
};

/// HTTP proxy for outgoing connections, if any. Connections to loopback never use one.
///
/// Through a proxy, encrypted connections are tunnelled (`CONNECT`), so the proxy sees host and port only.
///
/// **SSRF protection.** A proxy resolves names itself, so an address that was checked here would mean nothing.
/// Where an [`AddressPolicy`](crate::AddressPolicy) applies, the name is therefore resolved and checked
/// here, and the proxy gets the checked address instead of the name. Protection and proxy can so be
/// used together; the price is that this machine must be able to resolve the name. The address of the
/// proxy itself is not checked: the user named it. A proxy that allows connections by host name refuses
/// such a `CONNECT ADDRESS:PORT`: it needs a rule for the addresses, or the host an exception (`NO_PROXY`).
///
/// ```
/// use wharf_connect::{HostConnector, ProxySettings};
///
/// let proxy = ProxySettings::url("http://me:secret@proxy.example:3128")?;
/// let connector = HostConnector::new().proxy(proxy);
/// # let _ = connector;
/// # Ok::<(), wharf_connect::ConnectionError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ProxySettings(ProxySource);

#[derive(Clone, Debug, Default)]
enum ProxySource {
    #[default]
    None,
    Fixed(Arc<ProxyServer>),
    Environment(Arc<ProxyVariables>),
}

impl ProxySettings {
    /// No proxy.
    pub fn none() -> ProxySettings {
        ProxySettings::default()
    }

    /// The proxy at `url`, for every host except loopback: `http://[USER:PASSWORD@]HOST[:PORT]`, or `https`.
    ///
    /// # Errors
    /// If the URL is invalid, or not that of an HTTP proxy.
    pub fn url(url: &str) -> Result<ProxySettings, ConnectionError> {
        Ok(ProxySettings(ProxySource::Fixed(Arc::new(ProxyServer::parse(url)?))))
    }

    /// The proxies that the environment names: `HTTPS_PROXY`, `HTTP_PROXY` and `ALL_PROXY`, except for the
    /// hosts in `NO_PROXY`. The lower-case forms have precedence.
    ///
    /// `NO_PROXY` is a list with commas: names with their subdomains, addresses, networks (`10.0.0.0/8`),
    /// each with a port or without, or `*`. In a CGI program, `HTTP_PROXY` is ignored, because there it
    /// may be a header of the request (httpoxy); on Windows `http_proxy` is the same variable.
    pub fn from_env() -> ProxySettings {
        let variables =
            ProxyVariables::read(VariableNames::of_system(), |name| std::env::var_os(name));
        ProxySettings(ProxySource::Environment(Arc::new(variables)))
    }

    /// Returns the proxy for connections to `origin`.
    ///
    /// # Errors
    /// If the environment names an invalid proxy. It is not bypassed in silence.
    pub(crate) fn server_for(
        &self,
        origin: &Origin,
    ) -> Result<Option<&ProxyServer>, ConnectionError> {
        if origin.is_loopback() {
            return Ok(None);
        }
        match &self.0 {
            ProxySource::None => Ok(None),
            ProxySource::Fixed(server) => Ok(Some(server)),
            ProxySource::Environment(variables) => variables.server_for(origin),
        }
    }
}

/// Address and credentials of a proxy.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ProxyServer {
    pub(crate) origin: Origin,
    /// Value of `Proxy-Authorization`.
    pub(crate) authorization: Option<String>,
}

impl ProxyServer {
    fn parse(text: &str) -> Result<ProxyServer, ConnectionError> {
        let invalid = |syntax, why: &str| {
            let shown = without_secrets(text, syntax);
            ConnectionError::settings(format!(
                "invalid proxy {:?}: {why}; write http://HOST:PORT",
                excerpt(&shown)
            ))
        };
        let text = text.trim();
        // As in curl, the scheme may be omitted.
        let full = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let url = Url::parse(&full)
            .map_err(|error| invalid(UrlSyntax::Invalid, &error.to_string()).because(error))?;
        let bad = |why: &str| invalid(UrlSyntax::Valid, why);
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad("only HTTP proxies are supported"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(bad(
                "a proxy has no query and no fragment, and a password with ? or # is percent-encoded",
            ));
        }
        let origin = Origin::of(&url).ok_or_else(|| bad("it has no host"))?;
        let has_credentials = !url.username().is_empty() || url.password().is_some();
        let authorization = has_credentials.then(|| {
            let mut pair: Vec<u8> = percent_decode_str(url.username()).collect();
            pair.push(b':');
            pair.extend(percent_decode_str(url.password().unwrap_or_default()));
            format!("Basic {}", STANDARD.encode(pair))
        });
        Ok(ProxyServer { origin, authorization })
    }
}

/// Omits the credentials.
impl fmt::Debug for ProxyServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProxyServer").field(&self.origin.to_string()).finish()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn proxy_urls_are_parsed() {
        for (text, origin, authorization) in [
            ("http://proxy.example:3128", "http://proxy.example:3128", None),
            ("proxy.example:3128", "http://proxy.example:3128", None),
            (" https://proxy.example/ ", "https://proxy.example", None),
            ("http://me:p%40ss@[::1]:8080", "http://[::1]:8080", Some("Basic bWU6cEBzcw==")),
            ("me:x@proxy", "http://proxy", Some("Basic bWU6eA==")),
        ] {
            let server = ProxyServer::parse(text).unwrap();
            assert_eq!(server.origin.to_string(), origin, "{text}");
            assert_eq!(server.authorization.as_deref(), authorization, "{text}");
        }
        for text in [
            "",
            "socks5://me:secret@host:1080",
            "http://",
            "http://me:secret@host:port",
            "http://host/?secret",
            "http://host/#secret",
            // Passwords that are not percent-encoded, whose beginning reads like a port.
            "http://me:secret#word@proxy:3128",
            "me:secret#word@proxy:3128",
            "http://secret:12#word@proxy:3128",
            "http://secret:12?word@proxy:3128",
            "http://me@example.com:secret",
        ] {
            let error = ProxySettings::url(text).unwrap_err();
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        let shown = format!("{:?}", ProxySettings::url("http://me:secret@host").unwrap());
        assert!(shown.contains("host") && !shown.contains("secret"), "{shown}");
    }
}
