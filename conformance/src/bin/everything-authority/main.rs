//! The authorization server that the official conformance suite is run against: the OAuth proxy, in front of a small
//! identity provider. `cargo xtask conformance` starts it, and runs it once more as the person who agrees:
//!
//! - `everything-authority` serves until it is killed, and says on stderr where.
//! - `everything-authority URL` opens the URL as a browser does, agrees, and goes wherever that leads.
#![forbid(unsafe_code)]

#[path = "../../../../crates/wharf/tests/oauth_proxy/pages.rs"]
#[allow(clippy::unwrap_used, dead_code, reason = "it is a test's, which fails by panicking")]
mod pages;
mod provider;

use std::env;

use http::HeaderMap;
use wharf::{
    Endpoint, Error, ErrorKind, Server,
    auth::{fetch::Fetch, proxy::OAuthProxy},
};

/// Who the suite says that it is. The proxy minds no port of a redirect URI on loopback.
const CLIENT: &str = "conformance-suite";
const REDIRECT: &str = "http://127.0.0.1/callback";

#[tokio::main]
async fn main() -> wharf::Result<()> {
    match env::args().nth(1) {
        Some(url) => agree(&url).await,
        None => serve().await,
    }
}

async fn serve() -> wharf::Result<()> {
    let provider = provider::start().await?;
    let listener = Endpoint::listen_http("127.0.0.1:0").await?;
    let public = format!("http://{}", listener.local_addr()?);
    let proxy = OAuthProxy::new(&public, provider).client(CLIENT, "Conformance", [REDIRECT]);
    let server = Server::new("everything-authority", env!("CARGO_PKG_VERSION")).auth(proxy);
    eprintln!("the OAuth proxy serves at {public}");
    server.build()?.serve_http_on(listener).await;
    Ok(())
}

/// Through consent, the provider and the callback, to where the client waits.
async fn agree(url: &str) -> wharf::Result<()> {
    let decided = pages::decide(url, "allow").await;
    let signed_in = Fetch::new().get(&decided.onward, HeaderMap::new()).await?;
    let nowhere = || {
        let problem = "the provider sends the browser nowhere";
        Error::new(ErrorKind::AuthorizationFailed).with_message(problem)
    };
    let back = signed_in.location().ok_or_else(nowhere)?;
    let client = pages::come_back(back, decided.cookies).await;
    Fetch::new().get(&client, HeaderMap::new()).await?;
    Ok(())
}
