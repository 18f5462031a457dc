//! Proxies that the environment names.

use crate::{
    ConnectionError, Origin,
    proxy::{ProxyServer, no_proxy::NoProxy},
};

/// Proxies by the scheme of the target, and the exceptions.
#[derive(Debug)]
pub(crate) struct ProxyVariables {
    http: ProxyVariable,
    https: ProxyVariable,
    exceptions: NoProxy,
}

/// Proxy of a variable; an error if its value is invalid.
type ProxyVariable = Option<Result<ProxyServer, ConnectionError>>;

impl ProxyVariables {
    pub(crate) fn read(variable: impl Fn(&str) -> Option<String>) -> ProxyVariables {
        // An empty variable counts as missing.
        let first = |names: &[&str]| {
            let value = |name: &&str| variable(name).filter(|it| !it.trim().is_empty());
            names
                .iter()
                .find_map(|name| Some((*name, value(name)?)))
                .map(|it| (it.0.to_owned(), it.1))
        };
        let proxy = |names: &[&str]| {
            first(names).map(|(name, value)| {
                ProxyServer::parse(&value)
                    .map_err(|error| ConnectionError::settings(format!("{name}: {error}")))
            })
        };
        // A CGI program gets the header `Proxy` of a request as this variable (httpoxy, CVE-2016-5385).
        let http: &[&str] = match variable("REQUEST_METHOD") {
            Some(_) => &["http_proxy", "all_proxy", "ALL_PROXY"],
            None => &["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"],
        };
        let exceptions = first(&["no_proxy", "NO_PROXY"]).map_or(String::new(), |(_, value)| value);
        ProxyVariables {
            http: proxy(http),
            https: proxy(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
            exceptions: NoProxy::parse(&exceptions),
        }
    }

    pub(crate) fn server_for(
        &self,
        origin: &Origin,
    ) -> Result<Option<&ProxyServer>, ConnectionError> {
        let variable = if origin.is_encrypted() { &self.https } else { &self.http };
        match variable {
            Some(proxy) if !self.exceptions.contains(origin) => {
                proxy.as_ref().map(Some).map_err(Clone::clone)
            }
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::ProxySettings;

    fn proxy_of(
        variables: &[(&str, &str)],
        target: &str,
    ) -> Result<Option<String>, ConnectionError> {
        let settings = ProxySettings::from_variables(|name| {
            let found = variables.iter().find(|it| it.0 == name);
            found.map(|it| it.1.to_owned())
        });
        let server = settings.server_for(&Origin::parse(target).unwrap())?;
        Ok(server.map(|it| it.origin.host()))
    }

    #[test]
    fn the_scheme_selects_the_variable() {
        let all =
            [("http_proxy", "a"), ("HTTP_PROXY", "b"), ("HTTPS_PROXY", "c"), ("ALL_PROXY", "d")];
        for (variables, target, expected) in [
            (&all[..], "http://host", Some("a")),
            (&all[1..], "http://host", Some("b")),
            (&all[..], "https://host", Some("c")),
            (&all[3..], "https://host", Some("d")),
            (&all[3..], "http://host", Some("d")),
            (&all[..2], "https://host", None),
            (&[("https_proxy", "e"), ("HTTPS_PROXY", "c")], "https://host", Some("e")),
            (&[("https_proxy", ""), ("HTTPS_PROXY", "c")], "https://host", Some("c")),
            (&[("HTTP_PROXY", "b"), ("REQUEST_METHOD", "GET")], "http://host", None),
            (&[], "https://host", None),
        ] {
            assert_eq!(proxy_of(variables, target).unwrap().as_deref(), expected, "{variables:?}");
        }
        for near in ["https://localhost", "http://127.0.0.1:8000", "https://[::1]"] {
            assert_eq!(proxy_of(&all, near), Ok(None), "{near}");
        }
    }

    #[test]
    fn an_unsupported_proxy_is_an_error_and_not_bypassed() {
        let variables = [("ALL_PROXY", "socks5://h:1080"), ("NO_PROXY", "free.example")];
        let error = proxy_of(&variables, "https://host").unwrap_err();
        assert!(error.to_string().starts_with("ALL_PROXY: "), "{error}");
        assert_eq!(proxy_of(&variables, "https://free.example"), Ok(None));
        assert_eq!(proxy_of(&variables, "https://localhost"), Ok(None));
    }
}
