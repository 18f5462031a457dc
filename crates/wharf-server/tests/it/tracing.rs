//! Trace output of calls, and the data it must not contain.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
};

use crate::support::*;
use schemars::JsonSchema;
use serde::Deserialize;
use tracing::{
    Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};
use wharf_model::{
    ActiveCall, BoxFuture, CallStart, CallState, ClientObservation, Deadlines, Error, ErrorKind,
    Event, Method, ObservedServer, ObservedSession, ObservedTransport, Observer, Observers, Outbox,
    Outcome, Parts, Principal, Request, Service, ToolResult, hashed_id,
};
use wharf_server::{Args, Extension, PanicGuard, Resource, Router, Tool, ToolError, Tracing};
use wharf_testbed::LogCatcher;

/// Collects every span and event as text.
#[derive(Clone, Default)]
struct TraceCollector(Arc<Mutex<Vec<String>>>, Arc<AtomicU64>);

struct LogLine(String);

impl Visit for LogLine {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0 += &format!(" {field}={value:?}");
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0 += &format!(" {field}={value}");
    }
}

impl Subscriber for TraceCollector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("wharf_")
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        let mut line = LogLine(format!("span {}", span.metadata().name()));
        span.record(&mut line);
        self.0.lock().unwrap().push(line.0);
        span::Id::from_u64(self.1.fetch_add(1, Ordering::SeqCst) + 1)
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        let mut line = LogLine("record".into());
        values.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = LogLine("event".into());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Login {
    password: String,
}

