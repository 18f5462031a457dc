//! Renewal of tokens and logout.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use futures_util::FutureExt;
use serde_json::json;
use wharf_auth::client::{Auth, Login, LoginKey, MemoryTokenStore, TokenStore};
use wharf_model::{BoxFuture, Error, ErrorKind};

use crate::stage::{Person, Said, Stage, Tweak, as_usual, at, refuse, say};

#[tokio::test]
async fn a_token_that_ended_is_replaced_without_asking() {
    let stage = Stage::upright().await;
    let client = stage.client();
    client.refused("Bearer").await.unwrap();
    for (n, refresh) in [(2, "refresh-1"), (3, "refresh-2")] {
        client.accepted().await;
        assert_eq!(client.refused("Bearer error=\"invalid_token\"").await, Ok(true));
        assert_eq!(client.authorization().await, Some(format!("Bearer access-{n}")));
        let token = stage.issuer.at("/token")[n - 1].clone();
        assert_eq!(token.field("grant_type"), "refresh_token");
        assert_eq!(token.field("refresh_token"), refresh);
        assert_eq!(token.field("resource"), stage.url());
    }
    assert_eq!(stage.person.visits().len(), 1);
    // The newest tokens are stored.
    assert_eq!(stage.client().authorization().await.as_deref(), Some("Bearer access-3"));
}

#[tokio::test]
async fn a_token_that_is_about_to_end_is_replaced_before_anybody_refuses_it() {
    let stage = Stage::upright().await;
    let mut login = stage.auth().login(&stage.url()).await.unwrap();
    let now = login.saved_at;
    login.saved_at = now - 3600;
    for (expires_at, replaced) in [(now + 3600, false), (now + 10, true), (now - 10, true)] {
        login.tokens.as_mut().unwrap().expires_at = Some(expires_at);
        stage.token_store.save(&login).await.unwrap();
        let before = stage.issuer.at("/token").len();
        let shown = stage.client().authorization().await.unwrap();
        assert_eq!(shown != "Bearer access-1", replaced);
        let token = stage.issuer.at("/token").last().unwrap().clone();
        assert_eq!(stage.issuer.at("/token").len() - before, usize::from(replaced));
        assert_eq!(token.field("refresh_token"), if replaced { "refresh-1" } else { "" });
    }
    assert_eq!(stage.person.visits().len(), 1);
}

#[tokio::test]
async fn a_token_with_a_short_life_is_not_replaced_all_the_time() {
    let tweak = at("/token", |_| {
        // Some servers send numbers as strings.
        say(json!({
            "access_token": "short", "token_type": "bearer", "expires_in": "20",
            "refresh_token": "next",
        }))
    });
    let stage = Stage::with(as_usual(), tweak, Person::agrees()).await;
    let client = stage.client();
    client.refused("Bearer").await.unwrap();
    for _ in 0..3 {
        assert_eq!(client.authorization().await.as_deref(), Some("Bearer short"));
    }
    assert_eq!(stage.issuer.at("/token").len(), 1);
}

#[tokio::test]
async fn many_calls_at_once_replace_a_token_once() {
    let stage = Stage::upright().await;
    let client = stage.client();
    client.refused("Bearer").await.unwrap();
    client.accepted().await;
    let (_, mark) = client.shown().await;
    let knocks: Vec<_> = (0..20)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                client.credentials.on_auth_failure(crate::stage::rebuff(401, "Bearer", mark, 0)).await
            })
        })
        .collect();
    for request in knocks {
        assert_eq!(request.await.unwrap(), Ok(true));
    }
    assert_eq!(stage.issuer.at("/token").len(), 2);
}

#[tokio::test]
async fn a_refresh_that_fails_leads_to_a_new_visit() {
    let tweak: Tweak = Arc::new(|asked| {
        let is_refresh = asked.body.contains("grant_type=refresh_token");
        is_refresh.then(|| refuse(400, "invalid_grant"))
    });
    let stage = Stage::with(as_usual(), tweak, Person::agrees()).await;
    let client = stage.client();
    client.refused("Bearer").await.unwrap();
    client.accepted().await;
    assert_eq!(client.refused("Bearer").await, Ok(true));
    assert_eq!(client.authorization().await.as_deref(), Some("Bearer access-2"));
    assert_eq!(stage.person.visits().len(), 2);
}

#[tokio::test]
async fn a_token_of_ones_own_is_shown_as_it_is() {
    let stage = Stage::upright().await;
    let client = stage.knocker(Auth::bearer("mine"));
    assert_eq!(client.authorization().await.as_deref(), Some("Bearer mine"));
    assert_eq!(client.refused("Bearer error=\"invalid_token\"").await, Ok(false));
    assert!(stage.mcp.asked().is_empty() && stage.issuer.asked().is_empty());
    assert!(!format!("{:?}", Auth::bearer("mine")).contains("mine"));
}

