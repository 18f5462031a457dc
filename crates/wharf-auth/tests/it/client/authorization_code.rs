//! Authorization code grant.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use tokio::sync::Notify;
use wharf_auth::{
    client::{
        Auth, AuthorizationRequest, Login, RedirectParams, TokenStore, UserAgent, UserAgentSession,
    },
    jose::{b64, sha256},
};
use wharf_model::{BoxFuture, Error};

use crate::client::fake_servers::{
    PRM, TestSetup, TestUser, at, auth_failure, error_response, json_response, metadata,
    no_override,
};

#[tokio::test]
async fn the_user_authorizes_and_the_code_is_redeemed() {
    let setup = TestSetup::default_setup().await;
    let client = setup.client();
    assert_eq!(client.authorization().await, None);
    assert_eq!(client.rejected("Bearer").await, Ok(true));
    assert_eq!(client.authorization().await.as_deref(), Some("Bearer access-1"));

    assert_eq!(setup.mcp.paths(), [PRM]);
    let expected = ["/.well-known/oauth-authorization-server", "/register", "/token"];
    assert_eq!(setup.issuer.paths(), expected);
    let question = setup.user.query(0);
    let token = setup.issuer.at("/token")[0].clone();
    assert_eq!(question["tenant"], "1");
    assert_eq!(question["response_type"], "code");
    assert_eq!(question["client_id"], "registered");
    assert_eq!(question["code_challenge_method"], "S256");
    assert_eq!(question["code_challenge"], b64(sha256(token.field("code_verifier").as_bytes())));
    assert!(token.field("code_verifier").len() >= 43);
    assert_eq!(question["redirect_uri"], token.field("redirect_uri"));
    assert_eq!(question["resource"], setup.url());
    assert_eq!(token.field("resource"), setup.url());
    assert_eq!(token.field("grant_type"), "authorization_code");
    assert_eq!(token.field("code"), "the-code");
    assert_eq!(token.field("client_id"), "registered");
    assert!(!question.contains_key("scope"));
    let registration: serde_json::Value =
        serde_json::from_str(&setup.issuer.at("/register")[0].body).unwrap();
    assert_eq!(registration["application_type"], "native");
    assert_eq!(registration["token_endpoint_auth_method"], "none");
    assert_eq!(registration["grant_types"], json!(["authorization_code", "refresh_token"]));
}

#[tokio::test]
async fn a_login_is_stored_and_reused() {
    let setup = TestSetup::default_setup().await;
    assert_eq!(setup.client().rejected("Bearer").await, Ok(true));
    // A new process uses the stored login.
    let later = setup.client();
    assert_eq!(later.authorization().await.as_deref(), Some("Bearer access-1"));
    assert_eq!(setup.user.authorizations().len(), 1);
    let keys = setup.token_store.list().await.unwrap();
    let login: Login = setup.token_store.load(&keys[0]).await.unwrap().unwrap();
    let shown = format!("{login:?} {:?} {:?}", setup.token_store, setup.user.authorizations());
    for secret in ["access-1", "refresh-1", "the-code", &setup.user.authorizations()[0].state] {
        assert!(!shown.contains(secret), "{shown}");
    }
    // A login survives serialization.
    let text = serde_json::to_string(&login).unwrap();
    assert_eq!(serde_json::from_str::<Login>(&text).unwrap(), login);
}

#[tokio::test]
async fn a_registration_is_for_one_redirect_uri() {
    let setup = TestSetup::default_setup().await;
    for (uri, registered) in [("http://127.0.0.1:1/", 1), ("http://127.0.0.1:1/", 1), ("x:/", 2)] {
        setup.user.set_redirect_uri(uri);
        setup.auth().login(&setup.url()).await.unwrap();
        assert_eq!(setup.issuer.at("/register").len(), registered, "{uri}");
    }
}

#[tokio::test]
async fn client_ids_are_selected_in_order() {
    let takes_documents = |origin: &str| {
        let mut document = metadata(origin);
        document["client_id_metadata_document_supported"] = true.into();
        document
    };
    let document = "https://tug.example/client.json";
    for (knows_us, takes, client_id) in
        [(true, true, "known"), (false, true, document), (false, false, "registered")]
    {
        let overridden = at("/.well-known/oauth-authorization-server", move |asked| {
            let origin = format!("http://{}", asked.header("host").unwrap_or_default());
            json_response(if takes { takes_documents(&origin) } else { metadata(&origin) })
        });
        let setup = TestSetup::with(no_override(), overridden, TestUser::consenting()).await;
        let auth = setup.auth().client_document(document);
        let auth = if knows_us { auth.client("known") } else { auth };
        setup.client_with(auth.clone()).rejected("Bearer").await.unwrap();
        assert_eq!(setup.user.query(0)["client_id"], client_id);
        assert_eq!(setup.issuer.at("/register").len(), usize::from(client_id == "registered"));
        // The refresh uses the same client.
        assert_eq!(setup.client_with(auth).rejected("Bearer").await, Ok(true));
        let token = setup.issuer.at("/token")[1].clone();
        assert_eq!(token.field("grant_type"), "refresh_token");
        assert_eq!(token.field("client_id"), client_id);
    }
}

#[tokio::test]
async fn missing_or_failed_registration_is_reported() {
    let overridden = at("/.well-known/oauth-authorization-server", |asked| {
        let mut document = metadata(&format!("http://{}", asked.header("host").unwrap()));
        document["registration_endpoint"] = serde_json::Value::Null;
        json_response(document)
    });
    let setup = TestSetup::with(no_override(), overridden, TestUser::consenting()).await;
    let error = setup.client().rejected("Bearer").await.unwrap_err();
    assert!(error.message.contains("client id"), "{error}");
    let refuses = at("/register", |_| error_response(400, "invalid_redirect_uri"));
    let setup = TestSetup::with(no_override(), refuses, TestUser::consenting()).await;
    let error = setup.client().rejected("Bearer").await.unwrap_err();
    assert!(error.message.contains("invalid_redirect_uri"), "{error}");
    assert_eq!(setup.user.authorizations().len(), 0);
}

