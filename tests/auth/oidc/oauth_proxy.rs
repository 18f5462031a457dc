//! OAuth proxy in front of the authorization server, which acts as an identity provider with one client.

use std::sync::Arc;

use http::{HeaderMap, Method, header};
use serde::Deserialize;
use serde_json::json;
use wharf::{Client, args};
use wharf::{
    Error,
    auth::{AuthRequest, Authenticator},
    model::{BoxFuture, RequestExtensions},
};
use wharf_auth::client::{
    Auth, AuthorizationRequest, MemoryTokenStore, RedirectParams, TokenStore, UserAgent,
    UserAgentSession,
};
use wharf_auth::proxy::{OAuthProxy, Provider, Upstream};

use super::pages;
use crate::support::authorization::{AuthorizationServer, control};
use crate::support::protected::{BoundAddress, Protected};

mod tests {
    crate::oidc::tests! {
        a_client_unknown_to_the_provider_is_authorized keys_of_the_provider_may_change
        tokens_of_the_provider_are_renewed a_denial_at_the_provider_rejects_the_login
    }
}

/// Server behind the proxy, and the proxy.
async fn start(issuer: &AuthorizationServer) -> (Protected, Arc<OAuthProxy>) {
    let address = BoundAddress::take().await;
    let proxy = Arc::new(proxy(issuer, &address).await);
    (address.serve(proxy.clone()), proxy)
}

/// Proxy for a server at this address, registered at the authorization server.
pub(crate) async fn proxy(issuer: &AuthorizationServer, address: &BoundAddress) -> OAuthProxy {
    let public = address.resource.trim_end_matches("/mcp").to_owned();
    issuer
        .register_client(json!({
            "client_id": "harbour",
            "client_secret": "the harbour's secret",
            "redirect_uris": [format!("{public}/callback")],
            "application_type": "web",
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
        }))
        .await;
    let provider = Provider::oidc(&issuer.issuer, "harbour", "the harbour's secret");
    let proxy = OAuthProxy::new(public, provider.scopes(["openid"]));
    proxy.scopes(["files:read", "files:write"]).first_scopes(["files:read"])
}

async fn connect(server: &Protected, auth: Auth) -> Result<Client, String> {
    let client = Client::builder().name("tug", "1.0.0").auth(auth);
    client.connect(server.resource.as_str()).await.map_err(|error| error.to_string())
}

async fn a_client_unknown_to_the_provider_is_authorized() {
    let issuer = AuthorizationServer::start().await;
    let (server, _) = start(&issuer).await;
    let client = connect(&server, Auth::code(TestUser::at(&issuer))).await.unwrap();
    let who: String = client.call_as("whoami", args! {}).await.unwrap();
    assert_eq!(who, "ada: files:read");
    let wrote: String = client.call_as("write_file", args! { name: "log" }).await.unwrap();
    assert_eq!(wrote, "log, as ada wrote it");
    let seen = issuer.seen().await;
    assert!(
        seen.iter().all(|it| it.path != "/reg"),
        "a_call_without_a_token_is_rejected registers there"
    );
    for exchange in seen.iter().filter(|it| it.path == "/token") {
        assert_eq!((exchange.status, exchange.authorization.as_deref()), (200, Some("Basic")));
        assert!(exchange.params["code_verifier"].as_str().is_some_and(|it| it.len() >= 43));
    }
}

async fn keys_of_the_provider_may_change() {
    let issuer = AuthorizationServer::start().await;
    let (server, _) = start(&issuer).await;
    connect(&server, Auth::code(TestUser::at(&issuer))).await.unwrap();
    issuer.rotate_keys(false).await;
    connect(&server, Auth::code(TestUser::at(&issuer))).await.unwrap();
}

async fn tokens_of_the_provider_are_renewed() {
    let issuer = AuthorizationServer::start().await;
    // A token that expires so soon is refreshed before each use.
    issuer.set(json!({"ttl": 2, "format": "opaque"})).await;
    let (server, proxy) = start(&issuer).await;
    let vault = MemoryTokenStore::default();
    connect(&server, Auth::code(TestUser::at(&issuer)).token_store(vault.clone())).await.unwrap();
    let [key] = &vault.list().await.unwrap()[..] else { panic!("one login") };
    let token = vault.load(key).await.unwrap().unwrap().tokens.unwrap().access;

    let mut seen = Vec::new();
    for _ in 0..3 {
        let value = format!("Bearer {token}").parse().unwrap();
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value)]);
        let (uri, scope) = ("/mcp".parse().unwrap(), RequestExtensions::new());
        let knock = AuthRequest::new(&Method::POST, &uri, &headers, &scope);
        let pass = proxy.admit(&knock).resolve().await.unwrap();
        let user = pass.extensions.get::<Upstream>().unwrap().clone();
        assert_eq!(user.identity().subject, "ada");
        seen.push(user.token().await.unwrap().secret().to_owned());
    }
    seen.dedup();
    assert_eq!(seen.len(), 3, "each is another");
    let renewed = issuer.seen_at_token().await;
    let renewed = renewed.iter().filter(|it| it.params["grant_type"] == "refresh_token");
    assert!(renewed.clone().all(|it| it.status == 200) && renewed.count() == 3);
}

async fn a_denial_at_the_provider_rejects_the_login() {
    let issuer = AuthorizationServer::start().await;
    issuer.set(json!({"deny": true})).await;
    let (server, _) = start(&issuer).await;
    let error = connect(&server, Auth::code(TestUser::at(&issuer))).await.err().unwrap();
    assert!(error.contains("access_denied") && !error.contains("Ada said no"), "{error}");
}

/// User agent that accepts the consent page and signs in at the provider.
#[derive(Clone)]
struct TestUser {
    control: String,
}

impl TestUser {
    fn at(issuer: &AuthorizationServer) -> Self {
        TestUser { control: issuer.control.clone() }
    }
}

impl UserAgent for TestUser {
    fn prepare(&self, _: Option<&str>) -> BoxFuture<Result<Box<dyn UserAgentSession>, Error>> {
        let visitor: Box<dyn UserAgentSession> = Box::new(self.clone());
        Box::pin(async { Ok(visitor) })
    }
}

impl UserAgentSession for TestUser {
    fn redirect_uri(&self) -> &str {
        "http://127.0.0.1:7/callback"
    }

    fn visit(
        self: Box<Self>,
        to: AuthorizationRequest,
    ) -> BoxFuture<Result<RedirectParams, Error>> {
        Box::pin(async move {
            let decided = pages::decide(to.url.as_str(), "allow").await;
            assert!(decided.page.contains("127.0.0.1"), "{}", decided.page);
            let onward = json!({"url": decided.onward});
            let RedirectTarget { location } = control(&self.control, "/visit", onward).await;
            Ok(RedirectParams::from_url(&pages::come_back(&location, decided.cookies).await))
        })
    }
}

#[derive(Deserialize)]
struct RedirectTarget {
    location: String,
}
