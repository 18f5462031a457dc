//! Checks of the servers that have the features of the demo server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Deserialize;
use wharf::model::{Body, CompletionRef};
use wharf::{
    ErrorKind, args,
    model::{ElicitResult, LogLevel, SubscriptionFilter},
};

use crate::server_under_test::{TestTarget, TestTransport, list_checks, next_change, text};

const CLOCK: &str = "demo://clock";

list_checks! { LEGACY: supports_older_revisions }

list_checks! { MODERN: finds_the_era_by_itself }

list_checks! { ALL:
    introduces_itself answers_a_ping
    lists_tools calls gives_structured_content a_tool_fails an_unknown_tool
    a_slow_call_blocks_no_other
    reads_resources an_unknown_resource gets_prompts completes
    sends_progress logs
    an_elicitation_is_accepted an_elicitation_is_declined_or_cancelled elicits_by_url samples
    asks_for_roots
    notifies_that_the_tools_changed notifies_that_a_resource_changed
    a_dropped_call_is_cancelled
}

async fn introduces_itself(target: &TestTarget) {
    let about = target.client.about();
    assert!(about.info.name.starts_with("foreign-"), "{:?}", about.info);
    assert_eq!(about.discovery.instructions.as_deref(), Some("Add numbers."));
    assert_eq!(about.revision, target.era.newest());
}

async fn finds_the_era_by_itself(target: &TestTarget) {
    let client = target.connect_again(None).await.unwrap();
    assert_eq!(client.about().revision, target.era.newest());
    let sum: i64 = client.call_as("add", args! { a: 2, b: 3 }).await.unwrap();
    assert_eq!(sum, 5);
    client.close().await;
}

async fn supports_older_revisions(target: &TestTarget) {
    let older = ["2024-11-05", "2025-03-26", "2025-06-18"];
    // Over stdio the server is started again for each revision, which takes seconds with Python.
    let count = if target.over == TestTransport::Stdio { 1 } else { older.len() };
    for revision in &older[..count] {
        let client = target.connect_again(Some(revision)).await.unwrap();
        assert_eq!(client.about().revision, *revision);
        let sum: i64 = client.call_as("add", args! { a: 2, b: 3 }).await.unwrap();
        assert_eq!(sum, 5);
        client.close().await;
    }
}

async fn answers_a_ping(target: &TestTarget) {
    target.client.ping().await.unwrap();
}

async fn lists_tools(target: &TestTarget) {
    let tools = target.client.tools().all().await.unwrap();
    let mut names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
    names.sort_unstable();
    let all = "add cancelled countdown deploy echo fail poem set_bonus sign_in sleep touch weather \
               workspace";
    assert_eq!(names.join(" "), all);
    let add = tools.iter().find(|tool| tool.name == "add").unwrap();
    assert_eq!(add.annotations.as_ref().and_then(|it| it.read_only_hint), Some(true));
    assert!(add.input_schema["properties"]["a"]["type"].is_string(), "{}", add.input_schema);
}

async fn calls(target: &TestTarget) {
    assert_eq!(target.text("add", args! { a: 2, b: 3 }).await, "5");
    let odd = "naïve ☃ 𝄞 \"quoted\" \\ \n line\u{2028}separator";
    assert_eq!(target.text("echo", args! { text: odd }).await, odd);
    let long = "long ".repeat(100_000);
    assert_eq!(target.text("echo", args! { text: long }).await, long);
}

async fn gives_structured_content(target: &TestTarget) {
    #[derive(Debug, Deserialize, PartialEq)]
    struct Weather {
        city: String,
        celsius: f64,
        sky: String,
    }
    let weather: Weather = target.client.call_as("weather", args! { city: "Oslo" }).await.unwrap();
    let expected = Weather { city: "Oslo".into(), celsius: 21.5, sky: "clear".into() };
    assert_eq!(weather, expected);
}

