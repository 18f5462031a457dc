//! Key rotation.

use super::start;
use crate::support::protected::tool_text;

mod tests {
    crate::oidc::tests! { key_rotation_keeps_old_records_readable keys_are_not_fetched_for_each_token }
}

async fn key_rotation_keeps_old_records_readable() {
    let (issuer, server) = start().await;
    let before = issuer.token(&server.resource, "files:read").await;
    assert_eq!(tool_text(&server.call_with("whoami", &before).await), "machine: files:read");

    issuer.rotate_keys(true).await;
    let after = issuer.token(&server.resource, "files:write").await;
    assert_eq!(tool_text(&server.call_with("whoami", &after).await), "machine: files:write");
    // The old key is valid for as long as it is published.
    assert_eq!(tool_text(&server.call_with("whoami", &before).await), "machine: files:read");

    // A second rotation right after the first: it must be detected although the keys were just fetched.
    issuer.rotate_keys(false).await;
    let last = issuer.token(&server.resource, "files:read").await;
    assert_eq!(tool_text(&server.call_with("whoami", &last).await), "machine: files:read");
}

async fn keys_are_not_fetched_for_each_token() {
    let (issuer, server) = start().await;
    let token = issuer.token(&server.resource, "files:read").await;
    for _ in 0..5 {
        assert_eq!(tool_text(&server.call_with("whoami", &token).await), "machine: files:read");
    }
    // Unknown key ids cause a refetch of the key set, but at a limited rate.
    let (_, rest) = token.split_once('.').unwrap();
    for number in 0..50 {
        let header = format!(r#"{{"alg":"ES256","typ":"at+jwt","kid":"made up {number}"}}"#);
        let made_up = format!("{}.{rest}", wharf_auth::jose::b64(header.as_bytes()));
        // Once the rate limit is reached, the server cannot determine if the key exists.
        let expected = if number < 4 { 401 } else { 503 };
        assert_eq!(server.call_with("whoami", &made_up).await.status, expected, "{number}");
    }
    let fetched = issuer.seen().await.iter().filter(|it| it.path == "/jwks").count();
    assert!((1..=6).contains(&fetched), "the keys were fetched {fetched} times");
}
