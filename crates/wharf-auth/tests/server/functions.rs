//! Static tokens and functions.

use wharf_auth::server::{RequestHead, StaticToken, from_fn, from_async_fn};
use wharf_model::{AuthRejection, AuthRequest, Authenticator, Principal};

use crate::bed::{ISSUER, METADATA, SERVER, UserAgentSession};

#[tokio::test]
async fn secrets_are_known_whole() {
    let authority = StaticToken::new("s3cr3t", Principal::new("alice").with_scope("a"))
        .and("t0ps3cr3t", Principal::new("bob"));
    let id = async |token: &str| {
        UserAgentSession::bearer(token)
            .request(&authority)
            .await
            .map(|pass| pass.principal.id().to_owned())
    };
    assert_eq!(id("s3cr3t").await.unwrap(), "alice");
    assert_eq!(id("t0ps3cr3t").await.unwrap(), "bob");
    for token in ["s3cr3", "s3cr3t1", "S3CR3T", "x"] {
        let denied = id(token).await.unwrap_err();
        assert_eq!(
            denied.headers["www-authenticate"],
            r#"Bearer error="invalid_token", error_description="The token is unknown""#
        );
    }
    assert_eq!(UserAgentSession::nobody().challenge(&authority).await, (401, "Bearer".to_owned()));
    assert!(!format!("{authority:?}").contains("s3cr3t"));
    assert_eq!(StaticToken::new("", Principal::new("anybody")).problems().len(), 1);
}

#[tokio::test]
async fn functions_decide() {
    let now = from_fn(|request: &AuthRequest<'_>| {
        request.scope.get::<Principal>().cloned().ok_or(AuthRejection::new(401, "Log in first"))
    })
    .resource(SERVER)
    .issuer(ISSUER);
    let mut session = UserAgentSession::nobody();
    assert_eq!(session.challenge(&now).await, (401, format!("Bearer {METADATA}")));
    session.scope.insert(Principal::new("carol"));
    assert_eq!(session.request(&now).await.unwrap().principal.id(), "carol");

    let later = from_async_fn(async |head: RequestHead| {
        tokio::task::yield_now().await;
        match head.bearer() {
            Some("for-alice") => Ok(Principal::new("alice")),
            Some(_) => Err(AuthRejection::new(403, "Not you")),
            None => Err(AuthRejection::new(401, "Who?")),
        }
    });
    assert_eq!(
        UserAgentSession::bearer("for-alice").request(&later).await.unwrap().principal.id(),
        "alice"
    );
    assert_eq!(UserAgentSession::bearer("x").refused(&later).await, (403, Vec::new()));
    assert_eq!(UserAgentSession::nobody().challenge(&later).await, (401, "Bearer".to_owned()));
}
