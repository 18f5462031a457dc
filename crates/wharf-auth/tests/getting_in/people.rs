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

use crate::stage::{PRM, Person, Stage, as_usual, at, metadata, rebuff, refuse, say};

#[tokio::test]
async fn a_person_is_asked_and_the_code_redeemed() {
    let stage = Stage::upright().await;
    let client = stage.client();
    assert_eq!(client.authorization().await, None);
    assert_eq!(client.refused("Bearer").await, Ok(true));
    assert_eq!(client.authorization().await.as_deref(), Some("Bearer access-1"));

    assert_eq!(stage.mcp.paths(), [PRM]);
    let expected = ["/.well-known/oauth-authorization-server", "/register", "/token"];
    assert_eq!(stage.issuer.paths(), expected);
    let question = stage.person.query(0);
    let token = stage.issuer.at("/token")[0].clone();
    assert_eq!(question["tenant"], "1");
    assert_eq!(question["response_type"], "code");
    assert_eq!(question["client_id"], "registered");
    assert_eq!(question["code_challenge_method"], "S256");
    assert_eq!(question["code_challenge"], b64(sha256(token.field("code_verifier").as_bytes())));
    assert!(token.field("code_verifier").len() >= 43);
    assert_eq!(question["redirect_uri"], token.field("redirect_uri"));
    assert_eq!(question["resource"], stage.url());
    assert_eq!(token.field("resource"), stage.url());
    assert_eq!(token.field("grant_type"), "authorization_code");
    assert_eq!(token.field("code"), "the-code");
    assert_eq!(token.field("client_id"), "registered");
    assert!(!question.contains_key("scope"));
    let registration: serde_json::Value =
        serde_json::from_str(&stage.issuer.at("/register")[0].body).unwrap();
    assert_eq!(registration["application_type"], "native");
    assert_eq!(registration["token_endpoint_auth_method"], "none");
    assert_eq!(registration["grant_types"], json!(["authorization_code", "refresh_token"]));
}

#[tokio::test]
async fn what_was_got_is_kept_and_used_again() {
    let stage = Stage::upright().await;
    assert_eq!(stage.client().refused("Bearer").await, Ok(true));
    // A new process uses the stored login.
    let later = stage.client();
    assert_eq!(later.authorization().await.as_deref(), Some("Bearer access-1"));
    assert_eq!(stage.person.visits().len(), 1);
    let keys = stage.token_store.list().await.unwrap();
    let login: Login = stage.token_store.load(&keys[0]).await.unwrap().unwrap();
    let shown = format!("{login:?} {:?} {:?}", stage.token_store, stage.person.visits());
    for secret in ["access-1", "refresh-1", "the-code", &stage.person.visits()[0].state] {
        assert!(!shown.contains(secret), "{shown}");
    }
    // A login survives serialization.
    let text = serde_json::to_string(&login).unwrap();
    assert_eq!(serde_json::from_str::<Login>(&text).unwrap(), login);
}

#[tokio::test]
async fn a_registration_is_good_for_one_place_to_come_back_to() {
    let stage = Stage::upright().await;
    for (uri, registered) in [("http://127.0.0.1:1/", 1), ("http://127.0.0.1:1/", 1), ("x:/", 2)] {
        stage.person.comes_back_to(uri);
        stage.auth().login(&stage.url()).await.unwrap();
        assert_eq!(stage.issuer.at("/register").len(), registered, "{uri}");
    }
}

#[tokio::test]
async fn who_we_are_is_found_out_in_order() {
    let takes_documents = |origin: &str| {
        let mut said = metadata(origin);
        said["client_id_metadata_document_supported"] = true.into();
        said
    };
    let document = "https://tug.example/client.json";
    for (knows_us, takes, client_id) in
        [(true, true, "known"), (false, true, document), (false, false, "registered")]
    {
        let tweak = at("/.well-known/oauth-authorization-server", move |asked| {
            let origin = format!("http://{}", asked.header("host").unwrap_or_default());
            say(if takes { takes_documents(&origin) } else { metadata(&origin) })
        });
        let stage = Stage::with(as_usual(), tweak, Person::agrees()).await;
        let auth = stage.auth().client_document(document);
        let auth = if knows_us { auth.client("known") } else { auth };
        stage.knocker(auth.clone()).refused("Bearer").await.unwrap();
        assert_eq!(stage.person.query(0)["client_id"], client_id);
        assert_eq!(stage.issuer.at("/register").len(), usize::from(client_id == "registered"));
        // The refresh uses the same client.
        assert_eq!(stage.knocker(auth).refused("Bearer").await, Ok(true));
        let token = stage.issuer.at("/token")[1].clone();
        assert_eq!(token.field("grant_type"), "refresh_token");
        assert_eq!(token.field("client_id"), client_id);
    }
}

#[tokio::test]
async fn a_server_that_takes_no_strangers_says_so() {
    let tweak = at("/.well-known/oauth-authorization-server", |asked| {
        let mut said = metadata(&format!("http://{}", asked.header("host").unwrap()));
        said["registration_endpoint"] = serde_json::Value::Null;
        say(said)
    });
    let stage = Stage::with(as_usual(), tweak, Person::agrees()).await;
    let error = stage.client().refused("Bearer").await.unwrap_err();
    assert!(error.message.contains("client id"), "{error}");
    let refuses = at("/register", |_| refuse(400, "invalid_redirect_uri"));
    let stage = Stage::with(as_usual(), refuses, Person::agrees()).await;
    let error = stage.client().refused("Bearer").await.unwrap_err();
    assert!(error.message.contains("invalid_redirect_uri"), "{error}");
    assert_eq!(stage.person.visits().len(), 0);
}

