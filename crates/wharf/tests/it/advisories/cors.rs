//! CORS: pages of other origins must not read replies unless their origin is allowed.

use std::collections::BTreeSet;

use http::{HeaderMap, Response, header};
use hyper::body::Incoming;
use serde_json::json;
use wharf::http::Http;

use crate::advisories::{
    harness::Harness,
    http_client::{HttpClient, LEGACY, SESSION},
};

const PAGE: &str = "https://app.example.com";

async fn preflight(caller: &HttpClient, origin: &str, headers: &str) -> Response<Incoming> {
    let mut request = caller.bare("OPTIONS");
    request.headers_mut().insert(header::ORIGIN, origin.parse().unwrap());
    request.headers_mut().insert(header::ACCESS_CONTROL_REQUEST_METHOD, "POST".parse().unwrap());
    let asked = header::ACCESS_CONTROL_REQUEST_HEADERS;
    request.headers_mut().insert(asked, headers.parse().unwrap());
    caller.request(request).await
}

async fn call(caller: &HttpClient, origin: &str) -> Response<Incoming> {
    let mut request = caller.post(&caller.tool("echo", json!({"text": "x"})));
    request.headers_mut().insert(header::ORIGIN, origin.parse().unwrap());
    caller.request(request).await
}

fn assert_no_cors_headers(headers: &HeaderMap) {
    let told: Vec<_> =
        headers.keys().filter(|it| it.as_str().starts_with("access-control")).collect();
    assert!(told.is_empty(), "{told:?}");
}

/// Names in a list of headers, in lower case as browsers compare them.
fn names(headers: &HeaderMap, list: header::HeaderName) -> BTreeSet<String> {
    let list = headers.get(list).map_or("", |it| it.to_str().unwrap());
    list.split(',').map(|name| name.trim().to_ascii_lowercase()).collect()
}

/// CVE-2026-34237: every page could read every reply.
#[tokio::test]
async fn cors_is_disabled_by_default() {
    let harness = Harness::start().await;
    for caller in HttpClient::both(&harness).await {
        for origin in ["http://localhost:3000", "http://127.0.0.1", PAGE, "null"] {
            assert_no_cors_headers(call(&caller, origin).await.headers());
            let asked = preflight(&caller, origin, "content-type").await;
            assert!(!asked.status().is_success(), "{origin}");
            assert_no_cors_headers(asked.headers());
        }
    }
}

#[tokio::test]
async fn cors_allows_only_the_configured_origin() {
    let harness = Harness::with(Http::new().cors([PAGE])).await;
    let wanted = "content-type, accept, authorization, last-event-id, mcp-session-id, \
                  mcp-protocol-version, mcp-method, mcp-name, mcp-param-region, Mcp-Param-Tenant-Id";
    for caller in HttpClient::both(&harness).await {
        let asked = preflight(&caller, PAGE, wanted).await;
        assert_eq!(asked.status(), 204);
        let headers = asked.headers();
        assert_eq!(headers[header::ACCESS_CONTROL_ALLOW_ORIGIN], PAGE);
        let allowed = names(headers, header::ACCESS_CONTROL_ALLOW_HEADERS);
        for name in wanted.split(", ") {
            assert!(allowed.contains(&name.to_ascii_lowercase()), "{name} not in {allowed:?}");
        }
        let verbs = names(headers, header::ACCESS_CONTROL_ALLOW_METHODS);
        assert!(
            verbs.is_superset(&["get", "post", "delete"].map(String::from).into()),
            "{verbs:?}"
        );
        // The reply depends on the origin, so caches must not serve it to others.
        assert!(names(headers, header::VARY).contains("origin"));

        let response = call(&caller, PAGE).await;
        assert_eq!(response.status(), 200);
        let headers = response.headers();
        assert_eq!(headers[header::ACCESS_CONTROL_ALLOW_ORIGIN], PAGE);
        let exposed = names(headers, header::ACCESS_CONTROL_EXPOSE_HEADERS);
        assert!(exposed.contains("mcp-session-id") && exposed.contains("www-authenticate"));
        assert!(names(headers, header::VARY).contains("origin"));

        for origin in [
            "https://evil.example",
            "http://app.example.com",
            "https://app.example.com:8443",
            "null",
        ] {
            for response in [call(&caller, origin).await, preflight(&caller, origin, wanted).await]
            {
                assert_eq!(response.status(), 403, "{origin}");
                assert_no_cors_headers(response.headers());
            }
        }
        // A page on this machine may send requests, but cannot read the replies.
        assert_no_cors_headers(call(&caller, "http://localhost:3000").await.headers());
    }
}

/// The CORS headers for errors and sessions are complete: a page can read what it needs.
#[tokio::test]
async fn cors_exposes_errors_and_the_session_id() {
    let harness = Harness::with(Http::new().cors([PAGE])).await;
    let fresh = HttpClient { revision: LEGACY, ..HttpClient::modern(&harness) };
    let mut opening = fresh.post(&fresh.initialize());
    opening.headers_mut().insert(header::ORIGIN, PAGE.parse().unwrap());
    let opened = fresh.request(opening).await;
    assert!(opened.headers().contains_key(SESSION));
    assert_eq!(opened.headers()[header::ACCESS_CONTROL_ALLOW_ORIGIN], PAGE);
    let mut refused = fresh.bare("DELETE");
    refused.headers_mut().insert(header::ORIGIN, PAGE.parse().unwrap());
    let refused = fresh.request(refused).await;
    assert_eq!(refused.status(), 400);
    assert_eq!(refused.headers()[header::ACCESS_CONTROL_ALLOW_ORIGIN], PAGE);
}

/// Preflight requests do not allow headers that MCP clients do not send.
#[tokio::test]
async fn a_preflight_allows_only_known_headers() {
    let harness = Harness::with(Http::new().cors([PAGE])).await;
    let caller = HttpClient::modern(&harness);
    let asked = preflight(&caller, PAGE, "cookie, x-forwarded-for, mcp-method").await;
    let allowed = names(asked.headers(), header::ACCESS_CONTROL_ALLOW_HEADERS);
    assert!(allowed.contains("mcp-method"));
    assert!(!allowed.contains("cookie") && !allowed.contains("x-forwarded-for"), "{allowed:?}");
    assert!(!asked.headers().contains_key(header::ACCESS_CONTROL_ALLOW_CREDENTIALS));
}