async fn a_tool_fails(target: &TestTarget) {
    let result = target.call("fail", args! { reason: "out of fuel" }).await;
    assert!(result.is_error);
    assert!(text(&result).contains("out of fuel"), "{result:?}");
    let failed = target.client.call_as::<String>("fail", args! { reason: "no wind" }).await;
    let error = failed.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ToolExecutionFailed);
    assert!(error.to_string().contains("no wind"), "{error}");
}

/// Some servers return a protocol error, and some a tool error.
async fn an_unknown_tool(target: &TestTarget) {
    match target.client.call("nothing", args! {}).await {
        Ok(result) => assert!(result.is_error, "{result:?}"),
        Err(error) => assert!(error.to_string().contains("nothing"), "{error}"),
    }
}

async fn a_slow_call_blocks_no_other(target: &TestTarget) {
    let slow = async {
        target.text("sleep", args! { seconds: 0.5 }).await;
        "slow"
    };
    let fast = async {
        target.text("add", args! { a: 1, b: 1 }).await;
        "fast"
    };
    let first = tokio::select! { first = slow => first, first = fast => first };
    assert_eq!(first, "fast");
}

async fn reads_resources(target: &TestTarget) {
    let resources = target.client.resources().all().await.unwrap();
    let mut uris: Vec<_> = resources.iter().map(|it| it.uri.as_str()).collect();
    uris.sort_unstable();
    assert_eq!(uris, [CLOCK, "demo://readme"]);
    let templates = target.client.templates().all().await.unwrap();
    let templates: Vec<_> = templates.iter().map(|it| it.uri_template.as_str()).collect();
    assert_eq!(templates, ["demo://notes/{name}"]);
    assert_eq!(read(target, "demo://readme").await, "Read me.");
    assert_eq!(read(target, "demo://notes/standup").await, "Note standup");
}

async fn read(target: &TestTarget, uri: &str) -> String {
    let contents = target.client.read(uri).await.unwrap().contents;
    assert_eq!(contents.len(), 1);
    assert_eq!(contents[0].uri, uri);
    match &contents[0].body {
        Body::Text(text) => text.clone(),
        body => panic!("no text: {body:?}"),
    }
}

async fn an_unknown_resource(target: &TestTarget) {
    let error = target.client.read("demo://nothing").await.unwrap_err();
    // The error code differs between the eras, and not all servers support the first.
    let kinds = [ErrorKind::ResourceNotFound, ErrorKind::InvalidParams];
    assert!(kinds.contains(&error.kind()), "{error:?}");
}

async fn gets_prompts(target: &TestTarget) {
    let prompts = target.client.prompts().all().await.unwrap();
    let mut names: Vec<_> = prompts.iter().map(|it| it.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["greet", "review"]);
    let greet = target.client.prompt("greet", args! { name: "Ada" }).await.unwrap();
    assert_eq!(greet.messages[0].content.as_text(), Some("Say hello to Ada."));
    let arguments = args! { code: "f()", language: "rust" };
    let review = target.client.prompt("review", arguments).await.unwrap();
    assert_eq!(review.messages[0].content.as_text(), Some("Review this rust code:\nf()"));
}

async fn completes(target: &TestTarget) {
    let review = CompletionRef::prompt("review");
    let languages = target.client.complete(review, "language", "p").await.unwrap();
    assert_eq!(languages.values, ["python", "pascal", "perl"]);
    let notes = CompletionRef::resource("demo://notes/{name}");
    let names = target.client.complete(notes, "name", "st").await.unwrap();
    assert_eq!(names.values, ["standup", "story"]);
}

async fn sends_progress(target: &TestTarget) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = heard.clone();
    let call = target.client.call("countdown", args! { steps: 3 });
    call.on_progress(move |it| hears.lock().unwrap().push((it.progress, it.total))).await.unwrap();
    let steps = heard.lock().unwrap().clone();
    assert_eq!(steps, [1.0, 2.0, 3.0].map(|step| (step, Some(3.0))));
}

