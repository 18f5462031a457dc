//! Typed calls and their timeouts.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use crate::support::{FakeTransport, SECOND, answering, caller, caller_with};
use serde_json::{Value, json};
use wharf_client::{CallOptions, ClientHandlerBuilder, ControlRequest, args};
use wharf_model::{
    Completion, CompletionRef, Content, Error, ErrorKind, InputMode, LogLevel, Method,
    Notification, Outcome, PromptMessage, PromptResult, ReadResult, Reply, ResourceContents, Root,
    ToolResult,
};

fn raw(json: Value) -> Box<serde_json::value::RawValue> {
    serde_json::value::to_raw_value(&json).unwrap()
}

fn progress(progress: f64) -> Notification {
    Notification::Progress { progress, total: Some(2.0), message: None }
}

#[tokio::test]
async fn each_method_has_its_call() {
    let transport = FakeTransport::default()
        .then(ToolResult::text("3"))
        .then(Reply::Read(ReadResult::from(ResourceContents::text("a:b", "c"))))
        .then(Reply::Prompt(PromptResult::new([PromptMessage::user("hi")])))
        .then(Reply::Completion(Completion::new(["python"])))
        .transport();
    let caller = caller(&transport);
    let sum = caller.call("add", args! { a: 1, b: 2 }).await.unwrap();
    assert_eq!(sum, ToolResult::text("3"));
    assert_eq!(caller.read("a:b").await.unwrap().contents.len(), 1);
    assert_eq!(caller.prompt("p", ()).await.unwrap().messages.len(), 1);
    let of = CompletionRef::Prompt("p".into());
    let values = caller.complete(of, "language", "py").context([("a", "b")]).await.unwrap();
    assert_eq!(values.values, ["python"]);
    assert_eq!(
        transport.params(),
        [
            json!({"name": "add", "arguments": {"a": 1, "b": 2}}),
            json!({"uri": "a:b"}),
            json!({"name": "p"}),
            json!({"ref": {"type": "ref/prompt", "name": "p"},
                "argument": {"name": "language", "value": "py"},
                "context": {"arguments": {"a": "b"}}}),
        ]
    );
    assert!(transport.sent().iter().all(|sent| sent.asks == InputMode::Deliver));
    assert_eq!(caller.about().info.name, "fake");
    caller.close().await;
}

#[tokio::test]
async fn results_are_deserialized_as_the_requested_type() {
    let text = ToolResult::text;
    let both = text("no").structured(raw(json!({"n": 1})));
    let many = ToolResult::new([Content::text("a"), Content::text("b")]);
    let transport = FakeTransport::default()
        .then(both)
        .then(text("[1, 2]"))
        .then(text("just words"))
        .then(text("just words"))
        .then(many)
        .then(ToolResult::default())
        .then(ToolResult::error("no such crate"))
        .then(text("x").structured(raw(json!("x"))))
        .then(text("[1]").structured(raw(json!({"result": [1]}))))
        .then(text("{}").structured(raw(json!({"result": 1}))))
        .then(text("{}").structured(raw(json!({"result": [1], "more": 2}))))
        .transport();
    let caller = caller(&transport);
    let structured: BTreeMap<String, u8> = caller.call_as("t", ()).await.unwrap();
    assert_eq!(structured["n"], 1);
    assert_eq!(caller.call_as::<Vec<u8>>("t", ()).await.unwrap(), [1, 2]);
    assert_eq!(caller.call_as::<String>("t", ()).await.unwrap(), "just words");
    let error = caller.call_as::<u8>("t", ()).await.unwrap_err();
    assert!(
        error.kind().is_validation_failed() && error.message().contains("just words"),
        "{error}"
    );
    let error = caller.call_as::<String>("t", ()).await.unwrap_err();
    assert!(error.message().contains("2 texts") && error.message().contains("`call`"), "{error}");
    caller.call_as::<()>("t", ()).await.unwrap();
    let error = caller.call_as::<String>("t", ()).await.unwrap_err();
    assert!(error.kind().is_tool_execution_failed() && error.message() == "no such crate");
    assert!(caller.call_as::<u8>("t", ()).await.unwrap_err().kind().is_validation_failed());
    // A value that the server wrapped, and one that only looks wrapped.
    assert_eq!(caller.call_as::<Vec<u8>>("t", ()).await.unwrap(), [1]);
    let object: BTreeMap<String, u8> = caller.call_as("t", ()).await.unwrap();
    assert_eq!(object["result"], 1);
    assert!(caller.call_as::<Vec<u8>>("t", ()).await.is_err());
}

