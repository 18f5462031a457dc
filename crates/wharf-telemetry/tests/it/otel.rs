//! Spans of calls, made with the OpenTelemetry SDK of an application.

use std::{
    future::ready,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Instant,
};

use opentelemetry::{
    global,
    trace::{SpanKind, Status, TraceContextExt as _},
};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
use wharf_model::{
    ActiveCall, BoxFuture, ClientObservation, Deadlines, Event, Method, ObservedServer, Observers,
    Outbox, Outcome, Request, RequestBuilder, Service, Timer, ToolResult, TraceContext,
};
use wharf_telemetry::OpenTelemetrySpans;

/// Fails with the contexts that it sees.
struct Contexts(Observers);

impl Service for Contexts {
    fn call(&self, _: Request, _: Outbox) -> BoxFuture<Outcome> {
        let ours = TraceContext::current().unwrap();
        let theirs = opentelemetry::Context::current().span().span_context().clone();
        assert_eq!(format!("{:032x}", ours.trace_id()), theirs.trace_id().to_string());
        assert_eq!(format!("{:016x}", ours.span_id()), theirs.span_id().to_string());
        Box::pin(ready(ToolResult::error("no wind").into()))
    }

    fn observers(&self) -> &Observers {
        &self.0
    }

    fn has_target(&self, _: &Request) -> bool {
        true
    }
}

struct NoTimer;

impl Timer for NoTimer {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep_until(&self, _: Instant) -> BoxFuture<()> {
        Box::pin(std::future::pending())
    }
}

#[test]
fn a_client_and_a_server_are_in_the_trace_of_the_caller() {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    global::set_tracer_provider(provider);
    let observers = Observers::default().with(OpenTelemetrySpans::new());
    let meta = r#"{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a=1"}"#;
    let request = RequestBuilder::new(Method::CallTool).target("sail").meta(meta).build();
    let server = ObservedServer::default().address("mcp.example".to_owned()).port(8000_u16);
    let client = ClientObservation {
        observers: &observers,
        server: &server,
        protocol_version: None,
        has_target: None,
        forwards_baggage: false,
    };
    let service = Contexts(observers.clone());
    let deadlines = Deadlines::NONE;
    let timer = Arc::new(NoTimer);
    let mut call = ActiveCall::start_for_client(&service, request, timer, deadlines, client);
    let polled = call.poll_event(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Ready(Event::Done(_))));
    let spans = exporter.get_finished_spans().unwrap();
    let [first, second] = &spans[..] else { panic!("two spans, not {spans:#?}") };
    let (client, server) = match first.span_kind {
        SpanKind::Client => (first, second),
        _ => (second, first),
    };
    assert_eq!((&client.span_kind, &server.span_kind), (&SpanKind::Client, &SpanKind::Server));
    assert_eq!(client.parent_span_id.to_string(), "b7ad6b7169203331");
    assert_eq!(server.parent_span_id, client.span_context.span_id());
    for span in [client, server] {
        assert_eq!(span.span_context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(span.span_context.trace_state().header(), "a=1");
        assert_eq!(span.name, "tools/call sail");
        assert_eq!(span.status, Status::error("no wind"));
        let error = span.attributes.iter().find(|it| it.key.as_str() == "error.type").unwrap();
        assert_eq!(error.value.as_str(), "tool_error");
    }
    let port = client.attributes.iter().find(|it| it.key.as_str() == "server.port").unwrap();
    assert_eq!(port.value, opentelemetry::Value::I64(8000));
}
