//! Lists, calls, and their results.

use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use serde_json::json;
use wharf::{
    Content, ErrorKind, args,
    model::{Body, CompletionRef, LogLevel, ResourceContents},
};

use crate::harness::{FOUND_OUT, Harness, Route, in_time};

pub async fn server_info_is_returned(harness: Harness) {
    let client = harness.client().await;
    let about = client.about();
    assert_eq!((&*about.info.name, &*about.info.version), ("behaviour", "1.0.0"));
    assert_eq!(about.discovery.instructions.as_deref(), Some("Try everything."));
    let expected = match (harness.route, harness.revision) {
        (Route::Local, _) => "",
        (Route::Sse2024, FOUND_OUT) => "2025-11-25",
        (_, FOUND_OUT) => "2026-07-28",
        (_, revision) => revision,
    };
    assert_eq!(about.revision, expected);
    let can = client.capabilities();
    assert!(can.tools.is_some() && can.prompts.is_some() && can.completions && can.logging);
    assert!(can.resources.is_some_and(|it| it.subscribe));
}

pub async fn lists_are_walked_to_their_end(harness: Harness) {
    let client = harness.client().await;
    let tools = in_time(client.tools().all()).await.unwrap();
    assert_eq!(tools.len(), 21);
    let add = tools.iter().find(|tool| tool.name == "add").unwrap();
    assert_eq!(add.description.as_deref(), Some("Adds two numbers."));
    assert_eq!(add.input_schema["required"], json!(["a", "b"]));
    assert_eq!(in_time(client.resources().all()).await.unwrap().len(), 4);
    assert_eq!(in_time(client.templates().all()).await.unwrap().len(), 3);
    let prompts = in_time(client.prompts().all()).await.unwrap();
    let names: Vec<&str> = prompts.iter().map(|prompt| &*prompt.name).collect();
    assert_eq!(names, ["greet", "review", "interview"]);
}

pub async fn a_tool_is_called_with_values_and_gives_values(harness: Harness) {
    let client = harness.client().await;
    let sum: i64 = in_time(client.call_as("add", args! { a: 1, b: 2 })).await.unwrap();
    assert_eq!(sum, 3);
    let text: String = in_time(client.call_as("echo", args! { text: "12" })).await.unwrap();
    assert_eq!(text, "12");
    #[derive(serde::Deserialize)]
    struct Weather {
        city: String,
        celsius: f64,
    }
    let arguments = json!({"city": "Łódź"});
    let weather: Weather = in_time(client.call_as("weather", arguments)).await.unwrap();
    assert_eq!((&*weather.city, weather.celsius), ("Łódź", 21.5));
}

pub async fn a_tool_that_fails_is_a_result_and_for_values_an_error(harness: Harness) {
    let client = harness.client().await;
    let result = in_time(client.call("fail", args! { reason: "no" })).await.unwrap();
    assert!(result.is_error);
    assert_eq!(result.content, [Content::text("no")]);
    let error = in_time(client.call_as::<i64>("fail", args! { reason: "no" })).await.unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::ToolExecutionFailed, "no"));
    let result = in_time(client.call("crash", ())).await.unwrap();
    assert!(result.is_error && !format!("{result:?}").contains("secret"));
}

pub async fn unknown_tools_and_arguments_are_errors(harness: Harness) {
    let client = harness.client().await;
    let error = in_time(client.call("nothing", ())).await.unwrap_err();
    assert!(error.message().contains("Unknown tool: nothing"), "{error}");
    let called = in_time(client.call("add", args! { a: 1 })).await;
    // A proxy forwards the reply of its upstream server, which has another revision.
    if harness.is_at_least("2025-11-25") || harness.route == Route::Proxy {
        assert!(called.unwrap().is_error);
    } else {
        assert!(called.unwrap_err().kind().is_caller_fault());
    }
    let error = in_time(client.read("test://gone")).await.unwrap_err();
    assert!(error.kind().is_resource_not_found(), "{error:?}");
    let error = in_time(client.prompt("nothing", ())).await.unwrap_err();
    assert!(error.message().contains("nothing"), "{error}");
}