#[tokio::test]
async fn arguments_that_are_not_an_object_are_never_sent() {
    let transport = FakeTransport::default().transport();
    let caller = caller(&transport);
    let error = caller.call("t", [1]).await.unwrap_err();
    assert!(error.kind().is_invalid_params() && error.message().contains("args!"), "{error}");
    let unwritable = BTreeMap::from([((1, 2), 3)]);
    assert!(caller.call("t", &unwritable).await.unwrap_err().kind().is_invalid_params());
    assert!(caller.request("m", 3).await.unwrap_err().kind().is_invalid_params());
    assert_eq!(transport.count(), 0);
}

#[tokio::test]
async fn unsupported_methods_are_not_sent() {
    let transport = FakeTransport::with(json!({})).transport();
    let caller = caller(&transport);
    let of = CompletionRef::Resource("a:{b}".into());
    for error in [
        caller.call("t", ()).await.unwrap_err(),
        caller.read("a:b").await.unwrap_err(),
        caller.prompt("p", ()).await.unwrap_err(),
        caller.complete(of, "b", "").await.unwrap_err(),
        caller.subscribe("a:b").await.unwrap_err(),
        caller.set_log_level(LogLevel::Info).await.unwrap_err(),
        caller.roots_changed().await.unwrap_err(),
    ] {
        assert!(error.kind().is_capability_not_supported(), "{error}");
    }
    assert!(caller.tools().all().await.unwrap().is_empty());
    assert!(caller.resources().all().await.unwrap().is_empty());
    assert!(caller.templates().all().await.unwrap().is_empty());
    assert!(caller.prompts().all().await.unwrap().is_empty());
    assert!(transport.count() == 0 && transport.control_requests().is_empty());
}

