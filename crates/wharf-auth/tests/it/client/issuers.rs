//! Discovery and selection of the authorization server, and isolation between issuers.

use std::sync::{Arc, Mutex};

use serde_json::json;
use wharf_auth::{
    client::{Auth, Enterprise, TokenStore},
    jose::SigningKey,
};

use crate::client::fake_servers::{
    self, PRM, ResponseOverride, TestClient, TestSetup, TestUser, at, error_response,
    json_response, metadata, no_override,
};

/// A server whose metadata names the issuers in the list.
async fn server_with_issuers(issuers: Arc<Mutex<Vec<String>>>) -> TestSetup {
    let named = issuers.clone();
    let prm = at(PRM, move |asked| {
        let origin = format!("http://{}", asked.header("host").unwrap());
        let issuers = named.lock().unwrap().clone();
        json_response(
            json!({"resource": format!("{origin}/mcp"), "authorization_servers": issuers}),
        )
    });
    let with_secret = at("/register", |_| {
        json_response(json!({"client_id": "first-client", "client_secret": "first-secret"}))
    });
    let setup = TestSetup::with(prm, with_secret, TestUser::consenting()).await;
    *issuers.lock().unwrap() = vec![setup.issuer.origin.clone()];
    setup
}

/// The same with an authorized client.
async fn authorized_client(issuers: Arc<Mutex<Vec<String>>>) -> (TestSetup, TestClient) {
    let setup = server_with_issuers(issuers).await;
    let client = setup.client();
    client.rejected("Bearer").await.unwrap();
    client.accepted().await;
    (setup, client)
}

#[tokio::test]
async fn credentials_of_one_issuer_are_not_sent_to_another() {
    let issuers = Arc::default();
    let (setup, client) = authorized_client(Arc::clone(&issuers)).await;
    let second = fake_servers::issuer(no_override()).await;
    *issuers.lock().unwrap() = vec![second.origin.clone()];
    // The metadata that is kept with the login still names the first issuer, which refreshes the token. The server
    // rejects that one, too, so the metadata is discovered again.
    assert_eq!(client.rejected("Bearer error=\"invalid_token\"").await, Ok(true));
    assert_eq!(second.paths(), Vec::<String>::new());
    assert_eq!(client.rejected("Bearer error=\"invalid_token\"").await, Ok(true));
    let seen = second.received_text();
    for secret in ["first-client", "first-secret", "access-1", "refresh-1", "access-2", "refresh-2"]
    {
        // The second issuer's own tokens have the same names, but it does not receive them in requests.
        assert!(!seen.contains(secret), "{secret}: {seen}");
    }
    assert_eq!(second.at("/register").len(), 1);
    assert_eq!(setup.user.authorizations()[1].issuer, second.origin);
    // The old tokens are removed, but the registration at the old issuer is kept.
    let keys = setup.token_store.list().await.unwrap();
    let old = keys.iter().find(|it| it.issuer == setup.issuer.origin).unwrap();
    let old = setup.token_store.load(old).await.unwrap().unwrap();
    assert_eq!((old.tokens, old.registration.unwrap().client_id), (None, "first-client".into()));
}

#[tokio::test]
async fn configured_credentials_are_not_sent_to_another_issuer() {
    let second = fake_servers::issuer(no_override()).await;
    for pinned in [true, false] {
        let issuers = Arc::default();
        let setup = server_with_issuers(Arc::clone(&issuers)).await;
        let auth =
            Auth::client_credentials("me", "my-secret").token_store(setup.token_store.clone());
        let auth = match pinned {
            true => auth.issuer(&setup.issuer.origin),
            false => auth.confirm_issuer(|_| async { true }),
        };
        let client = setup.client_with(auth);
        client.rejected("Bearer").await.unwrap();
        client.accepted().await;
        *issuers.lock().unwrap() = vec![second.origin.clone()];
        // A refresh at the issuer of the login, and then what the server names now.
        assert_eq!(client.rejected("Bearer").await, Ok(true));
        let error = client.rejected("Bearer").await.unwrap_err();
        assert!(error.message.contains("nothing was sent"), "{error}");
    }
    assert_eq!(second.paths(), Vec::<String>::new());
}

