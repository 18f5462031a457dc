//! Checks of npm's `server-everything`, which has its own tools.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use wharf::model::{Body, CompletionRef};
use wharf::{
    Content, args,
    model::{ElicitResult, LogLevel},
};

use crate::server_under_test::{TestTarget, list_checks, next_change, text};

list_checks! { ALL:
    introduces_itself finds_the_era_by_itself answers_a_ping lists_tools calls gives_structured_content
    gives_all_kinds_of_content a_tool_fails reads_resources gets_prompts completes_with_context
    sends_progress logs an_elicitation_is_accepted elicits_by_url elicits_by_url_with_an_error samples
    asks_for_roots notifies_that_a_resource_changed a_dropped_call_keeps_the_session_usable
}

async fn introduces_itself(target: &TestTarget) {
    let about = target.client.about();
    assert_eq!(about.info.name, "mcp-servers/everything");
    assert!(about.discovery.instructions.is_some());
    assert_eq!(about.revision, target.era.newest());
}

async fn finds_the_era_by_itself(target: &TestTarget) {
    let client = target.connect_again(None).await.unwrap();
    assert_eq!(client.about().revision, target.era.newest());
    client.close().await;
}

async fn answers_a_ping(target: &TestTarget) {
    target.client.ping().await.unwrap();
}

async fn lists_tools(target: &TestTarget) {
    let tools = target.client.tools().all().await.unwrap();
    // These tools are listed only if the client declared the capabilities for server requests.
    for name in ["trigger-sampling-request", "trigger-url-elicitation", "get-roots-list"] {
        assert!(tools.iter().any(|tool| tool.name == name), "no {name}");
    }
}

async fn calls(target: &TestTarget) {
    assert_eq!(target.text("echo", args! { message: "hello" }).await, "Echo: hello");
    let sum = target.text("get-sum", args! { a: 2, b: 3 }).await;
    assert!(sum.contains('5'), "{sum}");
}

async fn gives_structured_content(target: &TestTarget) {
    let arguments = args! { location: "Chicago" };
    let weather: Value = target.client.call_as("get-structured-content", arguments).await.unwrap();
    assert_eq!(weather["humidity"], 82);
}

async fn gives_all_kinds_of_content(target: &TestTarget) {
    let image = target.call("get-tiny-image", args! {}).await;
    assert!(image.content.iter().any(|item| matches!(item, Content::Image(_))), "{image:?}");
    let links = target.call("get-resource-links", args! { count: 2 }).await;
    assert!(links.content.iter().any(|item| matches!(item, Content::Link(_))), "{links:?}");
    let arguments = args! { resourceType: "Text", resourceId: 1 };
    let embedded = target.call("get-resource-reference", arguments).await;
    assert!(
        embedded.content.iter().any(|item| matches!(item, Content::Resource(_))),
        "{embedded:?}"
    );
}

async fn a_tool_fails(target: &TestTarget) {
    let result = target.call("get-sum", args! { a: "two" }).await;
    assert!(result.is_error, "{result:?}");
}

async fn reads_resources(target: &TestTarget) {
    for resource in target.client.resources().all().await.unwrap() {
        let read = target.client.read(&resource.uri).await.unwrap();
        assert!(!read.contents.is_empty(), "{} is empty", resource.uri);
    }
    assert_eq!(target.client.templates().all().await.unwrap().len(), 2);
    let blob = target.client.read("demo://resource/dynamic/blob/3").await.unwrap();
    assert!(matches!(blob.contents[0].body, Body::Blob(_)), "{blob:?}");
}

async fn gets_prompts(target: &TestTarget) {
    assert!(!target.client.prompts().all().await.unwrap().is_empty());
    let arguments = args! { city: "Oslo", state: "Norway" };
    let prompt = target.client.prompt("args-prompt", arguments).await.unwrap();
    assert_eq!(prompt.messages[0].content.as_text(), Some("What's weather in Oslo, Norway?"));
}

