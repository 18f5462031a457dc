//! All client functions in each of the five revisions, with our own server.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, value::RawValue};
use tokio::time::timeout;
use wharf_client::{ControlRequest, NotificationListener};
use wharf_model::{
    Deadlines, ErrorKind, LogLevel, Method, Notification, Outbox, Outcome, Reply, RequestBuilder,
};
use wharf_transport::TokioTimer;
use wharf_wire::Revision;

use crate::client_lines::support::{
    StreamCall, StreamServer, TraceLog, call, call_text, options, pinned, short, tool,
};

fn dates() -> impl Iterator<Item = &'static str> {
    Revision::ALL.into_iter().map(Revision::as_str)
}

#[tokio::test(start_paused = true)]
async fn server_info_is_sent_in_every_revision() {
    for date in dates() {
        let about = StreamServer::new().link(pinned(date)).await.about();
        assert_eq!(about.revision, date);
        assert_eq!(about.info.name, "toy");
        assert_eq!(about.discovery.instructions.as_deref(), Some("be gentle"), "{date}");
        assert!(about.discovery.capabilities.tools.is_some(), "{date}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_pin_the_newest_is_spoken() {
    let about = StreamServer::new().link(options()).await.about();
    assert_eq!(about.revision, *dates().last().as_ref().unwrap());
    assert_eq!(about.supported.len(), 5, "{:?}", about.supported);
}

#[tokio::test(start_paused = true)]
async fn calls_end_with_results_and_errors() {
    for date in dates() {
        let link = StreamServer::new().link(pinned(date)).await;
        assert_eq!(call_text(&link, "now").await.unwrap(), "now {}");
        let laid_out = RequestBuilder::new(Method::CallTool)
            .target("a\nb")
            .arguments("{\n \"x\":\r\n [1,\t2]}")
            .build();
        let (_, outcome) = call(&link, laid_out).await;
        let Outcome::Complete(Reply::Tool(result)) = outcome else { panic!("{outcome:?}") };
        let text = serde_json::to_value(&result).unwrap()["content"][0]["text"].to_string();
        assert!(text.contains("a\\nb") && text.contains('2'), "{date} {text}");
        assert_eq!(
            call_text(&link, "fail").await.unwrap_err().kind,
            ErrorKind::RateLimited,
            "{date}"
        );
        let discover = RequestBuilder::new(Method::Discover).build();
        let (_, outcome) = call(&link, discover).await;
        assert!(matches!(outcome, Outcome::Complete(Reply::Discover(_))), "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn progress_and_logs_reach_the_call_before_its_end() {
    for date in dates() {
        let link = StreamServer::new().link(pinned(date)).await;
        link.run(ControlRequest::LogLevel(LogLevel::Debug)).await.unwrap();
        let (received, _) = call(&link, tool("talk")).await;
        assert_eq!(received, ["progress 1", "log \"half way\"", "progress 2"], "{date}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_reaches_the_call_it_is_about() {
    for date in dates() {
        let link = StreamServer::new().link(pinned(date)).await;
        let (_, outcome) = call(&link, tool("ask")).await;
        match outcome {
            Outcome::InputRequired(it) => {
                assert_eq!(date, "2026-07-28");
                assert_eq!(it.requests[0].0, "where");
                assert_eq!(it.state.as_deref(), Some("sealed"));
            }
            Outcome::Complete(Reply::Tool(result)) => {
                let text = serde_json::to_value(&result).unwrap()["content"][0]["text"].clone();
                assert!(text.as_str().unwrap().contains("file:///quay"), "{date} {text}");
            }
            other => panic!("{date} {other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_ends_at_the_server_too() {
    for date in dates() {
        let server = StreamServer::new();
        let mut options = pinned(date);
        let trail = TraceLog::on(&mut options);
        let link = server.link(options).await;
        let mut hanging = StreamCall::start(&link, tool("hang"));
        assert!(timeout(Duration::from_secs(1), hanging.next()).await.is_err());
        server.until_calls(1).await;
        drop(hanging);
        server.until_calls(0).await;
        assert_eq!(trail.count("notifications/cancelled"), 1, "{:?}", trail.all());
        assert_eq!(call_text(&link, "now").await.unwrap(), "now {}");
        assert_eq!(trail.count("notifications/cancelled"), 1, "{:?}", trail.all());
    }
}

#[tokio::test(start_paused = true)]
async fn time_that_runs_out_cancels() {
    let server = StreamServer::new();
    let link = server.link(options()).await;
    let error = call_text(&link, "hang").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::RequestTimeout);
    server.until_calls(0).await;
}

#[tokio::test(start_paused = true)]
async fn errands_are_run_as_each_era_does() {
    for date in dates() {
        let server = StreamServer::new();
        let mut options = pinned(date);
        let trail = TraceLog::on(&mut options);
        let link = server.link(options).await;
        for errand in [
            ControlRequest::Ping,
            ControlRequest::LogLevel(LogLevel::Error),
            ControlRequest::RootsChanged,
        ] {
            link.run(errand).await.unwrap();
        }
        // Notifications are at least written before the next call.
        link.run(ControlRequest::Ping).await.unwrap();
        let legacy = usize::from(date != "2026-07-28");
        let counts = [
            "> {\"jsonrpc\":\"2.0\",\"method\":\"notifications/roots/list_changed\"",
            "logging/setLevel",
            "\"ping\"",
        ]
        .map(|part| trail.count(part));
        assert_eq!(counts, [legacy, legacy, 2 * legacy], "{date} {:?}", trail.all());
    }
}

#[tokio::test(start_paused = true)]
async fn any_request_can_be_made_by_its_name() {
    for date in dates() {
        let link = StreamServer::new().link(pinned(date)).await;
        let request = |method: &str, params: Option<&str>| {
            let outbox = Outbox::new(Arc::new(TokioTimer), Deadlines::default());
            let params = params.map(|it| RawValue::from_string(it.into()).unwrap());
            link.request(method.to_owned(), params, outbox)
        };
        let result = request("tools/call", Some(r#"{"name":"raw","arguments":{"a":1}}"#)).await;
        let result: Value = serde_json::from_str(result.unwrap().get()).unwrap();
        assert_eq!(result["content"][0]["text"], r#"raw {"a":1}"#, "{date}");
        let refused = request("no/such", None).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::MethodNotFound, "{date}");
    }
}

struct NotificationLog(Mutex<Vec<String>>);

impl NotificationListener for NotificationLog {
    fn on_notification(&self, notification: &Notification) {
        self.0.lock().unwrap().push(short(notification));
    }
}

#[tokio::test(start_paused = true)]
async fn a_listener_receives_notifications_outside_of_calls() {
    for date in dates().filter(|date| *date != "2026-07-28") {
        let server = StreamServer::new();
        let link = server.link(pinned(date)).await;
        let ear = Arc::new(NotificationLog(Mutex::default()));
        let weak = Arc::downgrade(&ear);
        link.add_listener(weak);
        server.change(Notification::ToolsChanged).await;
        crate::client_lines::support::until(|| !ear.0.lock().unwrap().is_empty()).await;
        assert_eq!(*ear.0.lock().unwrap(), ["ToolsChanged"], "{date}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_closed_link_ends_the_connection_and_its_calls() {
    for date in dates() {
        let server = StreamServer::new();
        let ((reader, writer), serving) = server.pipe();
        let link =
            wharf_transport::client::connect_stream((reader, writer), pinned(date)).await.unwrap();
        let mut hanging = StreamCall::start(&link, tool("hang"));
        assert!(timeout(Duration::from_secs(1), hanging.next()).await.is_err());
        link.close().await;
        let (_, outcome) = hanging.end().await;
        let Outcome::Failed(error) = outcome else { panic!("{outcome:?}") };
        assert_eq!(error.kind, ErrorKind::ConnectionClosed);
        timeout(Duration::from_secs(60), serving).await.unwrap().unwrap();
        assert_eq!(call_text(&link, "now").await.unwrap_err().kind, ErrorKind::ConnectionClosed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_link_that_is_dropped_ends_the_connection() {
    let server = StreamServer::new();
    let ((reader, writer), serving) = server.pipe();
    let link = wharf_transport::client::connect_stream((reader, writer), options()).await.unwrap();
    drop(link);
    timeout(Duration::from_secs(60), serving).await.unwrap().unwrap();
}