#[tokio::test]
async fn what_is_given_back_is_revoked_and_forgotten() {
    let stage = Stage::upright().await;
    stage.client().refused("Bearer").await.unwrap();
    assert_eq!(stage.auth().logout(&stage.url()).await, Ok(1));
    let revoked: Vec<_> = stage.issuer.at("/revoke").iter().map(|it| it.field("token")).collect();
    assert_eq!(revoked, ["refresh-1", "access-1"]);
    assert_eq!(stage.issuer.at("/revoke")[0].field("client_id"), "registered");
    assert_eq!(stage.token_store.list().await, Ok(Vec::new()));
    assert_eq!(stage.client().authorization().await, None);
    assert_eq!(stage.auth().logout(&stage.url()).await, Ok(0));
}

#[tokio::test]
async fn what_cannot_be_revoked_is_forgotten_all_the_same() {
    let tweak = at("/revoke", |_| refuse(503, "later"));
    let stage = Stage::with(as_usual(), tweak, Person::agrees()).await;
    stage.client().refused("Bearer").await.unwrap();
    assert!(stage.auth().logout(&stage.url()).await.is_err());
    assert_eq!(stage.token_store.list().await, Ok(Vec::new()));
}

#[tokio::test]
async fn one_can_log_in_before_anybody_refuses() {
    let stage = Stage::upright().await;
    let login = stage.auth().scopes(["files"]).login(&stage.url()).await.unwrap();
    assert_eq!(login.key.issuer, stage.issuer.origin);
    assert_eq!(login.asked, ["files"]);
    assert_eq!(stage.client().authorization().await.as_deref(), Some("Bearer access-1"));
}

fn refreshing(say: impl Fn() -> Said + Send + Sync + 'static) -> Tweak {
    Arc::new(move |asked| asked.body.contains("grant_type=refresh_token").then(&say))
}

#[tokio::test]
async fn a_refresh_that_may_work_later_is_not_given_up() {
    for (status, error) in [(400, "slow_down"), (503, "temporarily_unavailable"), (500, "")] {
        let stage =
            Stage::with(as_usual(), refreshing(move || refuse(status, error)), Person::agrees())
                .await;
        let client = stage.client();
        client.refused("Bearer").await.unwrap();
        client.accepted().await;
        assert!(client.refused("Bearer").await.is_err(), "{error}");
        assert_eq!(stage.person.visits().len(), 1, "{error}");
        let key = stage.token_store.list().await.unwrap().remove(0);
        let login = stage.token_store.load(&key).await.unwrap().unwrap();
        assert_eq!(login.tokens.unwrap().refresh.as_deref(), Some("refresh-1"), "{error}");
    }
}

#[tokio::test]
async fn an_issuer_that_forgot_us_is_told_of_us_when_a_token_ends() {
    let tweak = refreshing(|| refuse(401, "invalid_client"));
    let stage = Stage::with(as_usual(), tweak, Person::agrees()).await;
    let client = stage.client();
    client.refused("Bearer").await.unwrap();
    client.accepted().await;
    assert_eq!(client.refused("Bearer").await, Ok(true));
    assert_eq!(stage.issuer.at("/register").len(), 2);
}

#[tokio::test]
async fn clients_that_share_a_login_refresh_it_once() {
    let stage = Stage::upright().await;
    let first = stage.client();
    first.refused("Bearer").await.unwrap();
    first.accepted().await;
    let second = stage.client();
    second.accepted().await;
    let (one, other) = tokio::join!(first.refused("Bearer"), second.refused("Bearer"));
    assert_eq!((one, other), (Ok(true), Ok(true)));
    assert_eq!(stage.issuer.at("/token").len(), 2);
    assert_eq!(first.authorization().await, second.authorization().await);
}

#[tokio::test]
async fn what_somebody_else_got_is_refreshed_like_what_was_accepted() {
    let stage = Stage::upright().await;
    let first = stage.client();
    // No server has accepted this one yet: rejected at once, it would not be refreshed.
    first.refused("Bearer").await.unwrap();
    let second = stage.client();
    assert_eq!(second.refused("Bearer").await, Ok(true));
    assert_eq!(first.refused("Bearer").await, Ok(true));
    assert_eq!(first.authorization().await.as_deref(), Some("Bearer access-2"));
    assert_eq!(first.refused("Bearer").await, Ok(true));
    assert_eq!(first.authorization().await.as_deref(), Some("Bearer access-3"));
    assert_eq!(stage.issuer.at("/token")[2].field("refresh_token"), "refresh-2");
    assert_eq!(stage.person.visits().len(), 1);
}

#[tokio::test]
async fn a_login_that_came_later_is_used_as_it_is() {
    let stage = Stage::upright().await;
    let early = stage.client();
    assert_eq!(early.authorization().await, None);
    stage.auth().login(&stage.url()).await.unwrap();
    assert_eq!(early.refused("Bearer").await, Ok(true));
    assert_eq!(early.authorization().await.as_deref(), Some("Bearer access-1"));
    assert_eq!((stage.issuer.at("/token").len(), stage.person.visits().len()), (1, 1));
    // When it expires, it is refreshed as usual.
    assert_eq!(early.refused("Bearer").await, Ok(true));
    assert_eq!(early.authorization().await.as_deref(), Some("Bearer access-2"));
    assert_eq!(stage.person.visits().len(), 1);
}

