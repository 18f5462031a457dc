//! Tests the demo server with rmcp's client over HTTP, in both eras.
#![allow(clippy::unwrap_used, clippy::expect_used)]
// rmcp deprecates the features of legacy clients.
#![allow(deprecated)]

mod client;
mod proxy;

/// Demo server of the `wharf` binary, which the other foreign clients use too.
#[path = "../../../crates/wharf-cli/src"]
mod cli {
    pub(crate) mod demo;
}

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rmcp::ServiceError;
use rmcp::model::{
    CallToolRequestParams, GetPromptRequestParams, LoggingLevel, ProtocolVersion,
    ReadResourceRequestParams, RequestMetaObject, ResourceContents, ServerNotification,
    SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::SubscriptionEnd;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use wharf::Endpoint;

use client::{Client, ClientEvent, connect};

#[derive(Clone, Copy)]
enum Era {
    Legacy,
    Modern,
}

impl Era {
    fn newest(self) -> ProtocolVersion {
        match self {
            Era::Legacy => ProtocolVersion::V_2025_11_25,
            Era::Modern => ProtocolVersion::V_2026_07_28,
        }
    }
}

/// Timeout of a case.
const LIMIT: Duration = Duration::from_secs(30);

macro_rules! cases {
    (both: $($both:ident)*; legacy: $($legacy:ident)*; modern: $($modern:ident)*;) => {
        mod legacy {
            cases!(@ Legacy: $($both)* $($legacy)*);
        }
        mod modern {
            cases!(@ Modern: $($both)* $($modern)*);
        }
    };
    (@ $era:ident: $($case:ident)*) => {
        $(
            #[tokio::test]
            async fn $case() {
                let case = super::$case(super::Era::$era);
                tokio::time::timeout(super::LIMIT, case).await.expect("the case ends in time");
            }
        )*
    };
}

cases! {
    both: introduces_itself lists_tools calls a_tool_fails an_unknown_tool reads prompts completes
        progress logs elicitation sampling roots;
    legacy: older_revisions changes resumes_a_call_that_was_cut;
    modern: listens a_listen_ends_with_the_server;
}

async fn serve() -> SocketAddr {
    serve_endpoint(&Arc::new(cli::demo::server().build().unwrap())).await
}

async fn serve_endpoint(endpoint: &Arc<Endpoint>) -> SocketAddr {
    let listener = Endpoint::listen_http("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let endpoint = endpoint.clone();
    tokio::spawn(async move { endpoint.serve_http_on(listener).await });
    address
}

async fn connected(era: Era) -> (Client, UnboundedReceiver<ClientEvent>) {
    let address = serve().await;
    connect(format!("http://{address}/mcp"), era.newest()).await
}

fn tool(name: &'static str, arguments: Value) -> CallToolRequestParams {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    CallToolRequestParams::new(name).with_arguments(arguments)
}

async fn text(client: &Client, name: &'static str, arguments: Value) -> String {
    let result = client.call_tool(tool(name, arguments)).await.unwrap();
    assert_ne!(result.is_error, Some(true), "{result:?}");
    result.content[0].as_text().unwrap().text.clone()
}

async fn introduces_itself(era: Era) {
    let (client, _heard) = connected(era).await;
    let server = client.peer_info().unwrap();
    assert_eq!(server.protocol_version, era.newest());
    assert!(server.instructions.is_some());
}

async fn lists_tools(era: Era) {
    let (client, _heard) = connected(era).await;
    let mut names: Vec<_> =
        client.list_all_tools().await.unwrap().into_iter().map(|tool| tool.name).collect();
    names.sort();
    let all = "add countdown deploy echo fail forecast gallery pay_share poem set_bonus sign_in sleep \
               split_bill touch voyage weather workspace";
    assert_eq!(names.join(" "), all);
}

async fn calls(era: Era) {
    let (client, _heard) = connected(era).await;
    assert_eq!(text(&client, "add", json!({"a": 2, "b": 3})).await, "5");
    let odd = "naïve ☃ 𝄞 \"quoted\" \\ \n line\u{2028}separator";
    assert_eq!(text(&client, "echo", json!({"text": odd})).await, odd);
    let weather = client.call_tool(tool("weather", json!({"city": "Oslo"}))).await.unwrap();
    let expected = json!({"city": "Oslo", "celsius": 21.5, "sky": "clear"});
    assert_eq!(weather.structured_content, Some(expected));
    let gallery = client.call_tool(tool("gallery", json!({}))).await.unwrap();
    assert_eq!(gallery.content.len(), 5);
}

async fn a_tool_fails(era: Era) {
    let (client, _heard) = connected(era).await;
    let result = client.call_tool(tool("fail", json!({"reason": "out of fuel"}))).await.unwrap();
    assert_eq!(result.is_error, Some(true));
    assert_eq!(result.content[0].as_text().unwrap().text, "out of fuel");
}

async fn an_unknown_tool(era: Era) {
    let (client, _heard) = connected(era).await;
    let error = client.call_tool(tool("nothing", json!({}))).await.unwrap_err();
    let ServiceError::McpError(error) = error else { panic!("{error:?}") };
    assert_eq!(error.code.0, -32602);
}

async fn reads(era: Era) {
    let (client, _heard) = connected(era).await;
    let mut uris: Vec<_> =
        client.list_all_resources().await.unwrap().into_iter().map(|item| item.uri).collect();
    uris.sort();
    assert_eq!(uris, ["demo://clock", "demo://logo", "demo://readme", "ui://wharf-demo/bill"]);
    assert_eq!(client.list_all_resource_templates().await.unwrap().len(), 2);

    let note = ReadResourceRequestParams::new("demo://notes/standup");
    let contents = client.read_resource(note).await.unwrap().contents;
    let [ResourceContents::TextResourceContents { text, .. }] = &contents[..] else {
        panic!("{contents:?}")
    };
    assert_eq!(text, "Note standup");
    let error =
        client.read_resource(ReadResourceRequestParams::new("demo://nothing")).await.unwrap_err();
    let ServiceError::McpError(error) = error else { panic!("{error:?}") };
    assert_eq!(error.data.unwrap()["uri"], "demo://nothing");
}

async fn prompts(era: Era) {
    let (client, _heard) = connected(era).await;
    assert_eq!(client.list_all_prompts().await.unwrap().len(), 2);
    let Value::Object(arguments) = json!({"name": "Ada"}) else { unreachable!() };
    let greet = GetPromptRequestParams::new("greet").with_arguments(arguments);
    let messages = client.get_prompt(greet).await.unwrap().messages;
    assert_eq!(messages[0].content.as_text().unwrap().text, "Say hello to Ada.");
}

async fn completes(era: Era) {
    let (client, _heard) = connected(era).await;
    let languages = client.complete_prompt_simple("review", "language", "p").await.unwrap();
    assert_eq!(languages, ["python", "pascal", "perl"]);
    let notes = client.complete_resource_simple("demo://notes/{name}", "name", "st").await;
    assert_eq!(notes.unwrap(), ["standup", "story"]);
}

async fn progress(era: Era) {
    let (client, mut heard) = connected(era).await;
    assert_eq!(text(&client, "countdown", json!({"from": 3})).await, "lift-off");
    let mut steps = Vec::new();
    while steps.len() < 3 {
        if let ClientEvent::Progress(step, total) = heard.recv().await.unwrap() {
            assert_eq!(total, Some(3.0));
            steps.push(step);
        }
    }
    assert_eq!(steps, [1.0, 2.0, 3.0]);
}

async fn logs(era: Era) {
    let (client, mut heard) = connected(era).await;
    let mut call = tool("countdown", json!({"from": 2}));
    match era {
        Era::Legacy => {
            client.set_level(SetLevelRequestParams::new(LoggingLevel::Info)).await.unwrap();
        }
        Era::Modern => {
            let mut meta = RequestMetaObject::default();
            meta.set_log_level(LoggingLevel::Info);
            call.meta = Some(meta);
        }
    }
    client.call_tool(call).await.unwrap();
    for left in [1, 0] {
        assert!(matches!(heard.recv().await, Some(ClientEvent::Progress(..))));
        assert_eq!(heard.recv().await, Some(log(left)));
    }
}

/// Log message of `countdown` with this number of steps left.
fn log(left: u32) -> ClientEvent {
    ClientEvent::Log(LoggingLevel::Info, json!({ "left": left }))
}

async fn elicitation(era: Era) {
    let (client, _heard) = connected(era).await;
    assert_eq!(text(&client, "deploy", json!({"build": "v7"})).await, "deployed v7");
}

async fn sampling(era: Era) {
    let (client, _heard) = connected(era).await;
    let line = text(&client, "poem", json!({"topic": "harbours"})).await;
    assert_eq!(line, "The sea, the sea.");
}

async fn roots(era: Era) {
    let (client, _heard) = connected(era).await;
    let uris = text(&client, "workspace", json!({})).await;
    assert_eq!(uris, "file:///work/one\nfile:///work/two");
}

async fn changes(era: Era) {
    let (client, mut heard) = connected(era).await;
    client.subscribe(SubscribeRequestParams::new("demo://clock")).await.unwrap();
    text(&client, "set_bonus", json!({"on": true})).await;
    assert_eq!(heard.recv().await, Some(ClientEvent::ToolsChanged));
    assert_eq!(text(&client, "bonus", json!({})).await, "a bonus");
    text(&client, "touch", json!({})).await;
    assert_eq!(heard.recv().await, Some(ClientEvent::Updated("demo://clock".to_owned())));

    client.unsubscribe(UnsubscribeRequestParams::new("demo://clock")).await.unwrap();
    text(&client, "touch", json!({})).await;
    text(&client, "set_bonus", json!({"on": false})).await;
    assert_eq!(heard.recv().await, Some(ClientEvent::ToolsChanged));
}

async fn listens(era: Era) {
    let (client, _heard) = connected(era).await;
    let filter = SubscriptionFilter::builder()
        .tools_list_changed()
        .resource_subscriptions(["demo://clock"])
        .build();
    let mut subscription = client.listen(filter.clone()).await.unwrap();
    assert_eq!(subscription.acknowledged(), &filter);
    text(&client, "set_bonus", json!({"on": true})).await;
    let changed = subscription.next().await.unwrap().unwrap();
    assert!(matches!(changed, ServerNotification::ToolListChangedNotification(_)), "{changed:?}");
    text(&client, "touch", json!({})).await;
    let updated = subscription.next().await.unwrap().unwrap();
    let ServerNotification::ResourceUpdatedNotification(updated) = updated else {
        panic!("{updated:?}")
    };
    assert_eq!(updated.params.uri, "demo://clock");
    subscription.cancel().await.unwrap();
}

async fn a_listen_ends_with_the_server(era: Era) {
    let endpoint = Arc::new(cli::demo::server().build().unwrap());
    let url = format!("http://{}/mcp", serve_endpoint(&endpoint).await);
    let (client, _heard) = connect(url, era.newest()).await;
    let filter = SubscriptionFilter::builder().tools_list_changed().build();
    let mut subscription = client.listen(filter).await.unwrap();
    endpoint.shutdown();
    assert!(subscription.next().await.unwrap().is_none());
    let end = subscription.end();
    assert!(matches!(end, Some(SubscriptionEnd::Graceful(_))), "{end:?}");
}

async fn older_revisions(_: Era) {
    let url = format!("http://{}/mcp", serve().await);
    let old = [
        ProtocolVersion::V_2024_11_05,
        ProtocolVersion::V_2025_03_26,
        ProtocolVersion::V_2025_06_18,
    ];
    for revision in old {
        let (client, mut heard) = connect(url.clone(), revision.clone()).await;
        assert_eq!(client.peer_info().unwrap().protocol_version, revision);
        assert_eq!(text(&client, "add", json!({"a": 2, "b": 3})).await, "5");
        assert_eq!(text(&client, "countdown", json!({"from": 1})).await, "lift-off");
        assert_eq!(heard.recv().await, Some(ClientEvent::Progress(1.0, Some(1.0))));
        assert_eq!(heard.recv().await, Some(log(0)));
        assert_eq!(text(&client, "poem", json!({"topic": "age"})).await, "The sea, the sea.");
    }
}

async fn resumes_a_call_that_was_cut(_: Era) {
    let server = serve().await;
    let with_streams = [
        ProtocolVersion::V_2025_03_26,
        ProtocolVersion::V_2025_06_18,
        ProtocolVersion::V_2025_11_25,
    ];
    for revision in with_streams {
        let (proxy, has_cut) = proxy::cutting_at("\"progress\":3,", server).await.unwrap();
        let (client, mut heard) = connect(format!("http://{proxy}/mcp"), revision).await;
        assert_eq!(text(&client, "countdown", json!({"from": 60})).await, "lift-off");
        assert!(*has_cut.borrow());
        for step in 1..=60 {
            assert_eq!(heard.recv().await, Some(ClientEvent::Progress(step.into(), Some(60.0))));
            assert_eq!(heard.recv().await, Some(log(60 - step)));
        }
    }
}
