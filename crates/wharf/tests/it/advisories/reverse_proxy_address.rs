//! Behind a reverse proxy, only trusted proxies can set the client address.
//!
//! The OAuth proxy behind a reverse proxy on loopback had no rate limits: every request seemed to come from loopback.

use bytes::Bytes;
use http::{Request, Response};
use serde_json::json;
use std::net::SocketAddr;
use wharf::{
    Principal,
    auth::{AuthDecision, AuthRequest, Authenticated, Authenticator},
    http::Http,
    model::{BoxFuture, RemoteAddress},
    prelude::*,
    server::{Limits, Rates},
    store::Rate,
};

use crate::advisories::{
    harness::Harness,
    http_client::{self, HttpClient},
};

/// Returns the client address of the call.
#[tool]
async fn address(remote: Extension<RemoteAddress>) -> String {
    remote.0.0.ip().to_string()
}

/// Authenticator that accepts every request; its page returns the client address.
struct Open;

impl Authenticator for Open {
    fn admit(&self, _: &AuthRequest<'_>) -> AuthDecision {
        AuthDecision::Now(Ok(Authenticated::new(Principal::new("somebody"))))
    }

    fn paths(&self) -> Vec<String> {
        vec!["/page".to_owned()]
    }

    fn page(&self, request: Request<Bytes>) -> BoxFuture<Response<Bytes>> {
        let address = request.extensions().get::<SocketAddr>().map(|it| it.ip().to_string());
        Box::pin(async move { Response::new(address.unwrap_or_default().into()) })
    }
}

/// Sends a call, or requests a page, with additional headers.
async fn send(
    caller: &HttpClient,
    tool: &str,
    headers: &[(&'static str, &str)],
) -> http::Response<hyper::body::Incoming> {
    let mut request = match tool {
        "/page" => {
            let mut request = caller.bare("GET");
            *request.uri_mut() = caller.url.replace("/mcp", "/page").parse().unwrap();
            request
        }
        "address" => caller.post(&caller.tool(tool, json!({}))),
        tool => caller.post(&caller.tool(tool, json!({"text": "x"}))),
    };
    for (name, value) in headers {
        request.headers_mut().append(*name, value.parse().unwrap());
    }
    caller.request(request).await
}

async fn located(harness: &Harness, tool: &str, headers: &[(&'static str, &str)]) -> String {
    let mut seen = Vec::new();
    let callers = [HttpClient::modern(harness), HttpClient::legacy(harness).await];
    for caller in callers {
        let response = send(&caller, tool, headers).await;
        assert_eq!(response.status(), 200, "{headers:?}");
        seen.push(match tool {
            "/page" => String::from_utf8(http_client::body(response).await.to_vec()).unwrap(),
            _ => http_client::text(&http_client::reply(response).await).to_owned(),
        });
    }
    seen.dedup();
    assert_eq!(seen.len(), 1, "both eras see the same: {seen:?}");
    seen.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_trusted_proxies_set_the_client_address() {
    const CLIENT: &str = "192.0.2.1";
    let open = |http: Http| Harness::tuned(|server| server.http(http).tool::<address>().auth(Open));
    let nobody = open(Http::new()).await;
    let others = open(Http::new().trusted_proxies(["10.0.0.0/8", "192.0.2.0/24"]).unwrap()).await;
    let ours = open(Http::new().trusted_proxies(["127.0.0.0/8", "::1"]).unwrap()).await;
    let forged = format!("6.6.6.6, {CLIENT}");
    let standard = format!("for=6.6.6.6, for={CLIENT};proto=https");
    for headers in [[("x-forwarded-for", &*forged)], [("forwarded", &*standard)]] {
        for tool in ["address", "/page"] {
            assert_eq!(located(&nobody, tool, &headers).await, "127.0.0.1");
            assert_eq!(located(&others, tool, &headers).await, "127.0.0.1");
            assert_eq!(located(&ours, tool, &headers).await, CLIENT);
        }
    }
    assert_eq!(located(&ours, "address", &[]).await, "127.0.0.1");
    // A header that the client adds itself has no effect.
    let both = [("forwarded", "for=6.6.6.6"), ("x-forwarded-for", CLIENT)];
    for tool in ["address", "/page"] {
        assert_eq!(send(&HttpClient::modern(&ours), tool, &both).await.status(), 400);
    }
    assert_eq!(located(&nobody, "address", &both).await, "127.0.0.1");
}

#[tokio::test(flavor = "multi_thread")]
async fn rates_count_the_client_and_not_the_proxy() {
    let few = Rate { per_second: 0.001, burst: 3.0 };
    let rates = Rates::default().calls(few).tool_calls(few);
    let http = Http::new().trusted_proxies(["127.0.0.1"]).unwrap();
    let harness =
        Harness::tuned(|server| server.http(http).limits(Limits::default().http_rates(rates)))
            .await;
    let caller = HttpClient::modern(&harness);
    for client in ["192.0.2.1", "192.0.2.2"] {
        for call in 0..5 {
            // Whatever other addresses the client claims.
            let chain = format!("203.0.113.{call}, {client}");
            let status = send(&caller, "echo", &[("x-forwarded-for", &chain)]).await.status();
            assert_eq!(status, if call < 3 { 200 } else { 429 }, "{chain}");
        }
    }
}
