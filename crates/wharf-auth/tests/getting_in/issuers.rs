//! Discovery and selection of the authorization server, and isolation between issuers.

use std::sync::{Arc, Mutex};

use serde_json::json;
use wharf_auth::{
    client::{Auth, Enterprise, TokenStore},
    jose::SigningKey,
};

use crate::stage::{self, Knocker, PRM, Person, Stage, Tweak, as_usual, at, metadata, refuse, say};

/// A server whose metadata names the issuers in the list.
async fn moving(issuers: Arc<Mutex<Vec<String>>>) -> Stage {
    let named = issuers.clone();
    let prm = at(PRM, move |asked| {
        let origin = format!("http://{}", asked.header("host").unwrap());
        let issuers = named.lock().unwrap().clone();
        say(json!({"resource": format!("{origin}/mcp"), "authorization_servers": issuers}))
    });
    let with_secret = at("/register", |_| {
        say(json!({"client_id": "first-client", "client_secret": "first-secret"}))
    });
    let stage = Stage::with(prm, with_secret, Person::agrees()).await;
    *issuers.lock().unwrap() = vec![stage.issuer.origin.clone()];
    stage
}

/// The same with an authorized client.
async fn inside(issuers: Arc<Mutex<Vec<String>>>) -> (Stage, Knocker) {
    let stage = moving(issuers).await;
    let client = stage.client();
    client.refused("Bearer").await.unwrap();
    client.accepted().await;
    (stage, client)
}

#[tokio::test]
async fn what_one_issuer_gave_is_not_shown_to_another() {
    let issuers = Arc::default();
    let (stage, client) = inside(Arc::clone(&issuers)).await;
    let second = stage::issuer(as_usual()).await;
    *issuers.lock().unwrap() = vec![second.origin.clone()];
    assert_eq!(client.refused("Bearer error=\"invalid_token\"").await, Ok(true));
    let seen = second.seen();
    for secret in ["first-client", "first-secret", "access-1", "refresh-1"] {
        // The second issuer's own tokens have the same names, but it does not receive them in requests.
        assert!(!seen.contains(secret), "{secret}: {seen}");
    }
    assert_eq!(second.at("/register").len(), 1);
    assert_eq!(stage.person.visits()[1].issuer, second.origin);
    // The old tokens are removed, but the registration at the old issuer is kept.
    let keys = stage.token_store.list().await.unwrap();
    let old = keys.iter().find(|it| it.issuer == stage.issuer.origin).unwrap();
    let old = stage.token_store.load(old).await.unwrap().unwrap();
    assert_eq!((old.tokens, old.registration.unwrap().client_id), (None, "first-client".into()));
}

#[tokio::test]
async fn credentials_for_one_issuer_are_refused_to_another() {
    let second = stage::issuer(as_usual()).await;
    for pinned in [true, false] {
        let issuers = Arc::default();
        let stage = moving(Arc::clone(&issuers)).await;
        let auth = Auth::client_credentials("me", "my-secret").token_store(stage.token_store.clone());
        let auth = match pinned {
            true => auth.issuer(&stage.issuer.origin),
            false => auth.confirm_issuer(|_| async { true }),
        };
        let client = stage.knocker(auth);
        client.refused("Bearer").await.unwrap();
        client.accepted().await;
        *issuers.lock().unwrap() = vec![second.origin.clone()];
        let error = client.refused("Bearer").await.unwrap_err();
        assert!(error.message.contains("nothing was sent"), "{error}");
    }
    assert_eq!(second.paths(), Vec::<String>::new());
}

/// CVE-2026-104850 (TypeScript SDK) and WS-2026-0196 (FastMCP): the MCP server's metadata chose which authorization
/// server got the client's secret. Without an issuer of the user's choice nothing is sent there at all.
#[tokio::test]
async fn a_secret_a_key_or_an_assertion_needs_an_issuer() {
    let stage = Stage::upright().await;
    let key = || SigningKey::generate().unwrap();
    let company = || Enterprise::new(format!("{}/idp", stage.mcp.origin), "at-idp", "id-token");
    let auths: [&dyn Fn() -> Auth; 7] = [
        &|| Auth::client_credentials("me", "my-secret"),
        &|| Auth::client_credentials_key("me", key()),
        &|| Auth::workload("me", "my-assertion"),
        &|| Auth::enterprise(company()).client("me"),
        &|| Auth::enterprise(company()).client_secret("me", "my-secret"),
        &|| stage.auth().client_secret("me", "my-secret"),
        &|| stage.auth().client_key("me", key()),
    ];
    for auth in auths {
        let error = stage.knocker(auth()).refused("Bearer").await.unwrap_err();
        let option = format!("--issuer {}`", stage.issuer.origin);
        assert!(error.message.contains(&option), "{error}");
        assert!(error.message.contains("Auth::issuer"), "{error}");
        // If the callback returns false, nothing is sent.
        let no = auth().confirm_issuer(|_| async { false });
        let error = stage.knocker(no).refused("Bearer").await.unwrap_err();
        assert!(error.message.contains("not confirmed"), "{error}");
    }
    assert_eq!(stage.issuer.seen(), "");
    assert!(stage.mcp.at("/idp").is_empty() && stage.person.visits().is_empty());
    assert!(stage.token_store.list().await.unwrap().is_empty());
    // The callback is called once, with the issuer.
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = Arc::clone(&asked);
    let auth = Auth::client_credentials("me", "my-secret").confirm_issuer(move |issuer| {
        told.lock().unwrap().push(issuer);
        async { true }
    });
    let client = stage.knocker(auth);
    for _ in 0..2 {
        assert_eq!(client.refused("Bearer").await, Ok(true));
        client.accepted().await;
    }
    assert_eq!(*asked.lock().unwrap(), [stage.issuer.origin.as_str()]);
}

