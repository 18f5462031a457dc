//! Lists that are too long or endless.

use serde_json::{Value, json};

use crate::hostile::memory_growth::{MemoryGrowth, ran_alone};
use crate::hostile::scripted_server::{
    Action, ReceivedRequest, ScriptedServer, builder, default_http_reply, http_json, in_time, tool,
};

fn page(asked: &ReceivedRequest, tools: Vec<Value>, next: Option<&str>) -> Action {
    let mut result = json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "public"});
    result["tools"] = tools.into();
    if let Some(next) = next {
        result["nextCursor"] = next.into();
    }
    Action::Say(http_json(200, &asked.reply(result)))
}

async fn listed(
    play: impl Fn(&ReceivedRequest) -> Action + Send + Sync + 'static,
) -> (ScriptedServer, String) {
    let server = ScriptedServer::http(move |asked| match asked.method() {
        "tools/list" => play(asked),
        _ => default_http_reply(asked),
    });
    let server = server.await;
    let client = in_time(builder().connect(server.url())).await.unwrap();
    let error = in_time(client.tools().all()).await.unwrap_err();
    (server, error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_that_leads_to_itself() {
    let one = |asked: &ReceivedRequest| {
        page(asked, vec![tool("t", json!({"type": "object"}))], Some("again"))
    };
    let (server, error) = listed(one).await;
    assert!(error.contains("cursor"), "{error}");
    assert!(server.methods().len() < 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_that_never_ends() {
    let (server, error) = listed(|asked| {
        let at: u64 =
            asked.message["params"]["cursor"].as_str().map_or(0, |it| it.parse().unwrap());
        page(asked, Vec::new(), Some(&(at + 1).to_string()))
    })
    .await;
    assert!(error.contains("pages"), "{error}");
    assert!(server.methods().len() < 2000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_million_tools() {
    let (_server, error) = listed(|asked| {
        let at: u64 =
            asked.message["params"]["cursor"].as_str().map_or(0, |it| it.parse().unwrap());
        let tools =
            (0..10_000).map(|index| tool(&format!("t{at}-{index}"), json!({"type": "object"})));
        page(asked, tools.collect(), (at < 100).then(|| (at + 1).to_string()).as_deref())
    })
    .await;
    assert!(error.contains("100000") || error.contains("100,000"), "{error}");
}

/// Tools with long texts on page after page: the memory of a list is limited in bytes.
#[tokio::test(flavor = "multi_thread")]
async fn tools_without_end_whose_texts_are_large() {
    if ran_alone() {
        return;
    }
    let growth = MemoryGrowth::start();
    let (server, error) = listed(|asked| {
        let at: u64 =
            asked.message["params"]["cursor"].as_str().map_or(0, |it| it.parse().unwrap());
        let mut tool = tool(&format!("t{at}"), json!({"type": "object"}));
        tool["description"] = "x".repeat(4 << 20).into();
        page(asked, vec![tool], Some(&(at + 1).to_string()))
    })
    .await;
    assert!(error.contains("bytes"), "{error}");
    assert!(server.methods().len() < 30);
    growth.assert_below(200 << 20);
}

/// A page with the maximum number of entries is read, and its memory is a small multiple of the message size.
#[tokio::test(flavor = "multi_thread")]
async fn a_million_tools_at_once() {
    let (_server, error) = listed(|asked| {
        let tools = r#"{"name":"t","inputSchema":{}},"#.repeat(400_000);
        let mut reply = asked.reply(json!({"resultType": "complete", "tools": []})).to_string();
        let at = reply.find("[]").expect("the tools") + 1;
        reply.insert_str(at, tools.trim_end_matches(','));
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ";
        Action::Say(format!("{head}{}\r\n\r\n{reply}", reply.len()).into_bytes())
    })
    .await;
    assert!(error.contains("100000"), "{error}");
}
