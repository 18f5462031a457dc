//! Renewal of tokens and logout.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use futures_util::FutureExt;
use serde_json::json;
use wharf_auth::client::{Auth, Login, LoginKey, MemoryTokenStore, TokenStore};
use wharf_model::{BoxFuture, Error, ErrorKind};

use crate::client::fake_servers::{
    CannedResponse, ResponseOverride, TestSetup, TestUser, at, error_response, json_response,
    no_override,
};

#[tokio::test]
async fn an_expired_token_is_refreshed_without_a_prompt() {
    let setup = TestSetup::default_setup().await;
    let client = setup.client();
    client.rejected("Bearer").await.unwrap();
    for (n, refresh) in [(2, "refresh-1"), (3, "refresh-2")] {
        client.accepted().await;
        assert_eq!(client.rejected("Bearer error=\"invalid_token\"").await, Ok(true));
        assert_eq!(client.authorization().await, Some(format!("Bearer access-{n}")));
        let token = setup.issuer.at("/token")[n - 1].clone();
        assert_eq!(token.field("grant_type"), "refresh_token");
        assert_eq!(token.field("refresh_token"), refresh);
        assert_eq!(token.field("resource"), setup.url());
    }
    assert_eq!(setup.user.authorizations().len(), 1);
    // The newest tokens are stored.
    assert_eq!(setup.client().authorization().await.as_deref(), Some("Bearer access-3"));
}

#[tokio::test]
async fn an_expiring_token_is_refreshed_early() {
    let setup = TestSetup::default_setup().await;
    let mut login = setup.auth().login(&setup.url()).await.unwrap();
    let now = login.saved_at;
    login.saved_at = now - 3600;
    for (expires_at, replaced) in [(now + 3600, false), (now + 10, true), (now - 10, true)] {
        login.tokens.as_mut().unwrap().expires_at = Some(expires_at);
        setup.token_store.save(&login).await.unwrap();
        let before = setup.issuer.at("/token").len();
        let shown = setup.client().authorization().await.unwrap();
        assert_eq!(shown != "Bearer access-1", replaced);
        let token = setup.issuer.at("/token").last().unwrap().clone();
        assert_eq!(setup.issuer.at("/token").len() - before, usize::from(replaced));
        assert_eq!(token.field("refresh_token"), if replaced { "refresh-1" } else { "" });
    }
    assert_eq!(setup.user.authorizations().len(), 1);
}

#[tokio::test]
async fn a_short_lived_token_is_not_refreshed_for_each_request() {
    let overridden = at("/token", |_| {
        // Some servers send numbers as strings.
        json_response(json!({
            "access_token": "short", "token_type": "bearer", "expires_in": "20",
            "refresh_token": "next",
        }))
    });
    let setup = TestSetup::with(no_override(), overridden, TestUser::consenting()).await;
    let client = setup.client();
    client.rejected("Bearer").await.unwrap();
    for _ in 0..3 {
        assert_eq!(client.authorization().await.as_deref(), Some("Bearer short"));
    }
    assert_eq!(setup.issuer.at("/token").len(), 1);
}

#[tokio::test]
async fn many_calls_at_once_replace_a_token_once() {
    let setup = TestSetup::default_setup().await;
    let client = setup.client();
    client.rejected("Bearer").await.unwrap();
    client.accepted().await;
    let (_, mark) = client.attached().await;
    let attempts: Vec<_> = (0..20)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                client
                    .credentials
                    .on_auth_failure(crate::client::fake_servers::auth_failure(
                        401, "Bearer", mark, 0,
                    ))
                    .await
            })
        })
        .collect();
    for request in attempts {
        assert_eq!(request.await.unwrap(), Ok(true));
    }
    assert_eq!(setup.issuer.at("/token").len(), 2);
}

#[tokio::test]
async fn a_failed_refresh_leads_to_a_new_authorization() {
    let overridden: ResponseOverride = Arc::new(|asked| {
        let is_refresh = asked.body.contains("grant_type=refresh_token");
        is_refresh.then(|| error_response(400, "invalid_grant"))
    });
    let setup = TestSetup::with(no_override(), overridden, TestUser::consenting()).await;
    let client = setup.client();
    client.rejected("Bearer").await.unwrap();
    client.accepted().await;
    assert_eq!(client.rejected("Bearer").await, Ok(true));
    assert_eq!(client.authorization().await.as_deref(), Some("Bearer access-2"));
    assert_eq!(setup.user.authorizations().len(), 2);
}