#[tokio::test]
async fn an_issuer_that_is_known_goes_before_one_that_is_not() {
    let issuers = Arc::default();
    let (stage, client) = inside(Arc::clone(&issuers)).await;
    let second = stage::issuer(as_usual()).await;
    *issuers.lock().unwrap() = vec![second.origin.clone(), stage.issuer.origin.clone()];
    assert_eq!(client.refused("Bearer").await, Ok(true));
    assert_eq!(second.paths(), Vec::<String>::new());
}

#[tokio::test]
async fn metadata_is_looked_for_in_the_specified_order() {
    // The issuer's path and the requested metadata URLs: all before the right one, and none after it.
    let cases: [(&str, &[&str]); 5] = [
        ("", &["/.well-known/oauth-authorization-server"]),
        ("", &["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"]),
        ("/t", &["/.well-known/oauth-authorization-server/t"]),
        (
            "/t",
            &["/.well-known/oauth-authorization-server/t", "/.well-known/openid-configuration/t"],
        ),
        (
            "/t",
            &[
                "/.well-known/oauth-authorization-server/t",
                "/.well-known/openid-configuration/t",
                "/t/.well-known/openid-configuration",
            ],
        ),
    ];
    for (path, places) in cases {
        let last = *places.last().unwrap();
        let tweak: Tweak = Arc::new(move |asked| {
            let origin = format!("http://{}", asked.header("host").unwrap());
            match asked.path.as_str() {
                it if it == last => {
                    let mut said = metadata(&origin);
                    said["issuer"] = format!("{origin}{path}").into();
                    Some(say(said))
                }
                it if it.contains(".well-known") => Some(refuse(404, "no")),
                _ => None,
            }
        });
        let issuer = stage::issuer(tweak).await;
        let named = format!("{}{path}", issuer.origin);
        let more = json!({"authorization_servers": [named]});
        let stage = Stage::describing(more, as_usual(), as_usual(), Person::agrees()).await;
        assert_eq!(stage.client().refused("Bearer").await, Ok(true), "{places:?}");
        assert_eq!(issuer.paths()[..places.len()], *places);
    }
}

#[tokio::test]
async fn a_server_says_where_its_metadata_is() {
    let stage = Stage::upright().await;
    // At the root, for the whole origin.
    let issuer = stage.issuer.origin.clone();
    let root = at("/.well-known/oauth-protected-resource", move |asked| {
        let origin = format!("http://{}", asked.header("host").unwrap());
        say(json!({"resource": origin, "authorization_servers": [issuer]}))
    });
    let nothing = at(PRM, |_| refuse(404, "no"));
    let both: Tweak = Arc::new(move |asked| root(asked).or_else(|| nothing(asked)));
    let moved = Stage::with(both, as_usual(), Person::agrees()).await;
    assert_eq!(moved.client().refused("Bearer").await, Ok(true));
    assert_eq!(moved.mcp.paths(), [PRM, "/.well-known/oauth-protected-resource"]);
    // Exactly as published: no slash is added.
    assert_eq!(moved.person.query(0)["resource"], moved.mcp.origin);

    // Only at the URL of the challenge.
    let hint = format!("Bearer resource_metadata=\"{}{PRM}\"", stage.mcp.origin);
    assert_eq!(stage.client().refused(&hint).await, Ok(true));
    assert_eq!(stage.mcp.paths(), [PRM]);
    let gone = format!("Bearer resource_metadata=\"{}/gone\"", stage.mcp.origin);
    let error = Stage::upright().await.client().refused(&gone).await.unwrap_err();
    assert!(error.message.contains("/gone"), "{error}");
}

#[tokio::test]
async fn servers_of_old_let_in_by_themselves() {
    // With metadata, and without: then at the default endpoints.
    for with_metadata in [true, false] {
        let tweak: Tweak = Arc::new(move |asked| {
            let origin = format!("http://{}", asked.header("host").unwrap());
            match asked.path.as_str() {
                "/.well-known/oauth-authorization-server" if with_metadata => {
                    Some(say(metadata(&origin)))
                }
                "/register" => Some(say(json!({"client_id": "old"}))),
                "/token" => Some(say(json!({"access_token": "old", "token_type": "Bearer"}))),
                _ => Some(refuse(404, "no")),
            }
        });
        let stage = Stage::with(tweak, as_usual(), Person::agrees()).await;
        let client = stage.client();
        assert_eq!(client.refused("Bearer").await, Ok(true));
        assert_eq!(client.authorization().await.as_deref(), Some("Bearer old"));
        assert_eq!(stage.person.visits()[0].url.path(), "/authorize");
        assert!(stage.issuer.asked().is_empty());
    }
}

