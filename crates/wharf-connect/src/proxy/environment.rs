//! Proxies that the environment names.

use std::ffi::{OsStr, OsString};

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

/// Rule by which names of variables are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VariableNames {
    CaseSensitive,
    /// `http_proxy` is `HTTP_PROXY`: Windows.
    IgnoreCase,
}

impl VariableNames {
    pub(crate) fn of_system() -> VariableNames {
        if cfg!(windows) { VariableNames::IgnoreCase } else { VariableNames::CaseSensitive }
    }
}

impl ProxyVariables {
    pub(crate) fn read(
        names: VariableNames,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> ProxyVariables {
        // An empty variable counts as missing.
        let is_set = |it: &OsString| it.to_str().is_none_or(|it| !it.trim().is_empty());
        let first = |names: &[&str]| {
            let value = |name: &&str| variable(name).filter(is_set);
            names.iter().find_map(|name| Some(((*name).to_owned(), value(name)?)))
        };
        let proxy = |names: &[&str]| first(names).map(|(name, value)| named_proxy(&name, &value));
        // A CGI program gets the header `Proxy` of a request as this variable (httpoxy, CVE-2016-5385).
        let http: &[&str] = match (variable("REQUEST_METHOD"), names) {
            (None, _) => &["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"],
            (Some(_), VariableNames::CaseSensitive) => &["http_proxy", "all_proxy", "ALL_PROXY"],
            (Some(_), VariableNames::IgnoreCase) => &["all_proxy", "ALL_PROXY"],
        };
        let exceptions = first(&["no_proxy", "NO_PROXY"]).map(|(_, value)| value);
        let exceptions = exceptions.unwrap_or_default();
        ProxyVariables {
            http: proxy(http),
            https: proxy(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
            // An entry that is not UTF-8 matches no host.
            exceptions: NoProxy::parse(&exceptions.to_string_lossy()),
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

/// Parses the proxy that a variable names.
fn named_proxy(name: &str, value: &OsStr) -> Result<ProxyServer, ConnectionError> {
    let text = value.to_str().ok_or_else(|| {
        ConnectionError::settings(format!("{name}: invalid proxy: it is not UTF-8"))
    })?;
    ProxyServer::parse(text).map_err(|error| error.of_setting(name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::sync::Arc;

    use super::*;
    use crate::proxy::{ProxySettings, ProxySource};

    fn proxy_of(
        variables: &[(&str, &str)],
        target: &str,
    ) -> Result<Option<String>, ConnectionError> {
        let variables = ProxyVariables::read(VariableNames::CaseSensitive, |name| {
            let found = variables.iter().find(|it| it.0 == name);
            found.map(|it| it.1.into())
        });
        let settings = ProxySettings(ProxySource::Environment(Arc::new(variables)));
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
    fn a_header_of_a_request_names_no_proxy_on_windows_either() {
        let ignoring_case = |request: Option<&str>| {
            let variables = ProxyVariables::read(VariableNames::IgnoreCase, |name| {
                match name.to_ascii_uppercase().as_str() {
                    "HTTP_PROXY" => Some("evil.example".into()),
                    "REQUEST_METHOD" => request.map(OsString::from),
                    _ => None,
                }
            });
            let target = Origin::parse("http://host").unwrap();
            variables.server_for(&target).unwrap().is_some()
        };
        assert!(ignoring_case(None));
        assert!(!ignoring_case(Some("GET")));
    }

    #[cfg(unix)]
    #[test]
    fn a_variable_that_is_not_utf_8_is_an_error() {
        use std::os::unix::ffi::OsStringExt;
        let variables = ProxyVariables::read(VariableNames::CaseSensitive, |name| {
            (name == "HTTPS_PROXY").then(|| OsString::from_vec(b"http://pro\xffy".to_vec()))
        });
        let error = variables.server_for(&Origin::parse("https://host").unwrap()).unwrap_err();
        assert!(error.to_string().starts_with("HTTPS_PROXY: "), "{error}");
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
