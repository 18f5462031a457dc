//! Validation of the protected resource metadata.

use std::sync::Arc;

use serde_json::json;

use crate::stage::{self, Knocker, Person, Stage, Tweak, as_usual, refuse, say};

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
const SERVER: &str = "/team/mcp";

/// Sends a challenge for a server at `/team/mcp` whose metadata for `resource` is only at `place`. Returns
/// true if the client authorized.
async fn is_believed(place: &str, is_told: bool, resource: &str) -> bool {
    let issuer = stage::issuer(as_usual()).await;
    let (named, at, path) = (issuer.origin.clone(), place.to_owned(), resource.to_owned());
    let tweak: Tweak = Arc::new(move |asked| {
        let resource = format!("http://{}{path}", asked.header("host").unwrap());
        let said = json!({"resource": resource, "authorization_servers": [named]});
        Some(if asked.path == at { say(said) } else { refuse(404, "no") })
    });
    let stage = Stage::with(tweak, as_usual(), Person::agrees()).await;
    let url = format!("{}{SERVER}", stage.mcp.origin);
    let client = Knocker { credentials: stage.auth().at(&url).unwrap(), url };
    let challenge = match is_told {
        true => format!("Bearer resource_metadata=\"{}{place}\"", stage.mcp.origin),
        false => "Bearer".to_owned(),
    };
    match client.refused(&challenge).await {
        Ok(got_in) => {
            // The token request names the resource exactly as published.
            let asked_for = stage.person.query(0)["resource"].clone();
            assert_eq!(asked_for, format!("{}{resource}", stage.mcp.origin));
            // The metadata is found again.
            client.accepted().await;
            assert_eq!(client.refused("Bearer").await, Ok(true));
            got_in
        }
        Err(error) => {
            assert!(error.message.contains("another server"), "{error}");
            assert!(issuer.asked().is_empty() && stage.person.visits().is_empty());
            false
        }
    }
}

#[tokio::test]
async fn metadata_is_for_the_server_and_no_other() {
    let own = format!("{WELL_KNOWN}{SERVER}");
    // At its own path, or where the challenge points: for exactly this server.
    for (place, is_told) in [(own.as_str(), false), (&own, true), ("/custom.json", true)] {
        for resource in [SERVER, "/team/mcp/"] {
            assert!(is_believed(place, is_told, resource).await, "{place} {resource}");
        }
        for resource in
            ["", "/", "/team", "/tea", "/team/mcp2", "/team/mcp/more", "/team/mcp?x", "/team/mcp#x"]
        {
            assert!(!is_believed(place, is_told, resource).await, "{place} {resource}");
        }
    }
}

#[tokio::test]
async fn metadata_at_the_root_may_be_for_the_whole_origin() {
    for is_told in [false, true] {
        for resource in ["", "/", SERVER] {
            assert!(is_believed(WELL_KNOWN, is_told, resource).await, "{is_told} {resource}");
        }
        for resource in ["/team", "/other"] {
            assert!(!is_believed(WELL_KNOWN, is_told, resource).await, "{is_told} {resource}");
        }
    }
    // Not in between, even if the resource matches the path.
    assert!(!is_believed(&format!("{WELL_KNOWN}/team"), true, "/team").await);
}
