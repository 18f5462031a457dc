//! Consent: bound to the browser (CSRF), and required for each client.

use std::time::Duration;

use http::{Method, header};
use serde_json::json;

use crate::proxy::browser_and_client::*;

#[tokio::test]
async fn unknown_clients_and_redirect_uris_are_not_redirected() {
    let (_idp, node) = setup().await;
    let client = node.client("Crane", REDIRECT).await;
    for asked in [
        authorize("nobody", &[]),
        authorize("", &[]),
        authorize(&client, &[("redirect_uri", "")]),
        authorize(&client, &[("redirect_uri", "https://app.example.com/cb/")]),
        authorize(&client, &[("redirect_uri", "https://app.example.com/cb/../evil")]),
        authorize(&client, &[("redirect_uri", "https://app.example.com/cb?x=1")]),
        authorize(&client, &[("redirect_uri", "https://app.example.com:8443/cb")]),
        authorize(&client, &[("redirect_uri", "https://app.example.com.evil.example/cb")]),
        authorize(&client, &[("redirect_uri", "https://app.example.com@evil.example/cb")]),
        authorize(&client, &[("redirect_uri", "https://app.example.com/%63b")]),
        authorize(&client, &[("redirect_uri", "https://app.example.com/cb#x")]),
        authorize(&client, &[("redirect_uri", "HTTPS://app.example.com/cb")]),
        authorize(&client, &[("redirect_uri", "http://app.example.com/cb")]),
        authorize(&client, &[("redirect_uri", "javascript:alert(1)")]),
        format!("{}&redirect_uri=https%3A%2F%2Fevil.example", authorize(&client, &[])),
        format!("{}&client_id=x", authorize(&client, &[])),
    ] {
        let page = node.get(&asked).await;
        assert_eq!(page.status, 400, "{asked}");
        assert!(page.is_dead_end(), "{asked}: {}", page.text);
    }
}

#[tokio::test]
async fn loopback_redirect_uris_may_differ_in_their_port() {
    let (_idp, node) = setup().await;
    let client = node.client("Crane", "http://127.0.0.1/cb").await;
    let at = |redirect| authorize(&client, &[("redirect_uri", redirect)]);
    let page = node.get(&at("http://127.0.0.1:33418/cb")).await;
    assert!(page.text.contains("on your own computer"), "{}", page.text);
    for other in
        ["http://127.0.0.1:1/cbx", "http://localhost:1/cb", "http://127.0.0.1:1@evil.example/cb"]
    {
        assert!(node.get(&at(other)).await.is_dead_end(), "{other}");
    }
}

#[tokio::test]
async fn invalid_requests_show_an_error_with_a_link() {
    let (_idp, node) = setup().await;
    let client = node.client("Crane", REDIRECT).await;
    for (changed, error) in [
        (("response_type", "token"), "unsupported_response_type"),
        (("response_type", ""), "unsupported_response_type"),
        (("code_challenge", ""), "invalid_request"),
        (("code_challenge", "short"), "invalid_request"),
        (("code_challenge_method", "plain"), "invalid_request"),
        (("code_challenge_method", ""), "invalid_request"),
        (("response_mode", "fragment"), "invalid_request"),
        (("resource", "https://other.example.com/mcp"), "invalid_target"),
        (("resource", "https://harbour.example.com"), "invalid_target"),
        (("scope", "admin"), "invalid_scope"),
        (("prompt", "none"), "consent_required"),
        (("request", "e30."), "request_not_supported"),
    ] {
        let page = node.get(&authorize(&client, &[changed])).await;
        assert_eq!(page.status, 400, "{changed:?}");
        assert!(!page.headers.contains_key(header::LOCATION), "no redirect");
        assert!(!page.text.contains("http-equiv") && !page.text.contains("<form"));
        let back = page.link();
        assert!(back.as_str().starts_with("https://app.example.com/cb?"), "{back}");
        assert_eq!(parameter(&back, "error").as_deref(), Some(error), "{changed:?}");
        assert_eq!(parameter(&back, "iss").as_deref(), Some(PUBLIC));
        assert_eq!(parameter(&back, "state").as_deref(), Some("client's state"));
    }
    // A client of 2025-03-26 sends no resource; some append a slash.
    for resource in ["", "https://harbour.example.com/mcp/"] {
        let page = node.get(&authorize(&client, &[("resource", resource)])).await;
        assert_eq!(page.status, 200, "{resource}");
    }
}

