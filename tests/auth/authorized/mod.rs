//! Authorization between Wharf and other SDKs: their clients, with their own OAuth code, at a protected Wharf server, and
//! Wharf's client at theirs. Tokens come from npm `oidc-provider`; the scripts are in `tests/foreign`.

mod servers;

use std::process::Stdio;

use wharf::auth::Authenticator;
use wharf_auth::server::Jwt;

use crate::support::LIMIT;
use crate::support::authorization::AuthorizationServer;
use crate::support::program;
use crate::support::protected::BoundAddress;

/// Defines one test per client and era: with tokens of the authorization server, and behind the OAuth proxy.
macro_rules! clients {
    ($($test:ident: $script:literal $era:literal;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                drive($script, $era).await;
            }
        )*
        mod proxied {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    super::drive_proxied($script, $era).await;
                }
            )*
        }
    };
}

clients! {
    typescript1_legacy: "authorized1.mjs" "--legacy";
    typescript2_legacy: "authorized2.mjs" "--legacy";
    typescript2_modern: "authorized2.mjs" "--modern";
    python_legacy: "authorized.py" "--legacy";
    python_modern: "authorized.py" "--modern";
}

async fn drive(script: &str, era: &str) {
    let issuer = AuthorizationServer::start().await;
    let address = BoundAddress::take().await;
    // The first challenge names one scope; the second scope requires another authorization.
    let authority = Jwt::issuer(&issuer.issuer).audience(&address.resource).scope("files:read");
    drive_at(&issuer, address, authority, [script, era], false).await;
}

async fn drive_proxied(script: &str, era: &str) {
    let issuer = AuthorizationServer::start().await;
    let address = BoundAddress::take().await;
    let proxy = crate::oidc::oauth_proxy::proxy(&issuer, &address).await;
    drive_at(&issuer, address, proxy, [script, era], true).await;
}

async fn drive_at(
    issuer: &AuthorizationServer,
    address: BoundAddress,
    authority: impl Authenticator,
    [script, era]: [&str; 2],
    bearer_only: bool,
) {
    let server = address.serve(authority);
    let mut command = program::command(script);
    command.envs(bearer_only.then_some(("AUTH_BEARER_ONLY", "1")));
    command.args([era, &server.resource]).env("AUTH_CONTROL", &issuer.control);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let ended = tokio::time::timeout(LIMIT, command.output()).await;
    let output = ended.expect("it ends in time").unwrap();
    let tool_text =
        [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    if output.status.success() {
        return;
    }
    for seen in issuer.seen().await {
        eprintln!("{seen:?}");
    }
    panic!("{script} {era} ended with {} and said:\n{}", output.status, tool_text.concat());
}
