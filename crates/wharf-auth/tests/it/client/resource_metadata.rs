//! Validation of the protected resource metadata.

use std::sync::Arc;

use serde_json::json;

use crate::client::fake_servers::{
    self, ResponseOverride, TestClient, TestSetup, TestUser, error_response, json_response,
    no_override,
};

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
const SERVER: &str = "/team/mcp";

/// Sends a challenge for a server at `/team/mcp` whose metadata for `resource` is only at `place`. Returns
/// true if the client authorized.
async fn is_accepted(place: &str, is_named: bool, resource: &str) -> bool {
    let issuer = fake_servers::issuer(no_override()).await;
    let (named, at, path) = (issuer.origin.clone(), place.to_owned(), resource.to_owned());
    let overridden: ResponseOverride = Arc::new(move |asked| {
        let resource = format!("http://{}{path}", asked.header("host").unwrap());
        let document = json!({"resource": resource, "authorization_servers": [named]});
        Some(if asked.path == at { json_response(document) } else { error_response(404, "no") })
    });
    let setup = TestSetup::with(overridden, no_override(), TestUser::consenting()).await;
    let url = format!("{}{SERVER}", setup.mcp.origin);
    let client = TestClient { credentials: setup.auth().at(&url).unwrap(), url };
    let challenge = match is_named {
        true => format!("Bearer resource_metadata=\"{}{place}\"", setup.mcp.origin),
        false => "Bearer".to_owned(),
    };
    match client.rejected(&challenge).await {
        Ok(got_in) => {
            // The token request names the resource exactly as published.
            let asked_for = setup.user.query(0)["resource"].clone();
            assert_eq!(asked_for, format!("{}{resource}", setup.mcp.origin));
            // The metadata is found again.
            client.accepted().await;
            assert_eq!(client.rejected("Bearer").await, Ok(true));
            got_in
        }
        Err(error) => {
            assert!(error.message.contains("another server"), "{error}");
            assert!(issuer.asked().is_empty() && setup.user.authorizations().is_empty());
            false
        }
    }
}

#[tokio::test]
async fn metadata_is_for_the_server_and_no_other() {
    let own = format!("{WELL_KNOWN}{SERVER}");
    // At its own path, or at the URL in the challenge: valid for exactly this server.
    for (place, is_named) in [(own.as_str(), false), (&own, true), ("/custom.json", true)] {
        for resource in [SERVER, "/team/mcp/"] {
            assert!(is_accepted(place, is_named, resource).await, "{place} {resource}");
        }
        for resource in
            ["", "/", "/team", "/tea", "/team/mcp2", "/team/mcp/more", "/team/mcp?x", "/team/mcp#x"]
        {
            assert!(!is_accepted(place, is_named, resource).await, "{place} {resource}");
        }
    }
}

#[tokio::test]
async fn metadata_at_the_root_may_be_for_the_whole_origin() {
    for is_named in [false, true] {
        for resource in ["", "/", SERVER] {
            assert!(is_accepted(WELL_KNOWN, is_named, resource).await, "{is_named} {resource}");
        }
        for resource in ["/team", "/other"] {
            assert!(!is_accepted(WELL_KNOWN, is_named, resource).await, "{is_named} {resource}");
        }
    }
    // Not at a path between the root and the server's, even if the resource matches the path.
    assert!(!is_accepted(&format!("{WELL_KNOWN}/team"), true, "/team").await);
}
