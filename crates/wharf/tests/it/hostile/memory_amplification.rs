//! Messages whose trees would take many times their size (audit 8).

use crate::hostile::scripted_server::{
    Action, ReceivedRequest, ScriptedServer, builder, default_line_reply, in_time,
};
use crate::hostile::unbounded_messages::held;

const SIZE: usize = 8 << 20;

/// As many of `unit` as make a large message.
fn many(unit: &str) -> String {
    format!("{}{unit}", format!("{unit},").repeat(SIZE / (unit.len() + 1)))
}

fn reply(asked: &ReceivedRequest, result: &str) -> Action {
    let id = &asked.message["id"];
    Action::Say(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n").into_bytes())
}

/// Calls a tool that gives `result`: whether it could be read. The client and the server share the
/// process, so both count.
async fn called(result: String) -> bool {
    let server = ScriptedServer::lines(move |asked| match asked.method() {
        "tools/call" => reply(asked, &result),
        _ => default_line_reply(asked),
    });
    let server = server.await;
    let client = in_time(builder().connect(server.lines_url())).await.unwrap();
    let before = held();
    let end = in_time(client.call("t", ())).await;
    let grown = held().saturating_sub(before);
    assert!(grown < 10 * SIZE, "grew by {grown} bytes");
    if let Err(error) = &end {
        assert!(error.kind().is_content_too_large(), "{error:?}");
    }
    end.is_ok()
}

fn result(member: &str) -> String {
    format!("{{\"resultType\":\"complete\",{member}}}")
}

#[tokio::test(flavor = "multi_thread")]
async fn content_of_an_unknown_type() {
    assert!(!called(result(&format!(r#""content":[{}]"#, many(r#"{"type":"x"}"#)))).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn unused_metadata() {
    let metadata = format!(r#""content":[],"_meta":{{"a":[{}]}}"#, many("{}"));
    assert!(called(result(&metadata)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_fields() {
    assert!(called(result(&format!(r#""content":[],"x":[{}]"#, many(r#"{"":0}"#)))).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unused_schema() {
    let schema = many(r#"{"type":"x"}"#);
    let tools = format!(r#""tools":[{{"name":"t","inputSchema":{{"oneOf":[{schema}]}}}}]"#);
    let tools = result(&tools);
    let server = ScriptedServer::lines(move |asked| match asked.method() {
        "tools/list" => reply(asked, &tools),
        _ => default_line_reply(asked),
    });
    let server = server.await;
    let client = in_time(builder().connect(server.lines_url())).await.unwrap();
    let before = held();
    let tools = in_time(client.tools().all()).await.unwrap();
    let grown = held().saturating_sub(before);
    assert!(grown < 10 * SIZE, "grew by {grown} bytes");
    assert!(tools[0].input_schema.text().len() > SIZE);
    assert!(tools[0].input_schema.is_null(), "no tree of so many values is built");
}
