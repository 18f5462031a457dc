//! Checks `Host` and `Origin`: protection against DNS rebinding.

use http::{Uri, request::Parts};
use wharf_model::RefusalReason;
use wharf_wire::HeaderField;

use crate::server::http::{
    Http, request_headers::RequestHeaders, response, response::HttpResponse,
};

/// Rejects requests that a foreign web page may have made a browser send.
pub(crate) fn check(
    http: &Http,
    parts: &Parts,
    parsed: &RequestHeaders<'_>,
) -> Result<(), Box<HttpResponse>> {
    let host = check_host(http, parts, parsed)?;
    let origin = match parsed.origin {
        HeaderField::Absent => return Ok(()),
        HeaderField::One(origin) => std::str::from_utf8(origin).ok(),
        HeaderField::Several => None,
    };
    // With `any_host` the host is not checked, so it does not justify an origin.
    let own = host.filter(|_| !http.any_host);
    match origin {
        Some(origin) if is_allowed_origin(http, own, origin) => Ok(()),
        _ => Err(refuse(
            RefusalReason::ForbiddenOrigin,
            "This origin is not allowed: allow it with `Http::origin` or --allow-origin",
        )),
    }
}

/// Returns the requested host if it is served here.
pub(crate) fn check_host<'a>(
    http: &Http,
    parts: &'a Parts,
    parsed: &RequestHeaders<'a>,
) -> Result<Option<&'a str>, Box<HttpResponse>> {
    let authority = Uri::authority(&parts.uri).map(|it| it.as_str());
    let host = match (parsed.host, authority) {
        (HeaderField::One(host), None) => std::str::from_utf8(host).ok(),
        (HeaderField::Absent, authority) => authority,
        (HeaderField::One(host), Some(authority)) => {
            Some(authority).filter(|it| it.as_bytes().eq_ignore_ascii_case(host))
        }
        (HeaderField::Several, _) => None,
    };
    if !http.any_host && !host.is_some_and(|host| is_allowed_host(http, host)) {
        return Err(refuse(
            RefusalReason::ForbiddenHost,
            "This host is not allowed: allow it with `Http::host` or --allow-host",
        ));
    }
    Ok(host)
}

fn refuse(reason: RefusalReason, problem: &str) -> Box<HttpResponse> {
    Box::new(response::refuse_for(reason, 403, problem))
}

fn is_allowed_host(http: &Http, host: &str) -> bool {
    let name = name_of(host);
    let is = |allowed: &String| same(allowed, host) || same(allowed, name);
    is_loopback(name) || http.hosts.iter().any(is)
}

fn is_allowed_origin(http: &Http, own: Option<&str>, origin: &str) -> bool {
    let rest = origin.split_once("://").filter(|it| same(it.0, "http") || same(it.0, "https"));
    let is_own = |rest| own.is_some_and(|own| same(own, rest));
    rest.is_some_and(|(_, rest)| is_own(rest) || is_loopback(name_of(rest)))
        || http.origins.iter().any(|allowed| same(allowed, origin))
}

fn same(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

/// Returns the host without its port.
fn name_of(host: &str) -> &str {
    let name = host.trim_end_matches(|it: char| it.is_ascii_digit());
    name.strip_suffix(':').unwrap_or(host)
}

/// The common names of the loopback.
static USUAL_LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Returns true for names of the loopback that are not resolved with DNS.
fn is_loopback(name: &str) -> bool {
    if USUAL_LOOPBACK_NAMES.iter().any(|usual| same(usual, name)) {
        return true;
    }
    match name.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
        Some(bare) => bare.parse().is_ok_and(|ip: std::net::Ipv6Addr| ip.is_loopback()),
        None => name.parse().is_ok_and(|ip: std::net::Ipv4Addr| ip.is_loopback()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(http: &Http, host: Option<&str>, origin: Option<&str>) -> bool {
        let request = http::Request::get("/mcp").body(()).unwrap();
        let field = |it: Option<&'static [u8]>| it.map_or(HeaderField::Absent, HeaderField::One);
        let leak = |text: Option<&str>| text.map(|it| &*it.to_owned().leak()).map(str::as_bytes);
        let parsed = RequestHeaders {
            host: field(leak(host)),
            origin: field(leak(origin)),
            ..RequestHeaders::default()
        };
        check(http, &request.into_parts().0, &parsed).is_ok()
    }

    #[test]
    fn only_the_loopback_is_allowed_by_default() {
        let http = Http::new();
        for host in ["localhost", "LocalHost:8000", "127.0.0.1:1", "127.9.9.9", "[::1]:80", "[::1]"]
        {
            assert!(allowed(&http, Some(host), None), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
            ":80",
            "::1",
            "[::2]",
            "evil.example:80@localhost",
            "localhost:80:80",
            "localhost:x",
            "0.0.0.0",
        ] {
            assert!(!allowed(&http, Some(host), None), "{host}");
        }
        assert!(!allowed(&http, None, None));
    }

    #[test]
    fn origins_are_compared_whole() {
        let http = Http::new().host("mcp.example.com").origin("https://app.example.com/");
        let host = Some("mcp.example.com:8000");
        for origin in [
            "http://localhost:6274",
            "https://127.0.0.1",
            "http://[::1]:3000",
            "https://app.example.com",
            "https://mcp.example.com:8000",
            "HTTP://LOCALHOST",
        ] {
            assert!(allowed(&http, host, Some(origin)), "{origin}");
        }
        for origin in [
            "null",
            "",
            "http://app.example.com",
            "https://app.example.com.evil.example",
            "https://mcp.example.com",
            "file://localhost",
            "http://localhost.evil.example",
            "https://evil.example",
            "localhost",
            "http://localhost@evil.example",
        ] {
            assert!(!allowed(&http, host, Some(origin)), "{origin}");
        }
        // An unchecked host does not justify an origin.
        let http = Http::new().any_host();
        assert!(allowed(&http, Some("evil.example"), None));
        assert!(!allowed(&http, Some("evil.example"), Some("http://evil.example")));
    }
}