#[tokio::test]
async fn a_fixed_token_is_sent_unchanged() {
    let setup = TestSetup::default_setup().await;
    let client = setup.client_with(Auth::bearer("mine"));
    assert_eq!(client.authorization().await.as_deref(), Some("Bearer mine"));
    assert_eq!(client.rejected("Bearer error=\"invalid_token\"").await, Ok(false));
    assert!(setup.mcp.asked().is_empty() && setup.issuer.asked().is_empty());
    assert!(!format!("{:?}", Auth::bearer("mine")).contains("mine"));
}

#[tokio::test]
async fn logout_revokes_and_removes_tokens() {
    let setup = TestSetup::default_setup().await;
    setup.client().rejected("Bearer").await.unwrap();
    assert_eq!(setup.auth().logout(&setup.url()).await, Ok(1));
    let revoked: Vec<_> = setup.issuer.at("/revoke").iter().map(|it| it.field("token")).collect();
    assert_eq!(revoked, ["refresh-1", "access-1"]);
    assert_eq!(setup.issuer.at("/revoke")[0].field("client_id"), "registered");
    assert_eq!(setup.token_store.list().await, Ok(Vec::new()));
    assert_eq!(setup.client().authorization().await, None);
    assert_eq!(setup.auth().logout(&setup.url()).await, Ok(0));
}

#[tokio::test]
async fn logout_removes_tokens_that_cannot_be_revoked() {
    let overridden = at("/revoke", |_| error_response(503, "later"));
    let setup = TestSetup::with(no_override(), overridden, TestUser::consenting()).await;
    setup.client().rejected("Bearer").await.unwrap();
    assert!(setup.auth().logout(&setup.url()).await.is_err());
    assert_eq!(setup.token_store.list().await, Ok(Vec::new()));
}

#[tokio::test]
async fn login_works_without_a_challenge() {
    let setup = TestSetup::default_setup().await;
    let login = setup.auth().scopes(["files"]).login(&setup.url()).await.unwrap();
    assert_eq!(login.key.issuer, setup.issuer.origin);
    assert_eq!(login.asked, ["files"]);
    assert_eq!(setup.client().authorization().await.as_deref(), Some("Bearer access-1"));
}

fn refreshing(
    json_response: impl Fn() -> CannedResponse + Send + Sync + 'static,
) -> ResponseOverride {
    Arc::new(move |asked| asked.body.contains("grant_type=refresh_token").then(&json_response))
}

#[tokio::test]
async fn a_refresh_that_may_work_later_is_not_given_up() {
    for (status, error) in [(400, "slow_down"), (503, "temporarily_unavailable"), (500, "")] {
        let setup = TestSetup::with(
            no_override(),
            refreshing(move || error_response(status, error)),
            TestUser::consenting(),
        )
        .await;
        let client = setup.client();
        client.rejected("Bearer").await.unwrap();
        client.accepted().await;
        assert!(client.rejected("Bearer").await.is_err(), "{error}");
        assert_eq!(setup.user.authorizations().len(), 1, "{error}");
        let key = setup.token_store.list().await.unwrap().remove(0);
        let login = setup.token_store.load(&key).await.unwrap().unwrap();
        assert_eq!(login.tokens.unwrap().refresh.as_deref(), Some("refresh-1"), "{error}");
    }
}

#[tokio::test]
async fn a_removed_registration_is_renewed_at_refresh() {
    let overridden = refreshing(|| error_response(401, "invalid_client"));
    let setup = TestSetup::with(no_override(), overridden, TestUser::consenting()).await;
    let client = setup.client();
    client.rejected("Bearer").await.unwrap();
    client.accepted().await;
    assert_eq!(client.rejected("Bearer").await, Ok(true));
    assert_eq!(setup.issuer.at("/register").len(), 2);
}