#[tokio::test]
async fn a_secret_is_for_the_issuer_that_got_it_first() {
    let (first, second) = (Stage::upright().await, Stage::upright().await);
    let auths = [
        Auth::client_credentials("me", "my-secret").confirm_issuer(|_| async { true }),
        Auth::workload("me", "my-secret").confirm_issuer(|_| async { true }),
        Auth::code(first.person.clone()).client("me").confirm_issuer(|_| async { true }),
    ];
    for auth in auths {
        let other = auth.clone();
        assert_eq!(first.knocker(auth).refused("Bearer").await, Ok(true));
        let error = second.knocker(other.clone()).refused("Bearer").await.unwrap_err();
        assert!(error.message.contains("Auth::issuer"), "{error}");
        assert_eq!(second.issuer.paths(), Vec::<String>::new());
        // Unless the user names the issuer, or the credentials are others.
        let said = other.clone().issuer(&second.issuer.origin);
        assert_eq!(second.knocker(said).refused("Bearer").await, Ok(true));
        let another = Stage::upright().await;
        let client = another.knocker(other.client_secret("me-there", "secret-there"));
        assert_eq!(client.refused("Bearer").await, Ok(true));
        second.issuer.forget();
    }
}

#[tokio::test]
async fn a_server_of_old_gets_a_secret_only_if_it_is_meant() {
    let tweak: Tweak = Arc::new(move |asked| match asked.path.as_str() {
        "/token" => Some(say(json!({"access_token": "old", "token_type": "Bearer"}))),
        _ => Some(refuse(404, "no")),
    });
    let stage = Stage::with(tweak, as_usual(), Person::agrees()).await;
    let auth = Auth::client_credentials("me", "my-secret");
    let error = stage.knocker(auth.clone()).refused("Bearer").await.unwrap_err();
    assert!(error.message.contains("Auth::issuer"), "{error}");
    assert!(stage.mcp.at("/token").is_empty());
    let client = stage.knocker(auth.issuer(&stage.mcp.origin));
    assert_eq!(client.refused("Bearer").await, Ok(true));
}

#[tokio::test]
async fn metadata_that_moved_is_looked_for_again() {
    let moved = Arc::new(Mutex::new(false));
    let is_gone = Arc::clone(&moved);
    let named = Arc::new(Mutex::new(String::new()));
    let issuer = Arc::clone(&named);
    let tweak: Tweak = Arc::new(move |asked| {
        let origin = format!("http://{}", asked.header("host").unwrap());
        let said = json!({
            "resource": format!("{origin}/mcp"),
            "authorization_servers": [*issuer.lock().unwrap()],
        });
        let is_there = asked.path == if *is_gone.lock().unwrap() { PRM } else { "/here" };
        Some(if is_there { say(said) } else { refuse(404, "no") })
    });
    let stage = Stage::with(tweak, as_usual(), Person::agrees()).await;
    *named.lock().unwrap() = stage.issuer.origin.clone();
    let client = stage.client();
    let hint = format!("Bearer resource_metadata=\"{}/here\"", stage.mcp.origin);
    assert_eq!(client.refused(&hint).await, Ok(true));
    client.accepted().await;
    *moved.lock().unwrap() = true;
    assert_eq!(client.refused("Bearer").await, Ok(true));
    assert_eq!(stage.person.visits().len(), 1);
}

#[tokio::test]
async fn an_issuer_is_written_plainly() {
    for issuer in [
        "https://id.example/\n",
        " https://id.example",
        "https://me@id.example",
        "https://ïd.example",
        "https://id.example/\u{202e}moc.kcab",
        "https://id.example/\u{9b}2J",
    ] {
        let more = json!({"authorization_servers": [issuer]});
        let stage = Stage::describing(more, as_usual(), as_usual(), Person::agrees()).await;
        let error = stage.client().refused("Bearer").await.unwrap_err();
        assert!(error.message.contains("an issuer has no"), "{error}");
    }
}

/// A secret is for one issuer, even if logins of several issuers are removed together.
#[tokio::test]
async fn logging_out_shows_a_secret_to_its_own_issuer_only() {
    let stage = Stage::upright().await;
    stage.client().refused("Bearer").await.unwrap();
    stage.issuer.forget();
    let auth = Auth::client_credentials("me", "my-secret").token_store(stage.token_store.clone());
    assert_eq!(auth.issuer("https://id.example").logout(&stage.url()).await, Ok(1));
    let revoked = stage.issuer.at("/revoke");
    assert_eq!(revoked.len(), 2);
    assert!(revoked.iter().all(|it| it.field("client_id") == "registered"));
    assert!(!stage.issuer.seen().contains("my-secret"));
    assert!(revoked.iter().all(|it| it.header("authorization").is_none()));
}