#[test]
fn one_span_a_call_with_clean_names_and_no_arguments() {
    let router = Router::builder()
        .add(Tool::new("login", async |_: Args<Login>| "welcome"))
        .observe(Tracing)
        .build()
        .unwrap();
    let record = TraceCollector::default();
    tracing::subscriber::with_default(record.clone(), || {
        now(&router, call("login", r#"{"password":"hunter2"}"#));
        now(&router, call("login", r#"{"password":["hunter2"]}"#));
        now(&router, call("evil\r\n\u{1b}[31m\u{202e}name", "{}"));
    });
    let lines = record.0.lock().unwrap().clone();
    let all = lines.join("|");
    assert_eq!(lines.iter().filter(|line| line.starts_with("span")).count(), 3, "{lines:#?}");
    assert!(lines[0].starts_with("span call otel.name=tools/call login otel.kind=server "));
    assert!(lines[0].contains(" gen_ai.tool.name=login"), "{lines:#?}");
    let ends: Vec<_> = lines.iter().filter(|line| line.starts_with("event")).collect();
    assert_eq!(ends.len(), 3, "{ends:#?}");
    let outcomes =
        ["complete", "invalid_tool_arguments", "tool_not_found error=Unknown tool: evil"];
    for (end, outcome) in ends.into_iter().zip(outcomes) {
        assert!(end.contains("message=call finished method=tools/call name="), "{end}");
        assert!(end.contains(&format!(" outcome={outcome}")), "{end}");
    }
    assert!(!all.contains("hunter2") && !all.contains("welcome"), "{all}");
    assert!(!all.contains(['\r', '\n', '\u{1b}', '\u{202e}']), "{all:?}");
}

/// A request as a transport receives it.
fn received_request(meta: &str) -> Request {
    let body = format!(
        r#"{{"id":"a1","params":{{"name":"login","arguments":{{"password":"x"}},"_meta":{meta}}}}}"#
    );
    let at = |text: &str| {
        let start = body.find(text).unwrap();
        wharf_model::Span::new(start as u32, (start + text.len()) as u32)
    };
    let params = body[body.find("params").unwrap() + 8..].strip_suffix('}').unwrap();
    let mut parts = Parts::default();
    parts.id = at("\"a1\"");
    parts.params = at(params);
    parts.target = at("\"login\"");
    parts.arguments = at(r#"{"password":"x"}"#);
    parts.meta = at(meta);
    let mut request = Request::new(Method::CallTool, body.clone().into(), parts);
    request.scope.insert(ObservedTransport::Http);
    request.scope.insert(Principal::new("alice"));
    request.scope.insert(ObservedSession("secret-session".into()));
    request
}

#[test]
fn the_line_of_a_call_has_its_principal_target_and_trace() {
    let tool = Tool::new("login", async |_: Args<Login>| ToolResult::error("no\nwind"));
    let router = Router::builder().add(tool).build().unwrap();
    let meta = r#"{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}"#;
    let record = TraceCollector::default();
    tracing::subscriber::with_default(record.clone(), || now(&router, received_request(meta)));
    let lines = record.0.lock().unwrap().clone();
    let ends: Vec<_> = lines.iter().filter(|line| line.starts_with("event")).collect();
    let [end] = ends[..] else { panic!("one line, not {lines:#?}") };
    let session = hashed_id("secret-session");
    let (before, after) = end.split_once(" ms=").unwrap();
    assert_eq!(
        before,
        format!(
            "event message=call finished method=tools/call name=login id=a1 transport=http \
             principal=alice session={session}"
        )
    );
    let after = after.split_once(' ').unwrap().1;
    assert_eq!(
        after,
        "outcome=tool_error error=no\u{fffd}wind trace_id=0af7651916cd43dd8448eb211c80319c \
         span_id=b7ad6b7169203331"
    );
    assert!(!lines.join("|").contains("secret"), "{lines:#?}");
}

/// The default filter of a server is `warn`: nothing is formatted before the line is due.
#[test]
fn the_line_of_a_failure_has_all_fields_where_calls_have_no_span() {
    let broken = Tool::new("login", async |_: Args<Login>| boom());
    let router = Router::builder().add(broken).build().unwrap();
    let meta = r#"{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}"#;
    let (log, _guard) = LogCatcher::on_this_thread(Level::WARN);
    now(&router, call("unknown", "{}"));
    assert!(log.lines().is_empty(), "{:#?}", log.lines());
    now(&router, received_request(meta));
    let lines = log.lines();
    let [line] = &lines[..] else { panic!("one line, not {lines:#?}") };
    let session = format!("session=\"{}\"", hashed_id("secret-session"));
    for field in [
        "method=\"tools/call\" name=\"login\" id=\"a1\" transport=\"http\" principal=\"alice\"",
        &session,
        "outcome=\"panicked\"",
        "trace_id=\"0af7651916cd43dd8448eb211c80319c\" span_id=\"b7ad6b7169203331\"",
    ] {
        assert!(line.contains(field), "{field}: {line}");
    }
}

#[test]
fn the_call_of_a_client_has_a_span_and_a_line_too() {
    struct Echo;
    impl Service for Echo {
        fn call(&self, _: Request, _: Outbox) -> BoxFuture<Outcome> {
            Box::pin(async { ToolResult::text("x").into() })
        }
    }
    let observers = Observers::default().with(Tracing);
    let server = ObservedServer::default()
        .address("mcp.example".to_owned())
        .port(443_u16)
        .transport(ObservedTransport::Http);
    let client = ClientObservation {
        observers: &observers,
        server: &server,
        protocol_version: Some("2025-11-25"),
        has_target: None,
        forwards_baggage: false,
    };
    let record = TraceCollector::default();
    tracing::subscriber::with_default(record.clone(), || {
        let deadlines = Deadlines::NONE;
        let timer = Arc::new(NeverTimer);
        let request = call("login", "{}");
        let mut call = ActiveCall::start_for_client(&Echo, request, timer, deadlines, client);
        assert!(matches!(poll(&mut call), Poll::Ready(Event::Done(_))));
    });
    let lines = record.0.lock().unwrap().clone();
    let [span, end] = &lines[..] else { panic!("a span and a line, not {lines:#?}") };
    assert!(span.starts_with("span call otel.name=tools/call login otel.kind=client "), "{span}");
    assert!(span.contains(" server.address=mcp.example server.port=443"), "{span}");
    let line = "event message=call finished role=client method=tools/call name=login \
                revision=2025-11-25 transport=http ms=";
    assert!(end.starts_with(line), "{end}");
}

fn boom() -> String {
    panic!("hunter2\n")
}

#[test]
fn a_panic_is_logged_as_the_end_of_its_call() {
    let router = Router::builder()
        .add(Tool::new("later", async || {
            tokio::task::yield_now().await;
            boom()
        }))
        .add(Tool::inline("at-once", boom))
        .add(Resource::new("x:broken", async || boom()))
        .observe(Tracing)
        .build()
        .unwrap();
    let calls = [
        (call("later", "{}"), "method=tools/call name=later"),
        (call("at-once", "{}"), "method=tools/call name=at-once"),
        (read("x:broken"), "method=resources/read name=x:broken"),
    ];
    for (request, about) in calls {
        let record = TraceCollector::default();
        let outcome = tracing::subscriber::with_default(record.clone(), || {
            let mut active_call = start_without_runtime(&router, request);
            loop {
                if let Poll::Ready(Event::Done(outcome)) = poll(&mut active_call) {
                    break outcome;
                }
            }
        });
        assert!(!format!("{outcome:?}").contains("hunter2"), "{outcome:?}");
        let lines = record.0.lock().unwrap().clone();
        let ends: Vec<_> = lines.iter().filter(|line| line.starts_with("event")).collect();
        let [end] = ends[..] else { panic!("one line, not {ends:#?}") };
        assert!(end.contains("message=call finished") && end.contains(about), "{end}");
        assert!(end.contains(" outcome=panicked error=hunter2\u{fffd}"), "{end}");
        assert!(lines.contains(&"record error.type=panic".to_owned()), "{lines:#?}");
        assert!(lines.contains(&"record otel.status_code=ERROR".to_owned()), "{lines:#?}");
    }
}

/// Only the middleware logged them, so a router without it ended such calls in silence.
#[test]
fn an_internal_error_and_a_panic_are_logged_once_without_middleware_for_it() {
    fn broken() -> Result<&'static str, Error> {
        Err(Error::internal("hunter2".parse::<u8>().unwrap_err()))
    }
    let router = || {
        Router::builder()
            .add(Resource::inline("x:error", broken))
            .add(Resource::inline("x:panic", boom))
    };
    let guarded = router().layer(PanicGuard).build().unwrap();
    for router in [router().build().unwrap(), guarded, router().observe(Tracing).build().unwrap()] {
        for (uri, text) in [("x:error", "invalid digit"), ("x:panic", "hunter2")] {
            let record = TraceCollector::default();
            let error = tracing::subscriber::with_default(record.clone(), || {
                error(now(&router, read(uri)))
            });
            assert_eq!(error.kind, ErrorKind::InternalError);
            let lines = record.0.lock().unwrap().clone();
            let is_logged = |line: &&String| line.starts_with("event") && line.contains(text);
            let logged: Vec<_> = lines.iter().filter(is_logged).collect();
            let [line] = logged[..] else { panic!("one line, not {lines:#?}") };
            assert!(line.contains(&format!("method=resources/read name={uri} ")), "{line}");
        }
    }
}

/// A task and a service of the application run without middleware.
#[test]
fn a_panic_of_any_service_is_logged_once() {
    struct Broken;
    impl Service for Broken {
        fn call(&self, _: Request, _: Outbox) -> BoxFuture<Outcome> {
            Box::pin(async { panic!("hunter2\n\u{202e}") })
        }
    }
    let record = TraceCollector::default();
    let ended = tracing::subscriber::with_default(record.clone(), || {
        poll(&mut start_without_runtime(&Broken, read("x:panic")))
    });
    assert!(!format!("{ended:?}").contains("hunter2"), "{ended:?}");
    let lines = record.0.lock().unwrap().clone();
    let [line] = &lines[..] else { panic!("one line, not {lines:#?}") };
    assert!(line.contains("method=resources/read"), "{line}");
    assert!(line.contains(r#"panic="hunter2\n\u{202e}""#), "{line}");
}

/// Metrics receive the end of the call, and log nothing.
#[test]
fn a_panic_is_logged_once_whatever_observes_the_call() {
    struct Counting;
    impl Observer for Counting {
        fn call_started(&self, _: &CallStart<'_>) -> CallState {
            CallState::Token(1)
        }
    }
    struct Broken(Observers);
    impl Service for Broken {
        fn call(&self, _: Request, _: Outbox) -> BoxFuture<Outcome> {
            Box::pin(async { panic!("hunter2") })
        }

        fn observers(&self) -> &Observers {
            &self.0
        }
    }
    let counted = Observers::default().with(Counting);
    for observers in [counted.clone(), counted.with(Tracing)] {
        let record = TraceCollector::default();
        let ended = tracing::subscriber::with_default(record.clone(), || {
            poll(&mut start_without_runtime(&Broken(observers), read("x:panic")))
        });
        assert!(ended.is_ready());
        let lines = record.0.lock().unwrap().clone();
        let is_logged = |line: &&String| line.starts_with("event") && line.contains("hunter2");
        let logged: Vec<_> = lines.iter().filter(is_logged).collect();
        let [line] = logged[..] else { panic!("one line, not {lines:#?}") };
        assert!(line.contains("method=resources/read"), "{line}");
    }
}

/// A release build recorded such a result, and reported it only when a retry read it.
#[test]
fn an_invalid_result_is_logged_without_its_values() {
    let schema = serde_json::json!({
        "type": "object", "properties": {"token": {"type": "string", "maxLength": 3}},
    });
    let result = || ToolResult::json(&serde_json::json!({"token": "hunter2\r\n"})).unwrap();
    let tool = Tool::inline("leak", result).output_schema(schema);
    let router = Router::builder().add(tool).build().unwrap();
    let record = TraceCollector::default();
    tracing::subscriber::with_default(record.clone(), || {
        assert_eq!(kind(now(&router, call("leak", "{}"))), ErrorKind::OutputSchemaMismatch);
    });
    let all = record.0.lock().unwrap().join("|");
    assert!(all.contains("tool=leak") && all.contains("`token`"), "{all}");
    assert!(!all.contains("hunter2") && !all.contains(['\r', '\n']), "{all:?}");
}

#[derive(Clone)]
struct Tenant;

#[test]
fn a_missing_extension_is_logged_with_its_type_and_handler() {
    let router = Router::builder()
        .add(Tool::inline("whose", |_: Extension<Tenant>| "mine"))
        .build()
        .unwrap();
    let record = TraceCollector::default();
    let error = tracing::subscriber::with_default(record.clone(), || {
        error(now(&router, call("whose", "{}")))
    });
    assert_eq!(error.kind, ErrorKind::InternalError);
    assert!(!error.message.contains("Tenant"), "{error}");
    let all = record.0.lock().unwrap().join("|");
    assert!(
        all.contains("handler=whose") && all.contains("Extension<it::tracing::Tenant>"),
        "{all}"
    );
}

#[test]
fn the_cause_of_a_handlers_failure_is_logged_only() {
    fn secret() -> Result<&'static str, std::num::ParseIntError> {
        "hunter2".parse::<u8>().map(|_| "never")
    }
    fn tool_error() -> Result<&'static str, ToolError> {
        Ok(secret()?)
    }
    let router = Router::builder()
        .add(Resource::inline("x:std", secret))
        .add(Resource::inline("x:tool", tool_error))
        .add(Resource::inline("x:error", || secret().map_err(Error::internal)))
        .add(Tool::inline("std", secret))
        .add(Tool::inline("tool", tool_error))
        .observe(Tracing)
        .build()
        .unwrap();
    let (internal, failed) = (ErrorKind::InternalError, ErrorKind::ToolExecutionFailed);
    for (method, name, kind) in [
        ("resources/read", "x:std", internal),
        ("resources/read", "x:tool", internal),
        ("resources/read", "x:error", internal),
        ("tools/call", "std", failed),
        ("tools/call", "tool", failed),
    ] {
        let record = TraceCollector::default();
        let request = match method {
            "tools/call" => call(name, "{}"),
            _ => read(name),
        };
        let error =
            tracing::subscriber::with_default(record.clone(), || error(now(&router, request)));
        assert_eq!(error.kind, kind);
        assert!(!error.message.contains("digit"), "{error}");
        let lines = record.0.lock().unwrap().clone();
        let is_logged =
            |line: &&String| line.starts_with("event") && line.contains("invalid digit");
        let logged: Vec<_> = lines.iter().filter(is_logged).collect();
        let [line] = logged[..] else { panic!("one line, not {lines:#?}") };
        assert!(line.contains(&format!("method={method} name={name} ")), "{line}");
        assert!(line.contains("error=invalid digit found in string"), "{line}");
    }
}