#[tokio::test]
async fn tokens_that_came_while_somebody_was_asked_are_not_lost() {
    let meanwhile: Arc<Mutex<Option<(MemoryTokenStore, Login)>>> = Arc::default();
    let renewed = meanwhile.clone();
    let tweak = at("/register", move |_| {
        if let Some((token_store, login)) = &*renewed.lock().unwrap() {
            token_store.save(login).now_or_never().unwrap().unwrap();
        }
        say(json!({"client_id": "registered"}))
    });
    let visits = AtomicUsize::new(0);
    let person = Person::who(move |to| match visits.fetch_add(1, SeqCst) {
        0 => Ok(format!("code=c&state={}", to.state)),
        _ => Err(Error::new(ErrorKind::AccessDenied)),
    });
    let stage = Stage::with(as_usual(), tweak, person).await;
    let mut login = stage.auth().login(&stage.url()).await.unwrap();
    // Another process renews the login during our registration, and our authorization fails.
    login.tokens.as_mut().unwrap().refresh = Some("renewed".into());
    *meanwhile.lock().unwrap() = Some((stage.token_store.clone(), login.clone()));
    stage.person.comes_back_to("http://127.0.0.1:1/");
    assert!(stage.auth().login(&stage.url()).await.is_err());
    let kept = stage.token_store.load(&login.key).await.unwrap().unwrap();
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
        let person = Person::who(move |to| match path {
            "" => Ok(format!("error={error}&state={}", to.state)),
            _ => Ok(format!("code=c&state={}", to.state)),
        });
        let stage = Stage::with(as_usual(), at(path, move |_| refuse(400, error)), person).await;
        let refused = stage.auth().login(&stage.url()).await.unwrap_err();
        assert!(refused.message.contains(error), "{refused}");
        assert_eq!(stage.token_store.list().await.unwrap(), [], "{path} {error}");
        // The client registers once more only if the issuer has removed its registration.
        let client = stage.client();
        for _ in 0..2 {
            assert!(client.refused("Bearer").await.is_err());
        }
        let registrations = if error == "invalid_client" || path == "/register" { 3 } else { 2 };
        assert_eq!(stage.issuer.at("/register").len(), registrations, "{path} {error}");
    }
}

#[tokio::test]
async fn a_token_that_ends_at_once_is_not_replaced_before_each_request() {
    let token =
        at("/token", |_| say(json!({"access_token": "t", "refresh_token": "r", "expires_in": 0})));
    let stage = Stage::with(as_usual(), token, Person::agrees()).await;
    let client = stage.client();
    client.refused("Bearer").await.unwrap();
    for _ in 0..5 {
        client.accepted().await;
        assert_eq!(client.authorization().await.as_deref(), Some("Bearer t"));
    }
    assert_eq!(stage.issuer.at("/token").len(), 1);
}

/// A token store that accepts a limited number of saves.
#[derive(Clone)]
struct Full(MemoryTokenStore, Arc<AtomicUsize>);

impl TokenStore for Full {
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
    let stage = Stage::upright().await;
    // The first tokens with the registration.
    let token_store = Full(stage.token_store.clone(), Arc::new(AtomicUsize::new(1)));
    let client = stage.knocker(stage.auth().token_store(token_store));
    client.refused("Bearer").await.unwrap();
    client.accepted().await;
    for _ in 0..2 {
        assert!(client.refused("Bearer").await.is_err());
        client.accepted().await;
    }
    let tokens = stage.issuer.at("/token");
    let used: Vec<_> = tokens.iter().map(|it| it.field("refresh_token")).collect();
    assert_eq!(used, ["", "refresh-1", "refresh-2"]);
    assert_eq!(client.authorization().await.as_deref(), Some("Bearer access-3"));
}

#[tokio::test]
async fn a_login_of_somebody_else_is_not_used() {
    let stage = Stage::upright().await;
    stage.client().refused("Bearer").await.unwrap();
    let auths = [
        Auth::code(stage.person.clone()).client("another"),
        Auth::client_credentials("me", "secret").issuer(&stage.issuer.origin),
    ];
    for auth in auths {
        let client = stage.knocker(auth.token_store(stage.token_store.clone()));
        assert_eq!(client.authorization().await, None);
        assert_eq!(client.refused("Bearer").await, Ok(true));
    }
    assert!(!stage.issuer.seen().contains("grant_type=refresh_token"));
}

#[tokio::test]
async fn logging_out_waits_for_who_refreshes() {
    let stage = Stage::upright().await;
    stage.client().refused("Bearer").await.unwrap();
    let key = stage.token_store.list().await.unwrap().remove(0);
    let held = stage.token_store.lock(&key).await.unwrap();
    let (auth, url) = (stage.auth(), stage.url());
    let leaving = tokio::spawn(async move { auth.logout(&url).await });
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(stage.token_store.list().await.unwrap(), [key]);
    drop(held);
    assert_eq!(leaving.await.unwrap(), Ok(1));
}