/// CVE-2026-104850 (TypeScript SDK) and WS-2026-0196 (FastMCP): the MCP server's metadata chose which authorization
/// server got the client's secret. Without an issuer of the user's choice nothing is sent there at all.
#[tokio::test]
async fn a_secret_a_key_or_an_assertion_needs_an_issuer() {
    let setup = TestSetup::default_setup().await;
    let key = || SigningKey::generate().unwrap();
    let company = || Enterprise::new(format!("{}/idp", setup.mcp.origin), "at-idp", "id-token");
    let auths: [&dyn Fn() -> Auth; 7] = [
        &|| Auth::client_credentials("me", "my-secret"),
        &|| Auth::client_credentials_key("me", key()),
        &|| Auth::workload("me", "my-assertion"),
        &|| Auth::enterprise(company()).client("me"),
        &|| Auth::enterprise(company()).client_secret("me", "my-secret"),
        &|| setup.auth().client_secret("me", "my-secret"),
        &|| setup.auth().client_key("me", key()),
    ];
    for auth in auths {
        let error = setup.client_with(auth()).rejected("Bearer").await.unwrap_err();
        let option = format!("--issuer {}`", setup.issuer.origin);
        assert!(error.message.contains(&option), "{error}");
        assert!(error.message.contains("Auth::issuer"), "{error}");
        // If the callback returns false, nothing is sent.
        let no = auth().confirm_issuer(|_| async { false });
        let error = setup.client_with(no).rejected("Bearer").await.unwrap_err();
        assert!(error.message.contains("not confirmed"), "{error}");
    }
    assert_eq!(setup.issuer.received_text(), "");
    assert!(setup.mcp.at("/idp").is_empty() && setup.user.authorizations().is_empty());
    assert!(setup.token_store.list().await.unwrap().is_empty());
    // The callback is called once, with the issuer.
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = Arc::clone(&asked);
    let auth = Auth::client_credentials("me", "my-secret").confirm_issuer(move |issuer| {
        told.lock().unwrap().push(issuer);
        async { true }
    });
    let client = setup.client_with(auth);
    for _ in 0..2 {
        assert_eq!(client.rejected("Bearer").await, Ok(true));
        client.accepted().await;
    }
    assert_eq!(*asked.lock().unwrap(), [setup.issuer.origin.as_str()]);
}

#[tokio::test]
async fn a_known_issuer_is_preferred() {
    let issuers = Arc::default();
    let (setup, client) = authorized_client(Arc::clone(&issuers)).await;
    let second = fake_servers::issuer(no_override()).await;
    *issuers.lock().unwrap() = vec![second.origin.clone(), setup.issuer.origin.clone()];
    assert_eq!(client.rejected("Bearer").await, Ok(true));
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
        let overridden: ResponseOverride = Arc::new(move |asked| {
            let origin = format!("http://{}", asked.header("host").unwrap());
            match asked.path.as_str() {
                it if it == last => {
                    let mut document = metadata(&origin);
                    document["issuer"] = format!("{origin}{path}").into();
                    Some(json_response(document))
                }
                it if it.contains(".well-known") => Some(error_response(404, "no")),
                _ => None,
            }
        });
        let issuer = fake_servers::issuer(overridden).await;
        let named = format!("{}{path}", issuer.origin);
        let more = json!({"authorization_servers": [named]});
        let setup =
            TestSetup::with_metadata(more, no_override(), no_override(), TestUser::consenting())
                .await;
        assert_eq!(setup.client().rejected("Bearer").await, Ok(true), "{places:?}");
        assert_eq!(issuer.paths()[..places.len()], *places);
    }
}

#[tokio::test]
async fn a_challenge_has_the_metadata_url() {
    let setup = TestSetup::default_setup().await;
    // Metadata at the root is valid for the whole origin.
    let issuer = setup.issuer.origin.clone();
    let root = at("/.well-known/oauth-protected-resource", move |asked| {
        let origin = format!("http://{}", asked.header("host").unwrap());
        json_response(json!({"resource": origin, "authorization_servers": [issuer]}))
    });
    let nothing = at(PRM, |_| error_response(404, "no"));
    let both: ResponseOverride = Arc::new(move |asked| root(asked).or_else(|| nothing(asked)));
    let moved = TestSetup::with(both, no_override(), TestUser::consenting()).await;
    assert_eq!(moved.client().rejected("Bearer").await, Ok(true));
    assert_eq!(moved.mcp.paths(), [PRM, "/.well-known/oauth-protected-resource"]);
    // The resource is sent exactly as published: no slash is added.
    assert_eq!(moved.user.query(0)["resource"], moved.mcp.origin);

    // The metadata is requested only at the URL in the challenge.
    let hint = format!("Bearer resource_metadata=\"{}{PRM}\"", setup.mcp.origin);
    assert_eq!(setup.client().rejected(&hint).await, Ok(true));
    assert_eq!(setup.mcp.paths(), [PRM]);
    let gone = format!("Bearer resource_metadata=\"{}/gone\"", setup.mcp.origin);
    let error = TestSetup::default_setup().await.client().rejected(&gone).await.unwrap_err();
    assert!(error.message.contains("/gone"), "{error}");
}

#[tokio::test]
async fn servers_without_resource_metadata_are_their_own_issuer() {
    // With metadata of the authorization server, and without it, at the default endpoints.
    for with_metadata in [true, false] {
        let overridden: ResponseOverride = Arc::new(move |asked| {
            let origin = format!("http://{}", asked.header("host").unwrap());
            match asked.path.as_str() {
                "/.well-known/oauth-authorization-server" if with_metadata => {
                    Some(json_response(metadata(&origin)))
                }
                "/register" => Some(json_response(json!({"client_id": "old"}))),
                "/token" => {
                    Some(json_response(json!({"access_token": "old", "token_type": "Bearer"})))
                }
                _ => Some(error_response(404, "no")),
            }
        });
        let setup = TestSetup::with(overridden, no_override(), TestUser::consenting()).await;
        let client = setup.client();
        assert_eq!(client.rejected("Bearer").await, Ok(true));
        assert_eq!(client.authorization().await.as_deref(), Some("Bearer old"));
        assert_eq!(setup.user.authorizations()[0].url.path(), "/authorize");
        assert!(setup.issuer.asked().is_empty());
    }
}

