//! Static tokens and functions.

use wharf_auth::server::{RequestHead, StaticToken, from_async_fn, from_fn};
use wharf_model::{AuthRejection, AuthRequest, Authenticator, Principal};

use wharf_testbed::fake_issuer::{ISSUER, METADATA, SERVER, TestRequest};

#[tokio::test]
async fn static_tokens_are_compared_completely() {
    let authenticator = StaticToken::new("s3cr3t", Principal::new("alice").with_scope("a"))
        .and("t0ps3cr3t", Principal::new("bob"));
    let id = async |token: &str| {
        TestRequest::bearer(token)
            .authenticate(&authenticator)
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
    assert_eq!(
        TestRequest::without_token().challenge(&authenticator).await,
        (401, "Bearer".to_owned())
    );
    assert!(!format!("{authenticator:?}").contains("s3cr3t"));
    assert_eq!(StaticToken::new("", Principal::new("anybody")).problems().len(), 1);
}

#[tokio::test]
async fn a_function_can_authenticate() {
    let now = from_fn(|request: &AuthRequest<'_>| {
        request.scope.get::<Principal>().cloned().ok_or(AuthRejection::new(401, "Log in first"))
    })
    .resource(SERVER)
    .issuer(ISSUER);
    let mut request = TestRequest::without_token();
    assert_eq!(request.challenge(&now).await, (401, format!("Bearer {METADATA}")));
    request.scope.insert(Principal::new("carol"));
    assert_eq!(request.authenticate(&now).await.unwrap().principal.id(), "carol");

    let later = from_async_fn(async |head: RequestHead| {
        tokio::task::yield_now().await;
        match head.bearer() {
            Some("for-alice") => Ok(Principal::new("alice")),
            Some(_) => Err(AuthRejection::new(403, "Not you")),
            None => Err(AuthRejection::new(401, "Who?")),
        }
    });
    assert_eq!(
        TestRequest::bearer("for-alice").authenticate(&later).await.unwrap().principal.id(),
        "alice"
    );
    assert_eq!(TestRequest::bearer("x").rejected(&later).await, (403, Vec::new()));
    assert_eq!(TestRequest::without_token().challenge(&later).await, (401, "Bearer".to_owned()));
}