#[tokio::test]
async fn clients_that_share_a_login_refresh_it_once() {
    let setup = TestSetup::default_setup().await;
    let first = setup.client();
    first.rejected("Bearer").await.unwrap();
    first.accepted().await;
    let second = setup.client();
    second.accepted().await;
    let (one, other) = tokio::join!(first.rejected("Bearer"), second.rejected("Bearer"));
    assert_eq!((one, other), (Ok(true), Ok(true)));
    assert_eq!(setup.issuer.at("/token").len(), 2);
    assert_eq!(first.authorization().await, second.authorization().await);
}

#[tokio::test]
async fn tokens_of_another_client_are_refreshed() {
    let setup = TestSetup::default_setup().await;
    let first = setup.client();
    // No server has accepted this one yet: rejected at once, it would not be refreshed.
    first.rejected("Bearer").await.unwrap();
    let second = setup.client();
    assert_eq!(second.rejected("Bearer").await, Ok(true));
    assert_eq!(first.rejected("Bearer").await, Ok(true));
    assert_eq!(first.authorization().await.as_deref(), Some("Bearer access-2"));
    assert_eq!(first.rejected("Bearer").await, Ok(true));
    assert_eq!(first.authorization().await.as_deref(), Some("Bearer access-3"));
    assert_eq!(setup.issuer.at("/token")[2].field("refresh_token"), "refresh-2");
    assert_eq!(setup.user.authorizations().len(), 1);
}

#[tokio::test]
async fn a_login_that_came_later_is_used_as_it_is() {
    let setup = TestSetup::default_setup().await;
    let early = setup.client();
    assert_eq!(early.authorization().await, None);
    setup.auth().login(&setup.url()).await.unwrap();
    assert_eq!(early.rejected("Bearer").await, Ok(true));
    assert_eq!(early.authorization().await.as_deref(), Some("Bearer access-1"));
    assert_eq!((setup.issuer.at("/token").len(), setup.user.authorizations().len()), (1, 1));
    // When it expires, it is refreshed as usual.
    assert_eq!(early.rejected("Bearer").await, Ok(true));
    assert_eq!(early.authorization().await.as_deref(), Some("Bearer access-2"));
    assert_eq!(setup.user.authorizations().len(), 1);
}

#[tokio::test]
async fn tokens_renewed_during_an_authorization_are_not_lost() {
    let meanwhile: Arc<Mutex<Option<(MemoryTokenStore, Login)>>> = Arc::default();
    let renewed = meanwhile.clone();
    let overridden = at("/register", move |_| {
        if let Some((token_store, login)) = &*renewed.lock().unwrap() {
            token_store.save(login).now_or_never().unwrap().unwrap();
        }
        json_response(json!({"client_id": "registered"}))
    });
    let authorizations = AtomicUsize::new(0);
    let user = TestUser::responding_with(move |to| match authorizations.fetch_add(1, SeqCst) {
        0 => Ok(format!("code=c&state={}", to.state)),
        _ => Err(Error::new(ErrorKind::AccessDenied)),
    });
    let setup = TestSetup::with(no_override(), overridden, user).await;
    let mut login = setup.auth().login(&setup.url()).await.unwrap();
    // Another process renews the login during our registration, and our authorization fails.
    login.tokens.as_mut().unwrap().refresh = Some("renewed".into());
    *meanwhile.lock().unwrap() = Some((setup.token_store.clone(), login.clone()));
    setup.user.set_redirect_uri("http://127.0.0.1:1/");
    assert!(setup.auth().login(&setup.url()).await.is_err());
    let kept = setup.token_store.load(&login.key).await.unwrap().unwrap();
    // The matching registration is kept as well.
    assert_eq!(kept, login);
}

#[tokio::test]
async fn a_login_that_fails_leaves_nothing_behind() {
    let refusals = [
        ("/register", "invalid_redirect_uri"),
        ("/token", "invalid_client"),
        ("/token", "invalid_grant"),
        ("", "access_denied"),
    ];
    for (path, error) in refusals {
        let user = TestUser::responding_with(move |to| match path {
            "" => Ok(format!("error={error}&state={}", to.state)),
            _ => Ok(format!("code=c&state={}", to.state)),
        });
        let setup =
            TestSetup::with(no_override(), at(path, move |_| error_response(400, error)), user)
                .await;
        let refused = setup.auth().login(&setup.url()).await.unwrap_err();
        assert!(refused.message.contains(error), "{refused}");
        assert_eq!(setup.token_store.list().await.unwrap(), [], "{path} {error}");
        // The client registers once more only if the issuer has removed its registration.
        let client = setup.client();
        for _ in 0..2 {
            assert!(client.rejected("Bearer").await.is_err());
        }
        let registrations = if error == "invalid_client" || path == "/register" { 3 } else { 2 };
        assert_eq!(setup.issuer.at("/register").len(), registrations, "{path} {error}");
    }
}