async fn logs(target: &TestTarget) {
    target.client.set_log_level(LogLevel::Info).await.unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = heard.clone();
    let call = target.client.call("countdown", args! { steps: 3 });
    call.on_log(move |it| hears.lock().unwrap().push(it)).await.unwrap();
    let logs = heard.lock().unwrap().clone();
    assert_eq!(logs.len(), 3, "{logs:?}");
    assert!(logs.iter().all(|log| log.level == LogLevel::Info), "{logs:?}");
    assert!(logs.iter().all(|log| log.logger.as_deref() == Some("countdown")), "{logs:?}");
    assert!(logs[0].data.get().contains("left"), "{logs:?}");
}

/// The response omits the note, which has a default.
async fn an_elicitation_is_accepted(target: &TestTarget) {
    target.asked.answer_with(ElicitResult::accept(serde_json::json!({ "confirmed": true })));
    assert_eq!(target.text("deploy", args! { build: "v7" }).await, "deployed v7, note: none");
    assert_eq!(target.asked.last(), "Deploy v7?");
    target.asked.answer_with(ElicitResult::accept(serde_json::json!({ "confirmed": false })));
    assert_eq!(target.text("deploy", args! { build: "v8" }).await, "kept");
}

async fn an_elicitation_is_declined_or_cancelled(target: &TestTarget) {
    let ways = [(ElicitResult::decline(), "declined"), (ElicitResult::cancel(), "cancelled")];
    for (answer, said) in ways {
        target.asked.answer_with(answer);
        let result = target.call("deploy", args! { build: "v9" }).await;
        assert!(result.is_error && text(&result).contains(said), "{result:?}");
    }
}

async fn elicits_by_url(target: &TestTarget) {
    assert_eq!(target.text("sign_in", args! {}).await, "signed in");
    assert_eq!(target.asked.last(), "https://example.com/sign-in");
}

async fn samples(target: &TestTarget) {
    assert_eq!(target.text("poem", args! { topic: "harbours" }).await, "The sea, the sea.");
    assert!(target.asked.last().contains("Write one line about harbours."));
}

async fn asks_for_roots(target: &TestTarget) {
    let uris = target.text("workspace", args! {}).await;
    assert_eq!(uris, "file:///work/one\nfile:///work/two");
}

async fn notifies_that_the_tools_changed(target: &TestTarget) {
    let filter = SubscriptionFilter::default().tools(true);
    let mut changes = target.client.listen(filter.clone()).await.unwrap();
    assert_eq!(changes.agreed(), &filter);
    for (on, there) in [(true, true), (false, false)] {
        target.text("set_bonus", args! { on: on }).await;
        assert_eq!(next_change(&mut changes).await, "tools");
        let tools = target.client.tools().all().await.unwrap();
        assert_eq!(tools.iter().any(|tool| tool.name == "bonus"), there);
    }
}

async fn notifies_that_a_resource_changed(target: &TestTarget) {
    let before: u32 = read(target, CLOCK).await.parse().unwrap();
    let mut changes = target.client.subscribe(CLOCK).await.unwrap();
    assert!(changes.agreed().uris.contains(CLOCK), "{:?}", changes.agreed());
    for count in 1..=2 {
        target.text("touch", args! {}).await;
        assert_eq!(next_change(&mut changes).await, CLOCK);
        assert_eq!(read(target, CLOCK).await, (before + count).to_string());
    }
}

/// The server must receive the cancellation: it counts the cancelled calls of `sleep`.
async fn a_dropped_call_is_cancelled(target: &TestTarget) {
    let before: u32 = target.client.call_as("cancelled", args! {}).await.unwrap();
    let (started, mut starts) = tokio::sync::mpsc::unbounded_channel();
    let call = target.client.call("sleep", args! { seconds: 600 });
    let call = call.on_progress(move |_| started.send(()).unwrap_or_default());
    tokio::select! {
        result = call => panic!("it ended by itself: {result:?}"),
        _ = starts.recv() => {}
    }
    while target.client.call_as::<u32>("cancelled", args! {}).await.unwrap() == before {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