#[tokio::test]
async fn any_request_can_be_sent_by_name() {
    let transport = FakeTransport::default().transport();
    let roots = ClientHandlerBuilder::new().fixed_roots([Root::new("file:///a")]);
    let caller = answering(&transport, roots);
    let echo = caller.request("echo", args! { a: 1 }).await.unwrap();
    assert_eq!(echo.get(), r#"{"a":1}"#);
    assert_eq!(caller.request("echo", ()).await.unwrap().get(), "1.50");
    let with_meta = caller.request("echo", ()).meta(args! { k: 1 }).await.unwrap();
    assert_eq!(with_meta.get(), r#"{"_meta":{"k":1}}"#);
    let asked = caller.request("ask", ()).await.unwrap();
    assert_eq!(asked.get(), r#"{"roots":[{"uri":"file:///a"}]}"#);
    assert!(caller.request("gone", ()).await.unwrap_err().kind().is_method_not_found());
}

#[tokio::test(start_paused = true)]
async fn any_request_ends_in_time() {
    let transport = FakeTransport::default().transport();
    let error = caller(&transport).request("silence", ()).await.unwrap_err();
    assert!(error.kind().is_request_timeout() && error.message().contains("60s"), "{error}");
}

#[tokio::test]
async fn progress_and_logs_are_received_in_order() {
    let transport = FakeTransport::default()
        .play(async |_, outbox| {
            outbox.notify(progress(1.0));
            let (level, logger) = (LogLevel::Info, Some("db".to_owned()));
            outbox.notify(Notification::Log { level, logger, data: raw(json!("hi")) });
            outbox.notify(progress(2.0));
            ToolResult::text("done").into()
        })
        .then(Reply::Read(ReadResult::default()))
        .transport();
    let caller = caller(&transport);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (first, second) = (heard.clone(), heard.clone());
    caller
        .call("t", ())
        .on_progress(move |it| first.lock().unwrap().push(json!([it.progress, it.total])))
        .on_log(move |it| second.lock().unwrap().push(json!([it.level, it.logger, it.data])))
        .meta(args! { trace: "x" })
        .await
        .unwrap();
    let expected = [json!([1.0, 2.0]), json!(["info", "db", "hi"]), json!([2.0, 2.0])];
    assert_eq!(*heard.lock().unwrap(), expected);
    caller.read("a:b").await.unwrap();
    let sent = transport.sent();
    assert_eq!(sent[0].params["_meta"], json!({"trace": "x"}));
    // Progress is requested even without a callback.
    assert!(sent[0].progress && !sent[1].progress);
}

#[tokio::test]
async fn the_log_level_goes_with_every_call_from_then_on() {
    let transport = FakeTransport::default().always(|_| ToolResult::default().into()).transport();
    let options = CallOptions::default().log_level(LogLevel::Error);
    let caller = caller_with(&transport, ClientHandlerBuilder::new(), options);
    caller.call("t", ()).await.unwrap();
    caller.clone().set_log_level(LogLevel::Debug).await.unwrap();
    caller.call("t", ()).await.unwrap();
    let levels: Vec<_> = transport.sent().iter().map(|sent| sent.log_level).collect();
    assert_eq!(levels, [Some(LogLevel::Error), Some(LogLevel::Debug)]);
    assert_eq!(transport.control_requests(), [ControlRequest::LogLevel(LogLevel::Debug)]);
}

#[tokio::test(start_paused = true)]
async fn control_requests_are_sent_and_time_out() {
    let mut fake = FakeTransport::default();
    fake.about.info.name = "silent".into();
    let transport = fake.transport();
    let roots = ClientHandlerBuilder::new().roots(async || Ok(vec![]));
    let caller = answering(&transport, roots);
    caller.roots_changed().await.unwrap();
    assert!(caller.ping().await.unwrap_err().kind().is_request_timeout());
    assert_eq!(transport.control_requests(), [ControlRequest::RootsChanged, ControlRequest::Ping]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_call_times_out_and_names_the_option_to_raise() {
    let silence = async |_, _| std::future::pending::<Outcome>().await;
    let transport = FakeTransport::default().play(silence).play(silence).transport();
    let caller = caller(&transport);
    let error = caller.call("t", ()).await.unwrap_err();
    assert!(error.kind().is_request_timeout(), "{error}");
    assert!(error.message().contains("60s") && error.message().contains("`timeout`"), "{error}");
    let error = caller.call("t", ()).timeout(5 * SECOND).await.unwrap_err();
    assert!(error.message().contains("5s"), "{error}");
    assert_eq!(transport.dropped(), 2);
}

#[tokio::test(start_paused = true)]
async fn progress_keeps_a_call_alive_but_not_for_ever() {
    let ticking = |ticks: usize| {
        async move |_, outbox: wharf_model::Outbox| {
            for n in 0..ticks {
                tokio::time::sleep(50 * SECOND).await;
                outbox.notify(progress(n as f64));
            }
            ToolResult::text("done").into()
        }
    };
    let transport = FakeTransport::default()
        .play(ticking(5))
        .play(ticking(1000))
        .play(ticking(1000))
        .transport();
    let caller = caller(&transport);
    assert_eq!(caller.call("t", ()).await.unwrap(), ToolResult::text("done"));
    let error = caller.call("t", ()).await.unwrap_err();
    assert!(error.kind().is_request_timeout() && error.message().contains("600s"), "{error}");
    assert!(error.message().contains("`total`"), "{error}");
    let error = caller.call("t", ()).total(70 * SECOND).await.unwrap_err();
    assert!(error.message().contains("70s"), "{error}");
    assert_eq!(transport.dropped(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_events_does_not_prevent_a_timeout() {
    let flood = async |_, outbox: wharf_model::Outbox| {
        loop {
            for n in 0..100_u8 {
                outbox.notify(progress(n.into()));
            }
            outbox.wait_for_capacity().await;
            tokio::time::advance(SECOND).await;
        }
    };
    let transport = FakeTransport::default().play(flood).transport();
    let error = caller(&transport).call("t", ()).await.unwrap_err();
    assert!(error.kind().is_request_timeout() && error.message().contains("600s"), "{error}");
}

/// python#2507: the client never sent a cancellation.
#[tokio::test]
async fn dropping_a_call_cancels_it() {
    let transport = FakeTransport::default()
        .play(async |_, _| std::future::pending::<Outcome>().await)
        .transport();
    let mut call = caller(&transport).call("t", ()).into_future();
    assert!(crate::support::poll_once(&mut call).is_pending());
    drop(call);
    assert_eq!(transport.dropped(), 1);
}

#[tokio::test]
async fn a_call_that_is_not_awaited_is_not_sent() {
    let transport = FakeTransport::default().transport();
    drop(caller(&transport).call("t", ()));
    assert_eq!(transport.count(), 0);
}

#[tokio::test]
async fn a_result_of_another_method_is_an_error() {
    let transport =
        FakeTransport::default().then(Reply::Listened).then(Reply::Listened).transport();
    let caller = caller(&transport);
    assert!(caller.call("t", ()).await.unwrap_err().kind().is_internal_error());
    assert!(caller.tools().all().await.unwrap_err().kind().is_internal_error());
}

#[tokio::test]
async fn errors_of_the_server_are_returned_unchanged() {
    let error = Error::new(ErrorKind::RefusedPolicy).with_message("no").with_data(json!({"a": 1}));
    let transport = FakeTransport::default().then(error.clone()).transport();
    assert_eq!(caller(&transport).call("t", ()).await.unwrap_err(), error);
    assert_eq!(transport.sent()[0].method, Method::CallTool);
}