#[tokio::test]
async fn pages_have_security_headers() {
    let (_idp, node) = setup().await;
    let client = node.client("Crane", REDIRECT).await;
    for page in [node.get(&authorize(&client, &[])).await, node.get("/authorize").await] {
        assert_eq!(page.headers[header::X_FRAME_OPTIONS], "DENY");
        let policy = page.headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        for rule in [
            "default-src 'none'",
            "frame-ancestors 'none'",
            "form-action 'self'",
            "base-uri 'none'",
        ] {
            assert!(policy.contains(rule), "{policy}");
        }
        assert!(!policy.contains("unsafe"));
        assert_eq!(page.headers[header::CACHE_CONTROL], "no-store");
        assert_eq!(page.headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert!(!page.text.contains("<script"));
        // The policy allows exactly this style.
        let style = between(&page.text, "<style>", "</style>").unwrap();
        let hash = wharf_auth::jose::sha256(style.as_bytes());
        let hash = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, hash);
        assert!(policy.contains(&format!("'sha256-{hash}'")));
    }
    let page = node.get(&authorize(&client, &[])).await;
    let cookie = page.headers[header::SET_COOKIE].to_str().unwrap();
    assert!(cookie.starts_with("__Host-wharf-consent="), "{cookie}");
    for attribute in ["Path=/", "Secure", "HttpOnly", "SameSite=Lax", "Max-Age=600"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    assert!(!cookie.contains("Domain"));
}

#[tokio::test]
async fn loopback_cookies_are_not_secure() {
    let idp = wharf_testbed::fake_idp::Idp::start().await;
    let provider = wharf_auth::proxy::Provider::oidc(&idp.url, "id", "secret");
    let proxy = wharf_auth::proxy::OAuthProxy::new("http://127.0.0.1:8000", provider);
    let node = ProxyNode::new(proxy, &wharf_store::memory_stores());
    let client = node.client("Crane", REDIRECT).await;
    let resource = ("resource", "http://127.0.0.1:8000/mcp");
    let page = node.get(&authorize(&client, &[resource])).await;
    let cookie = page.headers[header::SET_COOKIE].to_str().unwrap();
    assert!(cookie.starts_with("wharf-consent=") && !cookie.contains("Secure"), "{cookie}");
    assert!(cookie.contains("SameSite=Lax") && cookie.contains("HttpOnly"));
}

#[tokio::test]
async fn client_names_are_sanitized() {
    let (_idp, node) = setup().await;
    for name in [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "' onmouseover='alert(1)",
        "</b></p><form action=https://evil.example><button>Allow</button>",
        "<!--",
        "&lt;script&gt;alert(1)",
        "{{7*7}}${7*7}",
        "javascript:alert(1)//",
        "\u{202e}gnp.exe",
        "zero\u{200b}width\u{feff}",
        "line\r\nbreak\u{2028}",
        "<svg/onload=alert(1)>",
    ] {
        let client = node.client(name, REDIRECT).await;
        let page = node.get(&authorize(&client, &[])).await;
        let shown = between(&page.text, "calls itself <b>", "</b>").unwrap();
        assert!(!shown.contains(['<', '>', '"', '\'', '\r', '\n']), "{shown}");
        assert!(!shown.contains(['\u{202e}', '\u{200b}', '\u{feff}', '\u{2028}']), "{shown}");
        assert_eq!(page.text.matches("<form").count(), 1, "{name}");
        assert_eq!(page.text.matches("<script").count() + page.text.matches("<img").count(), 0);
    }
    let long = node.client(&"x".repeat(200), REDIRECT).await;
    let page = node.get(&authorize(&long, &[])).await;
    assert!(between(&page.text, "calls itself <b>", "</b>").unwrap().len() < 100);
}

#[tokio::test]
async fn consent_is_bound_to_the_browser_and_valid_once() {
    let (_idp, node) = setup().await;
    let client = node.client("Crane", REDIRECT).await;
    let (mut victim, mut attacker) = (Browser::default(), Browser::default());
    let shown = victim.get(&node, &authorize(&client, &[])).await;
    let foreign = attacker.get(&node, &authorize(&client, &[])).await;

    // An attacker's form, submitted by the victim's browser.
    let refused = victim.post(&node, foreign.ticket(), "allow", PUBLIC).await;
    assert!(refused.status == 403 && refused.is_dead_end(), "{}", refused.text);
    // The victim's ticket without the victim's cookie, and from another origin.
    let refused = Browser::default().post(&node, shown.ticket(), "allow", PUBLIC).await;
    assert!(refused.status == 403 && refused.is_dead_end());
    for origin in [
        "https://evil.example",
        "null",
        "https://harbour.example.com.evil.example",
        "http://harbour.example.com",
    ] {
        let refused = victim.post(&node, shown.ticket(), "allow", origin).await;
        assert!(refused.status == 403 && refused.is_dead_end(), "{origin}");
    }
    // A modified or invalid ticket.
    let mut changed = shown.ticket().to_owned();
    changed.replace_range(20..21, if &changed[20..21] == "A" { "B" } else { "A" });
    for ticket in [&*changed, "", "x"] {
        assert_eq!(victim.post(&node, ticket, "allow", PUBLIC).await.status, 403);
    }
    // GET does not submit.
    let query = form(&[("ticket", shown.ticket()), ("decision", "allow")]);
    assert_eq!(victim.get(&node, &format!("/consent?{query}")).await.status, 405);

    assert_eq!(victim.answer(&node, &shown, "allow").await.status, 200);
    assert_eq!(victim.answer(&node, &shown, "allow").await.status, 403, "once");
}

#[tokio::test]
async fn a_denied_consent_returns_to_the_client() {
    let (_idp, node) = setup().await;
    let client = node.client("Crane", REDIRECT).await;
    for decision in ["deny", "", "ALLOW"] {
        let mut browser = Browser::default();
        let page = browser.get(&node, &authorize(&client, &[])).await;
        let page = browser.answer(&node, &page, decision).await;
        assert!(page.link().as_str().starts_with(REDIRECT));
        assert_eq!(parameter(&page.link(), "error").unwrap(), "access_denied");
        assert_eq!(parameter(&page.link(), "iss").unwrap(), PUBLIC);
        assert!(browser.cookies.keys().all(|name| !name.contains("signin")));
    }
}

/// CVE-2026-27124: an attacker consents, and lets the victim sign in.
#[tokio::test]
async fn another_browser_cannot_finish_the_sign_in() {
    let (idp, node) = setup().await;
    let evil = node.client("Crane", "https://evil.example/cb").await;
    let mut attacker = Browser::default();
    let asked = authorize(&evil, &[("redirect_uri", "https://evil.example/cb")]);
    let page = attacker.get(&node, &asked).await;
    let signing_in = attacker.answer(&node, &page, "allow").await.link();
    // The victim follows the link; the provider has a session and does not prompt.
    let back = idp.sign_in(&signing_in, "victim");
    let mut victim = Browser::default();
    // Even with a consent page of the victim's own.
    victim.get(&node, &authorize(&evil, &[("redirect_uri", "https://evil.example/cb")])).await;
    let page = victim.get(&node, &target(&back)).await;
    assert!(page.status == 400 && page.is_dead_end(), "{}", page.text);
    assert!(idp.asked().is_empty(), "the provider's code was not even redeemed");
    // The attacker's consent cookie, which is older than the consent, does not help either.
    let mut planted = Browser::default();
    let consent = "__Host-wharf-consent";
    planted.cookies.insert(consent.into(), attacker.cookies[consent].clone());
    assert!(planted.get(&node, &target(&back)).await.is_dead_end());
    // The sign-in is still valid in its own browser.
    assert_eq!(attacker.get(&node, &target(&back)).await.status, 303);
}

#[tokio::test]
async fn there_is_no_state_before_the_consent() {
    let (idp, node) = setup().await;
    let client = node.client("Crane", REDIRECT).await;
    let mut browser = Browser::default();
    let page = browser.get(&node, &authorize(&client, &[])).await;
    assert!(browser.cookies.keys().all(|name| !name.contains("signin")));
    // The attacker sends the browser to the callback directly, with a forged state.
    for state in ["made-up", page.ticket(), "client's state"] {
        let query = form(&[("code", "stolen"), ("state", state)]);
        let page = browser.get(&node, &format!("/callback?{query}")).await;
        assert!(page.status == 400 && page.is_dead_end(), "{state}");
    }
    assert!(browser.get(&node, "/callback?code=stolen").await.is_dead_end());
    assert!(idp.asked().is_empty());
}

#[tokio::test]
async fn a_state_is_valid_once() {
    let (idp, node) = setup().await;
    let client = node.client("Crane", REDIRECT).await;
    let mut browser = Browser::default();
    let page = browser.get(&node, &authorize(&client, &[])).await;
    let signing_in = browser.answer(&node, &page, "allow").await.link();
    let mut again = browser.clone();
    let back = idp.sign_in(&signing_in, "alice");
    assert_eq!(browser.get(&node, &target(&back)).await.status, 303);
    assert!(browser.cookies.keys().all(|name| !name.contains("signin")), "the cookie is cleared");
    // With the cookie, as if the browser had kept it, and another code.
    let other = idp.sign_in(&signing_in, "mallory");
    assert!(again.get(&node, &target(&back)).await.is_dead_end());
    assert!(again.get(&node, &target(&other)).await.is_dead_end());
    assert_eq!(idp.asked().len(), 1);
}

#[tokio::test]
async fn several_sign_ins_go_on_at_once_in_one_browser() {
    let (idp, node) = setup().await;
    let client = node.client("Crane", REDIRECT).await;
    let mut browser = Browser::default();
    let one = browser.get(&node, &authorize(&client, &[])).await;
    let two = browser.get(&node, &authorize(&client, &[])).await;
    let one = browser.answer(&node, &one, "allow").await.link();
    let two = browser.answer(&node, &two, "allow").await.link();
    for link in [one, two] {
        let back = idp.sign_in(&link, "alice");
        assert!(browser.get(&node, &target(&back)).await.parameter("code").is_some());
    }
}

#[tokio::test]
async fn expired_pages_and_sign_ins_are_rejected() {
    let (idp, node) = setup().await;
    let client = node.client("Crane", REDIRECT).await;
    let mut browser = Browser::default();
    let old = browser.get(&node, &authorize(&client, &[])).await;
    let page = browser.get(&node, &authorize(&client, &[])).await;
    let signing_in = browser.answer(&node, &page, "allow").await.link();
    let back = idp.sign_in(&signing_in, "alice");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(601)).await;
    assert_eq!(browser.answer(&node, &old, "allow").await.status, 403);
    assert!(browser.get(&node, &target(&back)).await.is_dead_end());
    assert!(idp.asked().is_empty());
    // An unused client is removed after a day.
    tokio::time::advance(Duration::from_secs(24 * 3600)).await;
    assert!(node.get(&authorize(&client, &[])).await.is_dead_end());
}

#[tokio::test]
async fn a_consent_must_be_a_form() {
    let (_idp, node) = setup().await;
    let client = node.client("Crane", REDIRECT).await;
    let mut browser = Browser::default();
    let page = browser.get(&node, &authorize(&client, &[])).await;
    let cookie = &browser.cookies["__Host-wharf-consent"];
    let cookie = format!("__Host-wharf-consent={cookie}");
    let body = json!({"ticket": page.ticket(), "decision": "allow"}).to_string();
    for kind in ["application/json", "text/plain"] {
        let headers = [("content-type", kind), ("cookie", &*cookie)];
        assert_eq!(node.send(Method::POST, "/consent", &headers, body.clone()).await.status, 403);
    }
    // Two cookies with one name: the second may be planted.
    let twice = format!("{cookie}; __Host-wharf-consent={}", "A".repeat(43));
    let fields = [("ticket", page.ticket()), ("decision", "allow")];
    assert_eq!(node.post("/consent", &[("cookie", &twice)], &fields).await.status, 403);
    assert_eq!(node.post("/consent", &[("cookie", &cookie)], &fields).await.status, 200);
}
