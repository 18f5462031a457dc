//! Validation of redirect URIs.

use url::Url;

/// Longest accepted redirect URI.
const MAX_URI_BYTES: usize = 1024;

/// Schemes that are never allowed, whatever an operator configures.
const FORBIDDEN_SCHEMES: [&str; 12] = [
    "about",
    "blob",
    "data",
    "file",
    "filesystem",
    "ftp",
    "http",
    "https",
    "javascript",
    "mailto",
    "vbscript",
    "view-source",
];

/// Hosts on the user's own machine.
const LOOPBACK_HOSTS: [&str; 3] = ["127.0.0.1", "[::1]", "localhost"];

/// Returns the reason if a client may not register this URI.
pub(super) fn check(uri: &str, schemes: &[String]) -> Result<(), &'static str> {
    if uri.len() > MAX_URI_BYTES {
        return Err("it is longer than 1024 bytes");
    }
    if !uri.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"'<>\\^`{|}".contains(&byte)) {
        return Err("it has characters that must be percent-encoded");
    }
    if uri.contains('#') {
        return Err("it has a fragment");
    }
    let url = Url::parse(uri).map_err(|_| "it is not a URL")?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it has a user name or a password");
    }
    match url.scheme() {
        // A URI that a browser would normalize is rejected: it may lead elsewhere than it seems.
        "http" | "https" if !is_normalized(&url, uri) => {
            Err("it is not in its normal form: write host and path as a browser shows them")
        }
        "https" if url.host_str().is_some_and(|host| !host.is_empty()) => Ok(()),
        "http" if loopback(uri).is_some() => Ok(()),
        "http" => Err("http is only for 127.0.0.1, [::1] and localhost: use https"),
        own if schemes.iter().any(|scheme| scheme == own) && uri.starts_with(own) => Ok(()),
        _ => Err("its scheme is not allowed here: use https, or http on loopback"),
    }
}

/// Returns true if an operator may allow this custom scheme.
pub(super) fn is_possible_scheme(scheme: &str) -> bool {
    let mut bytes = scheme.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_lowercase())
        && bytes.all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || b"+-.".contains(&it))
        && !FORBIDDEN_SCHEMES.contains(&scheme)
}

/// Compares a requested with a registered URI: exactly, except for the port on loopback, which native
/// applications get from the system (RFC 8252).
pub(super) fn is_same(registered: &str, asked: &str) -> bool {
    if registered == asked {
        return true;
    }
    let both = loopback(registered).zip(loopback(asked));
    both.is_some_and(|(registered, asked)| registered == asked)
}

/// Returns true if the URI is on the user's own machine.
pub(super) fn is_local(uri: &str) -> bool {
    loopback(uri).is_some()
}

/// Host that receives the code, for display.
pub(super) fn shown(uri: &str) -> String {
    let url = Url::parse(uri).ok();
    let host = url.as_ref().and_then(|url| url.host_str()).filter(|host| !host.is_empty());
    match (url.as_ref().map(Url::scheme), host) {
        (Some("http" | "https"), Some(host)) => host.to_owned(),
        (Some(scheme), Some(host)) => format!("{scheme}://{host}"),
        (Some(scheme), None) => format!("{scheme}:"),
        (None, _) => String::new(),
    }
}

fn is_normalized(url: &Url, uri: &str) -> bool {
    url.as_str() == uri || (url.path() == "/" && url.as_str().strip_suffix('/') == Some(uri))
}