pub async fn every_content_arrives(harness: Harness) {
    let client = harness.client().await;
    let result = in_time(client.call("gallery", ())).await.unwrap();
    let [text, image, audio, link, resource] = &result.content[..] else { panic!("{result:?}") };
    assert_eq!(*text, Content::text("text"));
    assert_eq!(*image, Content::image(b"image", "image/png"));
    assert_eq!(matches!(audio, Content::Audio(_)), harness.is_at_least("2025-03-26"));
    assert_eq!(matches!(link, Content::Link(_)), harness.is_at_least("2025-06-18"));
    assert!(matches!(resource, Content::Resource(_)));
}

pub async fn resources_are_read(harness: Harness) {
    let client = harness.client().await;
    let text = |contents: &[ResourceContents]| match &contents[0].body {
        Body::Text(text) => text.to_string(),
        other => panic!("{other:?}"),
    };
    let read = in_time(client.read("test://readme")).await.unwrap();
    assert_eq!(text(&read.contents), "Read me.");
    assert_eq!(read.contents[0].mime_type.as_deref(), Some("text/markdown"));
    let read = in_time(client.read("test://notes/shopping")).await.unwrap();
    assert_eq!(text(&read.contents), "Note shopping");
    let read = in_time(client.read("test://files/a/b%20c")).await.unwrap();
    assert!(text(&read.contents).starts_with("File a/b"));
    let read = in_time(client.read("test://logo")).await.unwrap();
    assert!(!matches!(read.contents[0].body, Body::Text(_)));
}

pub async fn prompts_are_filled_in(harness: Harness) {
    let client = harness.client().await;
    let prompt = in_time(client.prompt("greet", args! { name: "Ada" })).await.unwrap();
    assert_eq!(prompt.messages[0].content, Content::text("Say hello to Ada."));
    assert!(in_time(client.prompt("greet", ())).await.is_err());
}

pub async fn arguments_are_completed(harness: Harness) {
    let client = harness.client().await;
    let of = CompletionRef::prompt("review");
    let completion = in_time(client.complete(of, "language", "p")).await.unwrap();
    assert_eq!(completion.values, ["python", "pascal", "perl"]);
    let of = CompletionRef::resource("test://notes/{name}");
    let completion = in_time(client.complete(of, "name", "st")).await.unwrap();
    assert_eq!(completion.values, ["standup", "story"]);
}

pub async fn progress_and_logs_arrive_before_the_end(harness: Harness) {
    let client = harness.client().await;
    in_time(client.set_log_level(LogLevel::Warning)).await.unwrap();
    let heard = Arc::new(Mutex::new((Vec::new(), Vec::new())));
    let (progress, logs) = (heard.clone(), heard.clone());
    let call = client
        .call_as::<u32>("count", args! { to: 3 })
        .on_progress(move |it| progress.lock().unwrap().0.push((it.progress, it.total)))
        .on_log(move |it| logs.lock().unwrap().1.push((it.level, it.data.get().to_owned())));
    assert_eq!(in_time(call).await.unwrap(), 3);
    let (progress, logs) = &*heard.lock().unwrap();
    assert_eq!(*progress, [(1.0, Some(3.0)), (2.0, Some(3.0)), (3.0, Some(3.0))]);
    let said = [1, 2, 3].map(|step| (LogLevel::Warning, format!("{{\"step\":{step}}}")));
    assert_eq!(*logs, said);
}

pub async fn a_ping_and_any_request_are_answered(harness: Harness) {
    let client = harness.client().await;
    in_time(client.ping()).await.unwrap();
    let params = json!({"name": "add", "arguments": {"a": 1, "b": 2}});
    let result = in_time(client.request("tools/call", params)).await.unwrap();
    assert!(result.get().contains("\"3\""), "{result}");
    let error = in_time(client.request("no/such", json!({}))).await.unwrap_err();
    assert!(error.kind().is_method_not_found(), "{error:?}");
}

pub async fn many_calls_at_once_get_their_own_answers(harness: Harness) {
    let client = harness.client().await;
    let calls = (0..64).map(|number| {
        let nonce = format!("nonce-{number}");
        let arguments = args! { milliseconds: number * 7 % 20, nonce: nonce.clone() };
        let call = client.call_as::<String>("nap", arguments).into_future();
        async move { (nonce, call.await) }
    });
    for (nonce, answer) in in_time(join_all(calls)).await {
        assert_eq!(answer.unwrap(), nonce);
    }
}