#[tokio::test]
async fn a_token_that_ends_at_once_is_not_replaced_before_each_request() {
    let token = at("/token", |_| {
        json_response(json!({"access_token": "t", "refresh_token": "r", "expires_in": 0}))
    });
    let setup = TestSetup::with(no_override(), token, TestUser::consenting()).await;
    let client = setup.client();
    client.rejected("Bearer").await.unwrap();
    for _ in 0..5 {
        client.accepted().await;
        assert_eq!(client.authorization().await.as_deref(), Some("Bearer t"));
    }
    assert_eq!(setup.issuer.at("/token").len(), 1);
}

/// A token store that accepts a limited number of saves.
#[derive(Clone)]
struct LimitedTokenStore(MemoryTokenStore, Arc<AtomicUsize>);

impl TokenStore for LimitedTokenStore {
    fn load(&self, key: &LoginKey) -> BoxFuture<Result<Option<Login>, Error>> {
        self.0.load(key)
    }

    fn save(&self, login: &Login) -> BoxFuture<Result<(), Error>> {
        let left = self.1.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
        match left {
            Ok(_) => self.0.save(login),
            Err(_) => Box::pin(async { Err(Error::new(ErrorKind::InternalError)) }),
        }
    }

    fn remove(&self, key: &LoginKey) -> BoxFuture<Result<(), Error>> {
        self.0.remove(key)
    }

    fn list(&self) -> BoxFuture<Result<Vec<LoginKey>, Error>> {
        self.0.list()
    }
}

#[tokio::test]
async fn a_refresh_token_that_was_used_is_not_used_again_if_the_next_could_not_be_saved() {
    let setup = TestSetup::default_setup().await;
    // The first tokens with the registration.
    let token_store = LimitedTokenStore(setup.token_store.clone(), Arc::new(AtomicUsize::new(1)));
    let client = setup.client_with(setup.auth().token_store(token_store));
    client.rejected("Bearer").await.unwrap();
    client.accepted().await;
    for _ in 0..2 {
        assert!(client.rejected("Bearer").await.is_err());
        client.accepted().await;
    }
    let tokens = setup.issuer.at("/token");
    let used: Vec<_> = tokens.iter().map(|it| it.field("refresh_token")).collect();
    assert_eq!(used, ["", "refresh-1", "refresh-2"]);
    assert_eq!(client.authorization().await.as_deref(), Some("Bearer access-3"));
}

#[tokio::test]
async fn a_login_of_another_client_is_not_used() {
    let setup = TestSetup::default_setup().await;
    setup.client().rejected("Bearer").await.unwrap();
    let auths = [
        Auth::code(setup.user.clone()).client("another"),
        Auth::client_credentials("me", "secret").issuer(&setup.issuer.origin),
    ];
    for auth in auths {
        let client = setup.client_with(auth.token_store(setup.token_store.clone()));
        assert_eq!(client.authorization().await, None);
        assert_eq!(client.rejected("Bearer").await, Ok(true));
    }
    assert!(!setup.issuer.received_text().contains("grant_type=refresh_token"));
}

#[tokio::test]
async fn logout_waits_for_a_refresh() {
    let setup = TestSetup::default_setup().await;
    setup.client().rejected("Bearer").await.unwrap();
    let key = setup.token_store.list().await.unwrap().remove(0);
    let held = setup.token_store.lock(&key).await.unwrap();
    let (auth, url) = (setup.auth(), setup.url());
    let leaving = tokio::spawn(async move { auth.logout(&url).await });
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(setup.token_store.list().await.unwrap(), [key]);
    drop(held);
    assert_eq!(leaving.await.unwrap(), Ok(1));
}