/// Splits a loopback `http` URI into its host and everything after the port.
fn loopback(uri: &str) -> Option<(&str, &str)> {
    let rest = uri.strip_prefix("http://")?;
    let host = LOOPBACK_HOSTS.into_iter().find(|host| rest.starts_with(host))?;
    let rest = &rest[host.len()..];
    let rest = match rest.strip_prefix(':') {
        Some(port) => {
            let after = port.trim_start_matches(|digit: char| digit.is_ascii_digit());
            port[..port.len() - after.len()].parse::<u16>().ok()?;
            after
        }
        None => rest,
    };
    (rest.is_empty() || rest.starts_with(['/', '?'])).then_some((host, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_normalized_redirect_uris_are_registered() {
        let own = ["com.example.app".to_owned()];
        for uri in [
            "https://app.example.com/cb",
            "https://app.example.com",
            "https://app.example.com:8443/cb?tenant=1",
            "http://127.0.0.1/cb",
            "http://127.0.0.1:33418/",
            "http://localhost:1",
            "http://[::1]:7777/cb",
            "com.example.app:/cb",
            "com.example.app://cb/x",
        ] {
            assert_eq!(check(uri, &own), Ok(()), "{uri}");
        }
        for uri in [
            "",
            "app.example.com/cb",
            "http://app.example.com/cb",
            "http://127.0.0.1.evil.example/cb",
            "http://localhost.evil.example/cb",
            "http://127.0.0.1:80@evil.example/",
            "http://127.0.0.1:99999/",
            "http://127.1/cb",
            "http://0x7f000001/cb",
            "https://user@app.example.com/cb",
            "https://user:pass@app.example.com/cb",
            "https://app.example.com/cb#",
            "https://app.example.com/cb#x",
            "https://app.example.com/a/../cb",
            "https://app.example.com/%2e%2e/cb",
            "https://app.example.com\\@evil.example/cb",
            "https://APP.example.com/cb",
            "https://app.example.com:443/cb",
            "https:app.example.com/cb",
            "https:///app.example.com/cb",
            "https://app.example.com/c b",
            "https://app.example.com/\r\nLocation:x",
            "https://bücher.example/cb",
            "javascript:alert(1)",
            "JavaScript:alert(1)",
            "javascript://app.example.com/%0aalert(1)",
            "data:text/html,hi",
            "file:///etc/passwd",
            "vbscript:x",
            "blob:https://app.example.com/1",
            "com.example.other:/cb",
            "COM.example.app:/cb",
            "cursor://cb",
        ] {
            assert!(check(uri, &own).is_err(), "{uri}");
        }
        assert!(check(&format!("https://a.example/{}", "x".repeat(1024)), &own).is_err());
    }

    #[test]
    fn dangerous_schemes_are_rejected() {
        assert!(is_possible_scheme("cursor") && is_possible_scheme("com.example.app"));
        for scheme in ["javascript", "data", "http", "https", "file", "", "1x", "a:b", "Cursor"] {
            assert!(!is_possible_scheme(scheme), "{scheme}");
        }
    }

    #[test]
    fn only_the_loopback_port_may_differ() {
        let registered = "https://app.example.com/cb";
        assert!(is_same(registered, registered));
        for asked in [
            "https://app.example.com/cb/",
            "https://app.example.com/cb/more",
            "https://app.example.com/cb?x=1",
            "https://app.example.com/CB",
            "https://app.example.com:443/cb",
            "https://app.example.com:8443/cb",
            "https://app.example.com.evil.example/cb",
            "https://app.example.com@evil.example/cb",
            "https://evil.example/app.example.com/cb",
            "https://app.example.com/%63b",
            "https://app.example.com/x/../cb",
            "http://app.example.com/cb",
            "HTTPS://app.example.com/cb",
            " https://app.example.com/cb",
            "https://app.example.com/cb\n",
        ] {
            assert!(!is_same(registered, asked), "{asked}");
        }
        let local = "http://127.0.0.1/cb?x=1";
        for asked in ["http://127.0.0.1:1/cb?x=1", "http://127.0.0.1:65535/cb?x=1"] {
            assert!(is_same(local, asked) && is_same(asked, local), "{asked}");
        }
        for asked in [
            "http://localhost:1/cb?x=1",
            "http://127.0.0.1:1/cb",
            "http://127.0.0.1:1/cb?x=1&y=2",
            "http://127.0.0.1:1@evil.example/cb?x=1",
            "http://127.0.0.1:65536/cb?x=1",
            "http://127.0.0.1:/cb?x=1",
            "http://127.0.0.1.evil.example/cb?x=1",
            "https://127.0.0.1/cb?x=1",
        ] {
            assert!(!is_same(local, asked), "{asked}");
        }
    }
}
