//! Authorization server for the official conformance suite: the OAuth proxy in front of a small identity provider.
//! `cargo xtask conformance` starts it, and runs it again as the consenting user:
//!
//! - `everything-authority` serves until it is killed, and prints its URL on stderr.
//! - `everything-authority URL` opens the URL like a browser, consents, and follows the redirects.
#![forbid(unsafe_code)]

#[path = "../../../../crates/wharf/tests/it/oauth_proxy/pages.rs"]
#[allow(clippy::unwrap_used, dead_code, reason = "it is a test's, which fails by panicking")]
mod pages;
mod provider;

use std::env;

use http::HeaderMap;
use wharf::{
    Endpoint, Error, ErrorKind, Server,
    auth::{fetch::Fetch, proxy::OAuthProxy},
};

/// Client id and redirect URI of the suite. The proxy ignores the port of a loopback redirect URI.
const CLIENT_ID: &str = "conformance-suite";
const REDIRECT_URI: &str = "http://127.0.0.1/callback";

#[tokio::main]
async fn main() -> wharf::Result<()> {
    match env::args().nth(1) {
        Some(url) => approve(&url).await,
        None => serve().await,
    }
}

async fn serve() -> wharf::Result<()> {
    let provider = provider::start().await?;
    let listener = Endpoint::listen_http("127.0.0.1:0").await?;
    let public = format!("http://{}", listener.local_addr()?);
    let proxy = OAuthProxy::new(&public, provider).client(CLIENT_ID, "Conformance", [REDIRECT_URI]);
    let server = Server::new("everything-authority", env!("CARGO_PKG_VERSION")).auth(proxy);
    eprintln!("the OAuth proxy serves at {public}");
    server.build()?.serve_http_on(listener).await;
    Ok(())
}

/// Follows the redirects: consent page, identity provider, callback of the proxy, redirect URI of the client.
async fn approve(url: &str) -> wharf::Result<()> {
    let decision = pages::decide(url, "allow").await;
    let signed_in = Fetch::new().get(&decision.onward, HeaderMap::new()).await?;
    let nowhere = || {
        let problem = "the provider's response has no Location header";
        Error::new(ErrorKind::AuthorizationFailed).with_message(problem)
    };
    let back = signed_in.location().ok_or_else(nowhere)?;
    let client = pages::come_back(back, decision.cookies).await;
    Fetch::new().get(&client, HeaderMap::new()).await?;
    Ok(())
}