#[tokio::test]
async fn no_prompt_without_a_waiting_caller() {
    let setup = TestSetup::default_setup().await;
    let client = setup.client();
    let mut auth_failure = auth_failure(401, "Bearer", 0, 0);
    auth_failure.waited = false;
    assert_eq!(client.credentials.on_auth_failure(auth_failure.clone()).await, Ok(false));
    assert!(setup.user.authorizations().is_empty() && setup.issuer.at("/register").is_empty());
    // A refresh needs no user, so it happens all the same.
    setup.auth().login(&setup.url()).await.unwrap();
    let client = setup.client();
    auth_failure.mark = client.attached().await.1;
    assert_eq!(client.credentials.on_auth_failure(auth_failure).await, Ok(true));
    assert_eq!(client.authorization().await.as_deref(), Some("Bearer access-2"));
    assert_eq!(setup.user.authorizations().len(), 1);
}

#[tokio::test]
async fn concurrent_rejections_share_one_authorization() {
    let setup = TestSetup::default_setup().await;
    let client = setup.client();
    let attempts = (0..20).map(|_| {
        let client = client.clone();
        tokio::spawn(async move {
            let auth_failure = auth_failure(401, "Bearer", 0, 0);
            client.credentials.on_auth_failure(auth_failure).await
        })
    });
    for request in attempts.collect::<Vec<_>>() {
        assert_eq!(request.await.unwrap(), Ok(true));
    }
    assert_eq!((setup.user.authorizations().len(), setup.issuer.at("/token").len()), (1, 1));
}

#[tokio::test]
async fn concurrent_rejections_share_a_failure() {
    let user =
        TestUser::responding_with(|to| Ok(format!("error=access_denied&state={}", to.state)));
    let setup = TestSetup::with(no_override(), no_override(), user).await;
    let client = setup.client();
    let attempts: Vec<_> = (0..20)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                let auth_failure = auth_failure(401, "Bearer", 0, 0);
                client.credentials.on_auth_failure(auth_failure).await
            })
        })
        .collect();
    for request in attempts {
        assert!(request.await.unwrap().unwrap_err().kind.is_access_denied());
    }
    assert_eq!(setup.user.authorizations().len(), 1);
}

#[tokio::test]
async fn scopes_follow_the_challenge_and_metadata() {
    for (challenge, scopes, expected) in [
        ("Bearer scope=\"a b\"", true, Some("a b")),
        ("Bearer", true, Some("x y")),
        ("Bearer", false, None),
    ] {
        let more = if scopes { json!({"scopes_supported": ["x", "y"]}) } else { json!({}) };
        let setup =
            TestSetup::with_metadata(more, no_override(), no_override(), TestUser::consenting())
                .await;
        setup.client().rejected(challenge).await.unwrap();
        let asked = setup.user.query(0).get("scope").cloned();
        assert_eq!(asked.as_deref(), expected, "{challenge}");
    }
}

#[tokio::test]
async fn step_up_authorization_requests_more_scopes() {
    let setup = TestSetup::default_setup().await;
    let client = setup.client();
    client.rejected("Bearer scope=\"read\"").await.unwrap();
    client.accepted().await;
    let more = "Bearer error=\"insufficient_scope\", scope=\"write\"";
    assert_eq!(client.rejected_with(403, more, 0).await, Ok(true));
    assert_eq!(setup.user.query(1)["scope"], "read write");
    // The scope was already requested without effect: no further prompt.
    assert_eq!(client.rejected_with(403, more, 1).await, Ok(false));
    client.accepted().await;
    assert_eq!(client.rejected_with(403, more, 0).await, Ok(false));
    // Other 403 responses are not retried.
    assert_eq!(client.rejected_with(403, "Bearer error=\"nope\"", 0).await, Ok(false));
    assert_eq!(client.rejected_with(403, "", 0).await, Ok(false));
    assert_eq!(setup.user.authorizations().len(), 2);
}

/// A user agent that never returns.
#[derive(Clone, Default)]
struct LostUserAgent(Arc<Notify>);

impl UserAgent for LostUserAgent {
    fn prepare(&self, _: Option<&str>) -> BoxFuture<Result<Box<dyn UserAgentSession>, Error>> {
        let lost = self.clone();
        Box::pin(async move { Ok(Box::new(lost) as Box<dyn UserAgentSession>) })
    }
}

impl UserAgentSession for LostUserAgent {
    fn redirect_uri(&self) -> &str {
        "http://127.0.0.1:7777/callback"
    }

    fn visit(self: Box<Self>, _: AuthorizationRequest) -> BoxFuture<Result<RedirectParams, Error>> {
        self.0.notify_one();
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn an_authorization_without_redirect_times_out() {
    let (setup, lost) = (TestSetup::default_setup().await, LostUserAgent::default());
    let client = setup.client_with(Auth::code(lost.clone()));
    for _ in 0..2 {
        let client = client.clone();
        let attempt = tokio::spawn(async move { client.rejected("Bearer").await });
        lost.0.notified().await;
        // Only the user agent is pending now, so the paused clock can advance.
        tokio::time::pause();
        let ended = tokio::time::timeout(Duration::from_secs(3600), attempt).await;
        let error = ended.expect("it ends").unwrap().unwrap_err();
        assert!(error.message.contains("try again"), "{error}");
        tokio::time::resume();
    }
}