#[tokio::test]
async fn a_secret_is_for_the_issuer_that_got_it_first() {
    let (first, second) = (TestSetup::default_setup().await, TestSetup::default_setup().await);
    let auths = [
        Auth::client_credentials("me", "my-secret").confirm_issuer(|_| async { true }),
        Auth::workload("me", "my-secret").confirm_issuer(|_| async { true }),
        Auth::code(first.user.clone()).client("me").confirm_issuer(|_| async { true }),
    ];
    for auth in auths {
        let other = auth.clone();
        assert_eq!(first.client_with(auth).rejected("Bearer").await, Ok(true));
        let error = second.client_with(other.clone()).rejected("Bearer").await.unwrap_err();
        assert!(error.message.contains("Auth::issuer"), "{error}");
        assert_eq!(second.issuer.paths(), Vec::<String>::new());
        // The credentials are sent if the user names the issuer, or if they are other credentials.
        let document = other.clone().issuer(&second.issuer.origin);
        assert_eq!(second.client_with(document).rejected("Bearer").await, Ok(true));
        let another = TestSetup::default_setup().await;
        let client = another.client_with(other.client_secret("me-there", "secret-there"));
        assert_eq!(client.rejected("Bearer").await, Ok(true));
        second.issuer.clear_requests();
    }
}

#[tokio::test]
async fn a_server_without_metadata_gets_a_secret_only_if_named() {
    let overridden: ResponseOverride = Arc::new(move |asked| match asked.path.as_str() {
        "/token" => Some(json_response(json!({"access_token": "old", "token_type": "Bearer"}))),
        _ => Some(error_response(404, "no")),
    });
    let setup = TestSetup::with(overridden, no_override(), TestUser::consenting()).await;
    let auth = Auth::client_credentials("me", "my-secret");
    let error = setup.client_with(auth.clone()).rejected("Bearer").await.unwrap_err();
    assert!(error.message.contains("Auth::issuer"), "{error}");
    assert!(setup.mcp.at("/token").is_empty());
    let client = setup.client_with(auth.issuer(&setup.mcp.origin));
    assert_eq!(client.rejected("Bearer").await, Ok(true));
}

#[tokio::test]
async fn metadata_that_moved_is_looked_for_again() {
    let moved = Arc::new(Mutex::new(false));
    let is_gone = Arc::clone(&moved);
    let named = Arc::new(Mutex::new(String::new()));
    let issuer = Arc::clone(&named);
    let overridden: ResponseOverride = Arc::new(move |asked| {
        let origin = format!("http://{}", asked.header("host").unwrap());
        let document = json!({
            "resource": format!("{origin}/mcp"),
            "authorization_servers": [*issuer.lock().unwrap()],
        });
        let is_there = asked.path == if *is_gone.lock().unwrap() { PRM } else { "/here" };
        Some(if is_there { json_response(document) } else { error_response(404, "no") })
    });
    let setup = TestSetup::with(overridden, no_override(), TestUser::consenting()).await;
    *named.lock().unwrap() = setup.issuer.origin.clone();
    let client = setup.client();
    let hint = format!("Bearer resource_metadata=\"{}/here\"", setup.mcp.origin);
    assert_eq!(client.rejected(&hint).await, Ok(true));
    client.accepted().await;
    *moved.lock().unwrap() = true;
    assert_eq!(client.rejected("Bearer").await, Ok(true));
    assert_eq!(setup.user.authorizations().len(), 1);
}

#[tokio::test]
async fn disguised_issuers_are_rejected() {
    for issuer in [
        "https://id.example/\n",
        " https://id.example",
        "https://me@id.example",
        "https://ïd.example",
        "https://id.example/\u{202e}moc.kcab",
        "https://id.example/\u{9b}2J",
    ] {
        let more = json!({"authorization_servers": [issuer]});
        let setup =
            TestSetup::with_metadata(more, no_override(), no_override(), TestUser::consenting())
                .await;
        let error = setup.client().rejected("Bearer").await.unwrap_err();
        assert!(error.message.contains("an issuer has no"), "{error}");
    }
}

/// A secret is for one issuer, even if logins of several issuers are removed together.
#[tokio::test]
async fn logout_sends_a_secret_to_its_own_issuer_only() {
    let setup = TestSetup::default_setup().await;
    setup.client().rejected("Bearer").await.unwrap();
    setup.issuer.clear_requests();
    let auth = Auth::client_credentials("me", "my-secret").token_store(setup.token_store.clone());
    assert_eq!(auth.issuer("https://id.example").logout(&setup.url()).await, Ok(1));
    let revoked = setup.issuer.at("/revoke");
    assert_eq!(revoked.len(), 2);
    assert!(revoked.iter().all(|it| it.field("client_id") == "registered"));
    assert!(!setup.issuer.received_text().contains("my-secret"));
    assert!(revoked.iter().all(|it| it.header("authorization").is_none()));
}
