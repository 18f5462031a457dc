//! Rejected tokens, and the challenges for them.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::{PAST_EXPIRY, start};
use crate::support::authorization::AuthorizationServer;
use crate::support::protected::{challenge, tool_text};

mod tests {
    crate::oidc::tests! {
        a_call_without_a_token_is_rejected a_token_for_another_audience a_token_of_another_issuer an_expired_token a_token_that_was_changed
        too_few_scopes an_unauthenticated_client_with_a_slow_body
    }
}

async fn a_call_without_a_token_is_rejected() {
    let (issuer, server) = start().await;
    let answer = server.call("whoami", &[]).await;
    assert_eq!(answer.status, 401);
    let metadata = server.metadata();
    assert_eq!(challenge(&answer), format!(r#"Bearer resource_metadata="{metadata}""#));

    let page = wharf_auth::fetch::Fetch::new().get(&metadata, http::HeaderMap::new()).await;
    let page: serde_json::Value = page.unwrap().json().unwrap();
    assert_eq!(page["resource"], server.resource);
    assert_eq!(page["authorization_servers"], json!([issuer.issuer]));
    assert_eq!(page["bearer_methods_supported"], json!(["header"]));
}

async fn a_token_for_another_audience() {
    let (issuer, server) = start().await;
    let ours = issuer.token(&server.resource, "files:read").await;
    assert_eq!(tool_text(&server.call_with("whoami", &ours).await), "machine: files:read");

    let elsewhere = server.resource.replace("/mcp", "/other");
    let other = issuer.token(&elsewhere, "files:read").await;
    let answer = server.call_with("whoami", &other).await;
    assert_eq!(answer.status, 401);
    assert!(challenge(&answer).contains(r#"error="invalid_token""#), "{}", challenge(&answer));
    // Neither contains data of the token.
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(!body.contains(&elsewhere) && !challenge(&answer).contains(&elsewhere), "{body}");
}

async fn a_token_of_another_issuer() {
    let (_issuer, server) = start().await;
    let stranger = AuthorizationServer::start().await;
    let token = stranger.token(&server.resource, "files:read").await;
    let answer = server.call_with("whoami", &token).await;
    assert_eq!(answer.status, 401);
    assert!(challenge(&answer).contains(r#"error="invalid_token""#), "{}", challenge(&answer));
    // No keys were requested from the issuer that the token names.
    assert!(stranger.seen().await.iter().all(|it| it.path != "/jwks"));
}

async fn an_expired_token() {
    let (issuer, server) = start().await;
    issuer.set(json!({"ttl": 2})).await;
    let token = issuer.token(&server.resource, "files:read").await;
    assert_eq!(tool_text(&server.call_with("whoami", &token).await), "machine: files:read");
    // An expired token is rejected although it was accepted before.
    tokio::time::sleep(PAST_EXPIRY).await;
    let answer = server.call_with("whoami", &token).await;
    assert_eq!(answer.status, 401);
    assert!(challenge(&answer).contains(r#"error="invalid_token""#), "{}", challenge(&answer));
}

async fn a_token_that_was_changed() {
    let (issuer, server) = start().await;
    let token = issuer.token(&server.resource, "files:read").await;
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let (first, rest) = signature.split_at(1);
    let other = if first == "A" { "B" } else { "A" };
    let answer = server.call_with("whoami", &format!("{signed}.{other}{rest}")).await;
    assert_eq!(answer.status, 401);
    assert!(challenge(&answer).contains(r#"error="invalid_token""#), "{}", challenge(&answer));
}

async fn too_few_scopes() {
    let (issuer, server) = start().await;
    let token = issuer.token(&server.resource, "files:read").await;
    assert_eq!(tool_text(&server.call_with("read_file", &token).await), "log, as machine read it");
    let answer = server.call_with("write_file", &token).await;
    assert_eq!(answer.status, 403);
    let challenge = challenge(&answer);
    assert!(challenge.contains(r#"error="insufficient_scope""#), "{challenge}");
    assert!(challenge.contains(r#"scope="files:read files:write""#), "{challenge}");
    assert!(challenge.contains(&server.metadata()), "{challenge}");
}

/// Some clients send head and body separately, then request the metadata on the same connection.
async fn an_unauthenticated_client_with_a_slow_body() {
    let (_issuer, server) = start().await;
    let address = server.resource.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
    let mut stream = BufReader::new(TcpStream::connect(address).await.unwrap());
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    stream.write_all(b"{}").await.unwrap();
    assert_eq!(status(&mut stream).await, "HTTP/1.1 401 Unauthorized");

    let next = "/.well-known/oauth-protected-resource/mcp";
    let head = format!("GET {next} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(status(&mut stream).await, "HTTP/1.1 200 OK");
}

/// Reads the next response completely and returns its status line.
async fn status(stream: &mut BufReader<TcpStream>) -> String {
    let (mut status, mut line, mut length) = (String::new(), String::new(), 0);
    stream.read_line(&mut status).await.unwrap();
    while line != "\r\n" {
        line.clear();
        assert_ne!(stream.read_line(&mut line).await.unwrap(), 0, "{status:?}, and then nothing");
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    status.trim_end().to_owned()
}