async fn completes_with_context(target: &TestTarget) {
    let prompt = CompletionRef::prompt("completable-prompt");
    let departments = target.client.complete(prompt.clone(), "department", "S").await.unwrap();
    assert_eq!(departments.values, ["Sales", "Support"]);
    let names = target.client.complete(prompt, "name", "E").context([("department", "Sales")]);
    assert_eq!(names.await.unwrap().values, ["Eve"]);
}

async fn sends_progress(target: &TestTarget) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = heard.clone();
    let arguments = args! { duration: 0.1, steps: 3 };
    let call = target.client.call("trigger-long-running-operation", arguments);
    call.on_progress(move |it| hears.lock().unwrap().push(it.progress)).await.unwrap();
    assert_eq!(*heard.lock().unwrap(), [1.0, 2.0, 3.0]);
}

/// The message does not belong to a call, so any call in flight receives it.
async fn logs(target: &TestTarget) {
    target.client.set_log_level(LogLevel::Debug).await.unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    while heard.lock().unwrap().is_empty() {
        // The tool logs once when it is switched on, and again later.
        for _ in ["on", "off"] {
            let hears = heard.clone();
            let call = target.client.call("toggle-simulated-logging", args! {});
            call.on_log(move |it| hears.lock().unwrap().push(it)).await.unwrap();
        }
    }
    let logs = heard.lock().unwrap().clone();
    assert!(logs[0].data.get().contains("message"), "{logs:?}");
}

/// All fields except the name have defaults.
async fn an_elicitation_is_accepted(target: &TestTarget) {
    target.asked.answer_with(ElicitResult::accept(json!({ "name": "Ada" })));
    let result = target.call("trigger-elicitation-request", args! {}).await;
    let said: String = result.content.iter().filter_map(|item| item.as_text()).collect();
    assert!(said.contains("- Name: Ada") && said.contains("hero-1"), "{said}");
    target.asked.answer_with(ElicitResult::decline());
    let declined = target.text("trigger-elicitation-request", args! {}).await;
    assert!(declined.contains("declined"), "{declined}");
}

async fn elicits_by_url(target: &TestTarget) {
    let url = "https://example.com/sign-in";
    let result = target.call("trigger-url-elicitation", args! { url: url }).await;
    assert!(!result.is_error, "{result:?}");
    assert_eq!(target.asked.last(), url);
}

/// The server rejects the call with -32042 until the page was visited.
async fn elicits_by_url_with_an_error(target: &TestTarget) {
    let url = "https://example.com/again";
    let arguments = args! { url: url, errorPath: true };
    let result = target.call("trigger-url-elicitation", arguments).await;
    assert!(!result.is_error, "{result:?}");
    assert_eq!(target.asked.last(), url);
}

async fn samples(target: &TestTarget) {
    let said = target.text("trigger-sampling-request", args! { prompt: "harbours" }).await;
    assert!(said.contains("The sea, the sea."), "{said}");
    assert!(target.asked.last().contains("harbours"));
}

async fn asks_for_roots(target: &TestTarget) {
    let roots = target.text("get-roots-list", args! {}).await;
    assert!(roots.contains("file:///work/one") && roots.contains("file:///work/two"), "{roots}");
}

async fn notifies_that_a_resource_changed(target: &TestTarget) {
    let uri = "demo://resource/dynamic/text/1";
    let mut changes = target.client.subscribe(uri).await.unwrap();
    // The tool sends an update at once, and then every five seconds.
    target.text("toggle-subscriber-updates", args! {}).await;
    assert_eq!(next_change(&mut changes).await, uri);
    target.text("toggle-subscriber-updates", args! {}).await;
}

/// This server does not report cancellations.
async fn a_dropped_call_keeps_the_session_usable(target: &TestTarget) {
    let (started, mut starts) = tokio::sync::mpsc::unbounded_channel();
    let arguments = args! { duration: 600, steps: 60_000 };
    let call = target.client.call("trigger-long-running-operation", arguments);
    let call = call.on_progress(move |_| started.send(()).unwrap_or_default());
    tokio::select! {
        result = call => panic!("it ended by itself: {result:?}"),
        _ = starts.recv() => {}
    }
    let result = target.call("echo", args! { message: "still here" }).await;
    assert_eq!(text(&result), "Echo: still here");
}
