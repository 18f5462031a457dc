//! A real router over the in-process transport.

use std::sync::Arc;

use crate::support::names;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use wharf_client::{CallOptions, ClientHandle, ClientHandler, ClientHandlerBuilder, args, local};
use wharf_model::{
    CompletionRef, ElicitResult, Implementation, LogLevel, Notification, PromptMessage, Root,
    SamplingRequest, SamplingResult, Service, SubscriptionFilter,
};
use wharf_server::{Args, ClientRequestError, Ctx, Prompt, Resource, Router, Tool, ToolError};
use wharf_testbed::TokioTimer;

#[derive(Deserialize, JsonSchema)]
struct TwoNumbers {
    a: i64,
    b: i64,
}

#[derive(Deserialize, JsonSchema)]
struct ConfirmForm {
    sure: bool,
}

async fn confirmed(ctx: Ctx) -> Result<String, ClientRequestError> {
    let confirm: ConfirmForm = ctx.ask("confirm", "Sure?").await?;
    Ok(format!("sure: {}", confirm.sure))
}

async fn sampled(ctx: Ctx) -> Result<String, ClientRequestError> {
    Ok(ctx.sample("s", SamplingRequest::new(10).user("?")).await?.text())
}

fn router() -> Router {
    Router::builder()
        .logging(true)
        .add(Tool::new("add", async |Args(TwoNumbers { a, b }): Args<TwoNumbers>| a + b))
        .add(Tool::new("confirm", confirmed))
        .add(Tool::new("sample", sampled))
        .add(Tool::new("fail", async || Err::<String, _>(ToolError::new("no such crate"))))
        .add(Resource::new("mem:a", async || "text of a"))
        .add(Prompt::new("greet", async || PromptMessage::user("hello")))
        .build()
        .unwrap()
}

async fn connect(router: Router, answers: impl ClientHandler) -> ClientHandle {
    let info = Implementation::new("harbour", "1.0.0");
    let transport = local(Arc::new(router), info).await.unwrap();
    ClientHandle::new(transport, Arc::new(TokioTimer), CallOptions::default(), Arc::new(answers))
}

#[tokio::test]
async fn everything_works_without_a_transport() {
    let caller = connect(router(), ClientHandlerBuilder::new()).await;
    assert_eq!(caller.about().info.name, "harbour");
    assert!(caller.about().revision.is_empty());
    let tools = caller.tools().all().await.unwrap();
    assert_eq!(names(&tools), ["add", "confirm", "sample", "fail"]);
    assert_eq!(caller.call_as::<i64>("add", args! { a: 1, b: 2 }).await.unwrap(), 3);
    let error = caller.call_as::<String>("fail", ()).await.unwrap_err();
    assert_eq!(error.message(), "no such crate");
    assert_eq!(caller.read("mem:a").await.unwrap().contents.len(), 1);
    assert!(caller.read("mem:b").await.unwrap_err().kind().is_resource_not_found());
    assert_eq!(caller.prompt("greet", ()).await.unwrap().messages.len(), 1);
    assert_eq!(caller.resources().all().await.unwrap().len(), 1);
    assert!(caller.templates().all().await.unwrap().is_empty());
    assert_eq!(caller.prompts().all().await.unwrap().len(), 1);
    caller.ping().await.unwrap();
    caller.set_log_level(LogLevel::Info).await.unwrap();
    caller.close().await;
}

#[tokio::test]
async fn handlers_send_requests_to_the_calling_client() {
    let answers = ClientHandlerBuilder::new()
        .elicit(async |_| Ok(ElicitResult::accept(json!({"sure": true}))))
        .sample(async |_| Ok(SamplingResult::new("m", "Paris")))
        .roots(async || Ok(vec![Root::new("file:///a")]));
    let caller = connect(router(), answers).await;
    assert_eq!(caller.call_as::<String>("confirm", ()).await.unwrap(), "sure: true");
    assert_eq!(caller.call_as::<String>("sample", ()).await.unwrap(), "Paris");
    caller.roots_changed().await.unwrap();
    // A client without a handler receives no requests.
    let silent = connect(router(), ClientHandlerBuilder::new()).await;
    let refused = silent.call("confirm", ()).await;
    assert!(refused.map_or(true, |result| result.is_error));
}

#[tokio::test]
async fn change_notifications_are_received() {
    let router = router();
    let caller = connect(router.clone(), ClientHandlerBuilder::new()).await;
    let mut changes = caller.listen(SubscriptionFilter::default().tools(true)).await.unwrap();
    assert!(changes.agreed().tools);
    router.registry().add(Tool::new("new", async || "x")).unwrap();
    assert!(matches!(changes.next().await, Some(Ok(Notification::ToolsChanged))));
    router.shutdown();
    assert!(changes.next().await.is_none());
    assert_eq!(caller.tools().all().await.unwrap().len(), 5);
}

#[tokio::test]
async fn requests_by_name_return_results_in_protocol_format() {
    let caller = connect(router(), ClientHandlerBuilder::new()).await;
    let ask = async |method: &str, params: Value| -> Value {
        serde_json::from_str(caller.request(method, params).await.unwrap().get()).unwrap()
    };
    assert_eq!(ask("ping", Value::Null).await, json!({}));
    let found = ask("server/discover", Value::Null).await;
    assert_eq!(found["serverInfo"]["name"], "harbour");
    assert_eq!(ask("tools/list", Value::Null).await["tools"][0]["name"], "add");
    let sum = ask("tools/call", json!({"name": "add", "arguments": {"a": 1, "b": 2}})).await;
    assert_eq!(sum["content"][0]["text"], "3");
    assert_eq!(ask("resources/list", json!({})).await["resources"][0]["uri"], "mem:a");
    assert_eq!(ask("resources/templates/list", json!({})).await, json!({"resourceTemplates": []}));
    let read = ask("resources/read", json!({"uri": "mem:a"})).await;
    assert_eq!(read["contents"][0]["text"], "text of a");
    assert_eq!(ask("prompts/list", json!({})).await["prompts"][0]["name"], "greet");
    let prompt = ask("prompts/get", json!({"name": "greet"})).await;
    assert_eq!(prompt["messages"][0]["content"]["text"], "hello");
    let error = caller.request("nonsense", ()).await.unwrap_err();
    assert!(error.kind().is_method_not_found());
    assert!(caller.request("roots/list", ()).await.unwrap_err().kind().is_method_not_found());
    let error = caller.request("tools/call", json!({"name": 5})).await.unwrap_err();
    assert!(error.kind().is_invalid_params());
    let of = CompletionRef::Prompt("greet".into());
    assert!(caller.complete(of, "a", "").await.is_err());
}

#[tokio::test]
async fn a_proxy_of_a_proxy_forwards_to_the_server() {
    let first = connect(router(), ClientHandlerBuilder::new()).await;
    let relay: Arc<dyn Service> = first.relay();
    let transport = local(relay, Implementation::new("proxy", "1")).await.unwrap();
    let answers = ClientHandlerBuilder::new()
        .elicit(async |_| Ok(ElicitResult::accept(json!({"sure": false}))));
    let timer = Arc::new(TokioTimer);
    let caller = ClientHandle::new(transport, timer, CallOptions::default(), Arc::new(answers));
    assert_eq!(caller.call_as::<i64>("add", args! { a: 1, b: 2 }).await.unwrap(), 3);
    assert_eq!(caller.call_as::<String>("confirm", ()).await.unwrap(), "sure: false");
}