#[tokio::test]
async fn nobody_is_asked_for_what_nobody_waits_for() {
    let stage = Stage::upright().await;
    let client = stage.client();
    let mut rebuff = rebuff(401, "Bearer", 0, 0);
    rebuff.waited = false;
    assert_eq!(client.credentials.on_auth_failure(rebuff.clone()).await, Ok(false));
    assert!(stage.person.visits().is_empty() && stage.issuer.at("/register").is_empty());
    // A refresh needs no user, so it happens all the same.
    stage.auth().login(&stage.url()).await.unwrap();
    let client = stage.client();
    rebuff.mark = client.shown().await.1;
    assert_eq!(client.credentials.on_auth_failure(rebuff).await, Ok(true));
    assert_eq!(client.authorization().await.as_deref(), Some("Bearer access-2"));
    assert_eq!(stage.person.visits().len(), 1);
}

#[tokio::test]
async fn many_who_are_refused_at_once_are_let_in_by_one_visit() {
    let stage = Stage::upright().await;
    let client = stage.client();
    let knocks = (0..20).map(|_| {
        let client = client.clone();
        tokio::spawn(async move {
            let rebuff = rebuff(401, "Bearer", 0, 0);
            client.credentials.on_auth_failure(rebuff).await
        })
    });
    for request in knocks.collect::<Vec<_>>() {
        assert_eq!(request.await.unwrap(), Ok(true));
    }
    assert_eq!((stage.person.visits().len(), stage.issuer.at("/token").len()), (1, 1));
}

#[tokio::test]
async fn many_who_are_refused_at_once_share_a_failure() {
    let person = Person::who(|to| Ok(format!("error=access_denied&state={}", to.state)));
    let stage = Stage::with(as_usual(), as_usual(), person).await;
    let client = stage.client();
    let knocks: Vec<_> = (0..20)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                let rebuff = rebuff(401, "Bearer", 0, 0);
                client.credentials.on_auth_failure(rebuff).await
            })
        })
        .collect();
    for request in knocks {
        assert!(request.await.unwrap().unwrap_err().kind.is_access_denied());
    }
    assert_eq!(stage.person.visits().len(), 1);
}

#[tokio::test]
async fn scopes_are_asked_for_as_the_server_says() {
    for (challenge, scopes, expected) in [
        ("Bearer scope=\"a b\"", true, Some("a b")),
        ("Bearer", true, Some("x y")),
        ("Bearer", false, None),
    ] {
        let more = if scopes { json!({"scopes_supported": ["x", "y"]}) } else { json!({}) };
        let stage = Stage::describing(more, as_usual(), as_usual(), Person::agrees()).await;
        stage.client().refused(challenge).await.unwrap();
        let asked = stage.person.query(0).get("scope").cloned();
        assert_eq!(asked.as_deref(), expected, "{challenge}");
    }
}

#[tokio::test]
async fn more_is_asked_for_when_a_call_needs_more() {
    let stage = Stage::upright().await;
    let client = stage.client();
    client.refused("Bearer scope=\"read\"").await.unwrap();
    client.accepted().await;
    let more = "Bearer error=\"insufficient_scope\", scope=\"write\"";
    assert_eq!(client.refused_with(403, more, 0).await, Ok(true));
    assert_eq!(stage.person.query(1)["scope"], "read write");
    // It was requested without effect: no further prompt.
    assert_eq!(client.refused_with(403, more, 1).await, Ok(false));
    client.accepted().await;
    assert_eq!(client.refused_with(403, more, 0).await, Ok(false));
    // Other 403 responses are not retried.
    assert_eq!(client.refused_with(403, "Bearer error=\"nope\"", 0).await, Ok(false));
    assert_eq!(client.refused_with(403, "", 0).await, Ok(false));
    assert_eq!(stage.person.visits().len(), 2);
}

/// A user agent that never returns.
#[derive(Clone, Default)]
struct Lost(Arc<Notify>);

impl UserAgent for Lost {
    fn prepare(&self, _: Option<&str>) -> BoxFuture<Result<Box<dyn UserAgentSession>, Error>> {
        let lost = self.clone();
        Box::pin(async move { Ok(Box::new(lost) as Box<dyn UserAgentSession>) })
    }
}

impl UserAgentSession for Lost {
    fn redirect_uri(&self) -> &str {
        "http://127.0.0.1:7777/callback"
    }

    fn visit(self: Box<Self>, _: AuthorizationRequest) -> BoxFuture<Result<RedirectParams, Error>> {
        self.0.notify_one();
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn whoever_never_comes_back_is_not_waited_for_without_end() {
    let (stage, lost) = (Stage::upright().await, Lost::default());
    let client = stage.knocker(Auth::code(lost.clone()));
    for _ in 0..2 {
        let client = client.clone();
        let knocking = tokio::spawn(async move { client.refused("Bearer").await });
        lost.0.notified().await;
        // Only the user agent is pending now, so the paused clock can advance.
        tokio::time::pause();
        let ended = tokio::time::timeout(Duration::from_secs(3600), knocking).await;
        let error = ended.expect("it ends").unwrap().unwrap_err();
        assert!(error.message.contains("try again"), "{error}");
        tokio::time::resume();
    }
}
