//! Wharf's server and client with a real authorization server, npm `oidc-provider`: every token here is one that it
//! issued, every key one that it published.

mod code;
mod dpop;
mod grants;
mod introspection;
mod keys;
pub(crate) mod oauth_proxy;
#[path = "../../../crates/wharf/tests/oauth_proxy/pages.rs"]
mod pages;
mod principal;
mod rejected;

use std::time::Duration;

use wharf_auth::server::Jwt;

use crate::support::authorization::AuthorizationServer;
use crate::support::protected::{Place, Protected};

/// An authorization server, and a server of ours that takes its tokens.
async fn start() -> (AuthorizationServer, Protected) {
    start_with(|authority| authority).await
}

/// The same, with somebody else at the door.
async fn start_with(change: impl FnOnce(Jwt) -> Jwt) -> (AuthorizationServer, Protected) {
    let issuer = AuthorizationServer::start().await;
    let place = Place::take().await;
    // The clocks of one machine do not differ.
    let authority = Jwt::issuer(&issuer.issuer).audience(&place.resource).skew(Duration::ZERO);
    let server = place.serve(change(authority));
    (issuer, server)
}

/// Longer than a token lives that lives for two seconds.
const PAST_EXPIRY: Duration = Duration::from_millis(3100);

/// Tests that end in time.
macro_rules! tests {
    ($($test:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                let test = super::$test();
                tokio::time::timeout($crate::support::LIMIT, test).await.expect("it ends in time");
            }
        )*
    };
}
pub(crate) use tests;
