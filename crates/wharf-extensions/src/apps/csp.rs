//! Content Security Policy of an app, and the syntax of the origins in it.

use serde_json::{Map, Value};

/// Origins that a page may use. Without them, hosts block all network access of the page.
///
/// An origin is a scheme (`https`, `http`, `wss` or `ws`), a host and perhaps a port. `*.` before the host stands for all
/// subdomains. Anything else is an error when the server is built: hosts copy origins into a header.
///
/// ```
/// # mod wharf { pub mod apps { pub use wharf_extensions::apps::*; } }
/// use wharf::apps::Csp;
///
/// let csp = Csp::new().connect("https://api.example.com").resource("https://*.tiles.example.com");
/// # let _ = csp;
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Csp(Map<String, Value>);

impl Csp {
    /// Creates a policy without origins.
    pub fn new() -> Self {
        Csp::default()
    }

    /// Allows requests of scripts (`fetch`, WebSocket) to this origin.
    pub fn connect(self, origin: impl Into<String>) -> Self {
        self.add("connectDomains", origin.into())
    }

    /// Allows scripts, stylesheets, images, fonts and media from this origin.
    pub fn resource(self, origin: impl Into<String>) -> Self {
        self.add("resourceDomains", origin.into())
    }

    /// Allows frames of this origin in the page.
    pub fn frame(self, origin: impl Into<String>) -> Self {
        self.add("frameDomains", origin.into())
    }

    /// Allows a `<base>` element with this origin.
    pub fn base_uri(self, origin: impl Into<String>) -> Self {
        self.add("baseUriDomains", origin.into())
    }

    fn add(mut self, list: &str, origin: String) -> Self {
        let origins = self.0.entry(list).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(origins) = origins {
            origins.push(origin.into());
        }
        self
    }

    /// Returns the policy as in the specification, if it has origins.
    pub(crate) fn into_json(self) -> Option<Value> {
        (!self.0.is_empty()).then_some(Value::Object(self.0))
    }
}

/// Checks a policy as in the specification; returns a text for each problem.
pub(crate) fn problems(csp: &Value) -> Vec<String> {
    let lists = csp.as_object().into_iter().flatten();
    let origins = lists.flat_map(|(list, origins)| {
        origins.as_array().into_iter().flatten().map(move |origin| (list, origin))
    });
    let wrong = origins.filter(|(_, origin)| !origin.as_str().is_some_and(is_origin));
    let text = |(list, origin)| {
        format!(
            "its `{list}` contains {origin}, which is not an origin: write a scheme (https, http, wss or ws), a host \
             with `*.` for all subdomains, and perhaps a port, as in `https://api.example.com`, without a path"
        )
    };
    wrong.map(text).collect()
}

/// Returns whether `text` is the origin of a server, or of all subdomains of a domain.
fn is_origin(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let has_host = match rest.strip_prefix("*.") {
        // Not `*.com`, which allows all domains below `com`.
        Some(domain) => is_host_and_port(domain) && domain.contains('.'),
        None => is_host_and_port(rest),
    };
    ["https", "http", "wss", "ws"].contains(&scheme) && has_host
}

fn is_host_and_port(text: &str) -> bool {
    let (host, port) = text.split_once(':').unwrap_or((text, "443"));
    is_host(host) && port.parse::<u16>().is_ok_and(|port| port > 0) && !port.starts_with('+')
}

/// Returns whether `text` is the name of a host, in ASCII.
fn is_host(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

/// Checks the dedicated domain of a page: a host, or for some hosts an `https` origin.
pub(crate) fn domain_problem(domain: &str) -> Option<String> {
    let host = domain.strip_prefix("https://").unwrap_or(domain);
    (!is_host_and_port(host)).then(|| {
        format!(
            "its domain {domain:?} is not the name of a host: write it in ASCII and without a path, as the \
             documentation of the host program says, such as `a904794854a047f6.claudemcpcontent.com`"
        )
    })
}

/// Returns the origins that a page on HTTPS cannot use, because they are not encrypted.
pub(crate) fn unencrypted_origins(csp: &Value) -> Vec<&str> {
    let lists = csp.as_object().into_iter().flat_map(|lists| lists.values());
    let origins = lists.filter_map(Value::as_array).flatten().filter_map(Value::as_str);
    let is_local = |rest: &str| {
        let host = rest.split(':').next().unwrap_or_default();
        matches!(host, "localhost" | "127.0.0.1") || host.ends_with(".localhost")
    };
    let is_plain = |origin: &&str| {
        let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("ws://"));
        rest.is_some_and(|rest| !is_local(rest))
    };
    origins.filter(is_plain).collect()
}
