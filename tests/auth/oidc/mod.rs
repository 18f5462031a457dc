//! Wharf's server and client with a certified authorization server, npm `oidc-provider`, which issues all tokens and
//! publishes all keys.

mod code;
mod dpop;
mod grants;
mod introspection;
mod keys;
pub(crate) mod oauth_proxy;
#[path = "../../../crates/wharf/tests/it/oauth_proxy/pages.rs"]
mod pages;
mod principal;
mod rejected;

use std::time::Duration;

use wharf_auth::server::Jwt;

use crate::support::authorization::AuthorizationServer;
use crate::support::protected::{BoundAddress, Protected};

/// Authorization server, and a Wharf server that accepts its tokens.
async fn start() -> (AuthorizationServer, Protected) {
    start_with(|authority| authority).await
}

/// Authorization server, and a Wharf server with this authenticator.
async fn start_with(change: impl FnOnce(Jwt) -> Jwt) -> (AuthorizationServer, Protected) {
    let issuer = AuthorizationServer::start().await;
    let address = BoundAddress::take().await;
    // All processes run on one machine, so there is no clock skew.
    let authority = Jwt::issuer(&issuer.issuer).audience(&address.resource).skew(Duration::ZERO);
    let server = address.serve(change(authority));
    (issuer, server)
}

/// Wait after which a token with a lifetime of two seconds has expired.
const PAST_EXPIRY: Duration = Duration::from_millis(3100);

/// Defines tests with a timeout.
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
