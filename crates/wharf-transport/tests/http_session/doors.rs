//! Access to sessions: session ids, owners and rejections.

use serde_json::json;

use crate::bed::{BOTH, Bed, Client, EVENTS, JSON, NEWEST, tool};

#[tokio::test(start_paused = true)]
async fn initialize_opens_a_session_with_an_id_that_nobody_can_guess() {
    let bed = Bed::new();
    let mut ids = Vec::new();
    for revision in ["2025-03-26", "2025-06-18", NEWEST] {
        let client = bed.client(revision).await;
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
    let bed = Bed::new();
    let mut client = bed.stranger(NEWEST);
    for id in ["0123456789abcdef0123456789abcdef", "0", "", "session"] {
        client.session = Some(id.to_owned());
        assert_eq!(client.initialize("test").await.status, 404, "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_id_has_one_spelling() {
    let bed = Bed::new();
    let client = bed.client(NEWEST).await;
    let id = client.session.clone().unwrap();
    let spellings = [id.to_uppercase(), format!("0{id}"), format!("+{id}"), format!("{id}0")];
    for session in spellings.into_iter().filter(|it| *it != id) {
        let other = Client { session: Some(session.clone()), ..client.clone() };
        assert_eq!(other.tool(1, "now").await.status, 404, "{session}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_needs_a_session_is_refused_without_one() {
    let bed = Bed::new();
    let stranger = bed.stranger(NEWEST);
    for message in [
        tool(1, "now", json!({})),
        json!([tool(1, "now", json!({}))]),
        json!([stranger.hello("test")]),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    ] {
        let answer = stranger.post(message.clone()).await;
        assert_eq!((answer.status, answer.session), (400, None), "{message}");
    }
    assert_eq!(stranger.get(None).await.status, 400);
    assert_eq!(stranger.delete().await.status, 400);
    assert_eq!(bed.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn several_ids_are_refused() {
    let bed = Bed::new();
    let client = bed.client(NEWEST).await;
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
async fn a_version_that_nobody_speaks_is_refused_at_every_door() {
    let bed = Bed::new();
    let mut client = bed.client(NEWEST).await;
    client.revision = "1999-01-01".into();
    assert_eq!(client.tool(1, "now").await.status, 400);
    assert_eq!(client.get(None).await.status, 400);
    assert_eq!(client.delete().await.status, 400);
    client.revision = NEWEST.into();
    assert_eq!(client.tool(1, "now").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_for_those_who_read_events() {
    let bed = Bed::new();
    let client = bed.client(NEWEST).await;
    let request = client.request("GET").header("accept", JSON);
    assert_eq!(client.send(request, String::new()).await.status, 406);
    let request = client.request("GET").header("accept", "text/*");
    let answer = client.send(request, String::new()).await;
    assert_eq!((answer.status, &*answer.kind), (200, EVENTS));
}

#[tokio::test(start_paused = true)]
async fn a_session_answers_nobody_but_its_owner() {
    let bed = Bed::new();
    let owners = [None, Some("alice")];
    for owner in owners {
        let mut client = bed.stranger(NEWEST);
        client.principal = owner;
        client.open().await;
        let mut own = client.get(None).await;
        let primed = own.next().await.unwrap().id;
        for other in [None, Some("alice"), Some("bob"), Some("")] {
            if other == owner {
                continue;
            }
            let thief = Client { principal: other, ..client.clone() };
            let nobody = Client {
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
        bed.change(1);
        assert_eq!(own.message().await.unwrap().data["params"]["uri"], "toy:1");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ended_is_like_one_that_never_was() {
    let bed = Bed::new();
    let client = bed.client(NEWEST).await;
    let stranger =
        Client { session: Some("00000000000000000000000000000000".into()), ..client.clone() };
    let deleted = client.delete().await;
    assert_eq!((deleted.status, deleted.whole().await), (204, Vec::new()));
    for (ended, unknown) in [
        (client.tool(1, "now").await, stranger.tool(1, "now").await),
        (client.get(None).await, stranger.get(None).await),
        (client.delete().await, stranger.delete().await),
    ] {
        assert_eq!((ended.status, unknown.status), (404, 404));
        assert_eq!(ended.whole().await, unknown.whole().await);
    }
    bed.settle().await;
    assert_eq!(bed.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_is_abandoned_leaves_nothing() {
    let bed = Bed::with(|limits| limits.sessions = 1);
    let stranger = bed.stranger(NEWEST);
    for _ in 0..100 {
        let slow = tokio::time::timeout(bed_patience(), stranger.initialize("slow"));
        assert!(slow.await.is_err());
    }
    assert_eq!(bed.calls(), 0);
    for _ in 0..100 {
        assert_eq!(stranger.initialize("unwanted").await.session, None);
    }
    let broken = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}});
    for _ in 0..100 {
        assert_eq!(stranger.post(broken.clone()).await.session, None);
    }
    bed.client(NEWEST).await;
}

fn bed_patience() -> std::time::Duration {
    std::time::Duration::from_millis(10)
}
