//! Access to sessions: session ids, owners and rejections.

use serde_json::json;

use super::support::{BOTH, EVENTS, JSON, NEWEST, SessionClient, SessionServer, tool};

#[tokio::test(start_paused = true)]
async fn initialize_opens_a_session_with_an_unpredictable_id() {
    let server = SessionServer::new();
    let mut ids = Vec::new();
    for revision in ["2025-03-26", "2025-06-18", NEWEST] {
        let client = server.client(revision).await;
        let id = client.session.clone().unwrap();
        assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        let answer = client.tool(1, "now").await;
        assert_eq!(answer.session, None);
        assert_eq!(answer.json().await["result"]["content"][0]["text"], "now");
        ids.push(id);
    }
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_id_that_the_client_chose_opens_nothing() {
    let server = SessionServer::new();
    let mut client = server.client_without_session(NEWEST);
    for id in ["0123456789abcdef0123456789abcdef", "0", "", "session"] {
        client.session = Some(id.to_owned());
        assert_eq!(client.initialize("test").await.status, 404, "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_id_has_one_spelling() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    let id = client.session.clone().unwrap();
    let spellings = [id.to_uppercase(), format!("0{id}"), format!("+{id}"), format!("{id}0")];
    for session in spellings.into_iter().filter(|it| *it != id) {
        let other = SessionClient { session: Some(session.clone()), ..client.clone() };
        assert_eq!(other.tool(1, "now").await.status, 404, "{session}");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_that_need_a_session_are_rejected_without_one() {
    let server = SessionServer::new();
    let client_without_session = server.client_without_session(NEWEST);
    for message in [
        tool(1, "now", json!({})),
        json!([tool(1, "now", json!({}))]),
        json!([client_without_session.hello("test")]),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    ] {
        let answer = client_without_session.post(message.clone()).await;
        assert_eq!((answer.status, answer.session), (400, None), "{message}");
    }
    assert_eq!(client_without_session.get(None).await.status, 400);
    assert_eq!(client_without_session.delete().await.status, 400);
    assert_eq!(server.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn several_ids_are_refused() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    let id = client.session.clone().unwrap();
    for verb in ["POST", "GET", "DELETE"] {
        let request = client.request(verb).header("mcp-session-id", &id);
        let request = request.header("accept", BOTH).header("content-type", JSON);
        let answer = client.send(request, tool(1, "now", json!({})).to_string()).await;
        assert_eq!(answer.status, 400, "{verb}");
    }
    assert_eq!(client.tool(1, "now").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn an_unsupported_version_is_rejected_by_every_method() {
    let server = SessionServer::new();
    let mut client = server.client(NEWEST).await;
    client.revision = "1999-01-01".into();
    assert_eq!(client.tool(1, "now").await.status, 400);
    assert_eq!(client.get(None).await.status, 400);
    assert_eq!(client.delete().await.status, 400);
    client.revision = NEWEST.into();
    assert_eq!(client.tool(1, "now").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_get_stream_requires_accept_event_stream() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    let request = client.request("GET").header("accept", JSON);
    assert_eq!(client.send(request, String::new()).await.status, 406);
    let request = client.request("GET").header("accept", "text/*");
    let answer = client.send(request, String::new()).await;
    assert_eq!((answer.status, &*answer.kind), (200, EVENTS));
}

#[tokio::test(start_paused = true)]
async fn only_the_owner_can_use_a_session() {
    let server = SessionServer::new();
    let owners = [None, Some("alice")];
    for owner in owners {
        let mut client = server.client_without_session(NEWEST);
        client.principal = owner;
        client.open().await;
        let mut own = client.get(None).await;
        let primed = own.next().await.unwrap().id;
        for other in [None, Some("alice"), Some("bob"), Some("")] {
            if other == owner {
                continue;
            }
            let thief = SessionClient { principal: other, ..client.clone() };
            let nobody = SessionClient {
                session: Some("00000000000000000000000000000000".into()),
                ..thief.clone()
            };
            for (stolen, unknown) in [
                (thief.tool(1, "now").await, nobody.tool(1, "now").await),
                (thief.initialize("x").await, nobody.initialize("x").await),
                (thief.get(None).await, nobody.get(None).await),
                (thief.get(Some(&primed)).await, nobody.get(Some(&primed)).await),
                (thief.delete().await, nobody.delete().await),
            ] {
                assert_eq!((stolen.status, unknown.status), (404, 404), "{owner:?} {other:?}");
                assert_eq!(stolen.whole().await, unknown.whole().await);
            }
        }
        let who = client.tool(1, "who").await.json().await;
        assert_eq!(who["result"]["content"][0]["text"], owner.unwrap_or_default());
        server.change(1);
        assert_eq!(own.message().await.unwrap().data["params"]["uri"], "toy:1");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ended_is_like_one_that_never_was() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    let client_without_session = SessionClient {
        session: Some("00000000000000000000000000000000".into()),
        ..client.clone()
    };
    let deleted = client.delete().await;
    assert_eq!((deleted.status, deleted.whole().await), (204, Vec::new()));
    for (ended, unknown) in [
        (client.tool(1, "now").await, client_without_session.tool(1, "now").await),
        (client.get(None).await, client_without_session.get(None).await),
        (client.delete().await, client_without_session.delete().await),
    ] {
        assert_eq!((ended.status, unknown.status), (404, 404));
        assert_eq!(ended.whole().await, unknown.whole().await);
    }
    server.settle().await;
    assert_eq!(server.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_is_abandoned_leaves_nothing() {
    let server = SessionServer::with(|limits| limits.sessions = 1);
    let client_without_session = server.client_without_session(NEWEST);
    for _ in 0..100 {
        let slow = tokio::time::timeout(bed_patience(), client_without_session.initialize("slow"));
        assert!(slow.await.is_err());
    }
    assert_eq!(server.calls(), 0);
    for _ in 0..100 {
        assert_eq!(client_without_session.initialize("unwanted").await.session, None);
    }
    let broken = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}});
    for _ in 0..100 {
        assert_eq!(client_without_session.post(broken.clone()).await.session, None);
    }
    server.client(NEWEST).await;
}

fn bed_patience() -> std::time::Duration {
    std::time::Duration::from_millis(10)
}
