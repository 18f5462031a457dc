//! Metrics of calls and events, as Prometheus reads them.

use std::{
    collections::BTreeSet,
    future::ready,
    io::Write as _,
    process::{Command, Stdio},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use wharf_model::{
    ActiveCall, BoxFuture, Deadlines, Error, ErrorKind, Event, Method, ObservedEvent,
    ObservedTransport, Observer, Observers, Outbox, Outcome, Refusal, RefusalReason, Request,
    RequestBuilder, Service, SessionEnd, TaskChange, TaskEvent, Timer, ToolResult, UpstreamChange,
};
use wharf_telemetry::{METRIC_FAMILIES, Metrics, MetricsFormat};

/// Names of the conventions and of our own, with their labels.
const NAMES: &[(&str, &[&str])] = &[
    (
        "mcp_server_operation_duration_seconds",
        &[
            "mcp_method_name",
            "gen_ai_tool_name",
            "gen_ai_prompt_name",
            "error_type",
            "rpc_response_status_code",
            "network_transport",
            "network_protocol_name",
            "mcp_protocol_version",
            "otel_metric_overflow",
        ],
    ),
    (
        "mcp_server_session_duration_seconds",
        &["network_transport", "network_protocol_name", "mcp_protocol_version"],
    ),
    ("wharf_requests_in_flight", &[]),
    ("wharf_sessions", &["transport"]),
    ("wharf_streams", &["transport"]),
    ("wharf_tasks", &["state"]),
    ("wharf_task_age_seconds", &[]),
    ("wharf_rejected_total", &["reason"]),
    ("wharf_store_operation_seconds", &["op", "outcome"]),
    ("wharf_upstream_up", &["mcp_upstream"]),
    ("wharf_upstream_restarts_total", &[]),
    ("wharf_bytes_total", &["direction"]),
    ("wharf_build_info", &["version"]),
    ("process_cpu_seconds_total", &[]),
    ("process_resident_memory_bytes", &[]),
    ("process_open_fds", &[]),
    ("process_start_time_seconds", &[]),
];

struct Tools(Observers);

impl Service for Tools {
    fn call(&self, request: Request, _: Outbox) -> BoxFuture<Outcome> {
        let outcome = match &*request.target() {
            "echo" | "deploy \"x\"" => ToolResult::text("x").into(),
            "fail" => ToolResult::error("x").into(),
            _ => Error::new(ErrorKind::InvalidParams).into(),
        };
        Box::pin(ready(outcome))
    }

    fn observers(&self) -> &Observers {
        &self.0
    }

    fn has_target(&self, request: &Request) -> bool {
        let target = request.target();
        ["echo", "deploy \"x\"", "fail"].contains(&&*target) || target.starts_with("tool-")
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

fn call(metrics: &Metrics, method: Method, target: &str) {
    let tools = Tools(Observers::default().with(metrics.clone()));
    let mut request = RequestBuilder::new(method).target(target).build();
    request.scope.insert(ObservedTransport::Stdio);
    let deadlines = Deadlines { idle: None, total: None };
    let mut call = ActiveCall::start(&tools, request, Arc::new(NoTimer), deadlines);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(matches!(call.poll_event(&mut cx), Poll::Ready(Event::Done(_))));
}

/// Metrics with a value of every family.
fn filled() -> Metrics {
    let metrics = Metrics::new();
    for target in ["echo", "echo", "fail", "deploy \"x\"", "no such tool"] {
        call(&metrics, Method::CallTool, target);
    }
    let (transport, elapsed) = (ObservedTransport::Http, Duration::from_secs(3));
    let error = Error::new(ErrorKind::TransportError);
    let events = [
        ObservedEvent::Refused(Refusal::new(RefusalReason::ForbiddenHost, transport).status(403)),
        ObservedEvent::Queue { running: 4, waiting: 2 },
        ObservedEvent::SessionStarted { transport },
        ObservedEvent::SessionStarted { transport },
        ObservedEvent::SessionEnded(SessionEnd::new(transport, elapsed)),
        ObservedEvent::StreamOpened { transport },
        ObservedEvent::Received { transport, bytes: 10 },
        ObservedEvent::Sent { transport, bytes: 20 },
        ObservedEvent::StoreOperation { operation: "put", error: None, elapsed },
        ObservedEvent::StoreOperation { operation: "put", error: Some(&error), elapsed },
        ObservedEvent::StoreFailed { store: "redis", error: &error },
        ObservedEvent::Task(TaskEvent::new("1", "echo", TaskChange::Started)),
        ObservedEvent::Task(TaskEvent::new("2", "echo", TaskChange::Started)),
        ObservedEvent::Task(TaskEvent::new(
            "1",
            "echo",
            TaskChange::Ended { state: "completed", age: elapsed },
        )),
        ObservedEvent::Upstream { name: "files", change: UpstreamChange::Up },
    ];
    events.iter().for_each(|event| metrics.event(event));
    metrics
}

#[test]
fn calls_are_counted_by_method_target_and_outcome() {
    let text = filled().render(MetricsFormat::Prometheus);
    let count = "mcp_server_operation_duration_seconds_count";
    let counts: Vec<_> = text.lines().filter(|line| line.starts_with(count)).collect();
    let labels = |tool: &str, more: &str| {
        format!(
            "{count}{{mcp_method_name=\"tools/call\",gen_ai_tool_name=\"{tool}\",network_transport=\"pipe\"{more}}}"
        )
    };
    assert_eq!(
        counts,
        [
            labels("echo", "") + " 2",
            labels("fail", ",error_type=\"tool_error\"") + " 1",
            labels("deploy \\\"x\\\"", "") + " 1",
            labels("_other", ",error_type=\"-32602\",rpc_response_status_code=\"-32602\"") + " 1",
        ]
    );
}

#[test]
fn a_family_is_rendered_in_both_formats() {
    let metrics = Metrics::new();
    metrics.event(&ObservedEvent::StoreOperation {
        operation: "put",
        error: None,
        elapsed: Duration::from_millis(1500),
    });
    metrics.event(&ObservedEvent::Received { transport: ObservedTransport::Tcp, bytes: 7 });
    let part = |format, from: &str, to: &str| {
        let text = metrics.render(format);
        let start = text.find(from).unwrap();
        let end = start + text[start..].find(to).unwrap();
        text[start..end].to_owned()
    };
    let upper = ["2", "5", "10", "30", "60", "120", "300"];
    let lower = ["0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1"];
    for (format, unit, point) in [
        (MetricsFormat::Prometheus, "", ""),
        (MetricsFormat::OpenMetrics, "# UNIT wharf_store_operation_seconds seconds\n", ".0"),
    ] {
        let mut expected = format!(
            "# HELP wharf_store_operation_seconds Duration of operations of the store.\n\
             # TYPE wharf_store_operation_seconds histogram\n{unit}"
        );
        let bounds = lower.map(|it| (it, 0)).into_iter().chain(upper.map(|it| (it, 1)));
        for (bound, count) in bounds.chain([("+Inf", 1)]) {
            let point = if bound.contains(['.', '+']) { "" } else { point };
            expected += &format!(
                "wharf_store_operation_seconds_bucket{{op=\"put\",outcome=\"ok\",le=\"{bound}{point}\"}} {count}\n"
            );
        }
        expected += "wharf_store_operation_seconds_sum{op=\"put\",outcome=\"ok\"} 1.5\n\
                     wharf_store_operation_seconds_count{op=\"put\",outcome=\"ok\"} 1\n";
        let rendered = part(format, "# HELP wharf_store_operation", "# HELP wharf_store_failing");
        assert_eq!(rendered, expected);
    }
    let samples =
        "wharf_bytes_total{direction=\"received\"} 7\nwharf_bytes_total{direction=\"sent\"} 0\n";
    let help = "Bytes of messages, by direction.";
    assert_eq!(
        part(MetricsFormat::Prometheus, "# HELP wharf_bytes", "# HELP wharf_build"),
        format!("# HELP wharf_bytes_total {help}\n# TYPE wharf_bytes_total counter\n{samples}")
    );
    assert_eq!(
        part(MetricsFormat::OpenMetrics, "# HELP wharf_bytes", "# HELP wharf_build"),
        format!("# HELP wharf_bytes {help}\n# TYPE wharf_bytes counter\n{samples}")
    );
    assert!(metrics.render(MetricsFormat::OpenMetrics).ends_with("\n# EOF\n"));
}

#[test]
fn names_and_labels_are_those_of_the_table() {
    let text = filled().render(MetricsFormat::Prometheus);
    for (name, labels) in NAMES {
        let is_sample = |line: &&str| {
            line.strip_prefix(name).is_some_and(|rest| {
                [" ", "{", "_bucket", "_sum", "_count"].iter().any(|end| rest.starts_with(end))
            })
        };
        let samples: Vec<&str> = text.lines().filter(is_sample).collect();
        assert!(!samples.is_empty(), "{name} has no sample");
        for sample in samples {
            let inside = sample.split_once('{').map_or("", |it| it.1);
            for label in inside.split("=\"").filter_map(|it| it.rsplit([',', '{']).next()) {
                let is_label = |it: &str| it.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
                let known = label == "le" || label.is_empty() || labels.contains(&label);
                assert!(known || !is_label(label), "{name} has the label {label}: {sample}");
            }
        }
    }
    let families: BTreeSet<_> = METRIC_FAMILIES.iter().map(|it| it.0).collect();
    assert_eq!(families.len(), METRIC_FAMILIES.len(), "a family is in the table twice");
}

#[test]
fn series_are_bounded() {
    let metrics = Metrics::new();
    for number in 0..600 {
        call(&metrics, Method::CallTool, &format!("tool-{number}"));
        call(&metrics, Method::CallTool, &format!("invented-{number}"));
    }
    let text = metrics.render(MetricsFormat::Prometheus);
    let count = "mcp_server_operation_duration_seconds_count";
    let counts: Vec<_> = text.lines().filter(|line| line.starts_with(count)).collect();
    assert!(counts.len() <= 500, "{}", counts.len());
    let overflow = counts.iter().find(|it| it.contains("otel_metric_overflow=\"true\"")).unwrap();
    assert!(!overflow.ends_with(" 0"), "{overflow}");
    let total: u64 =
        counts.iter().map(|it| it.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(total, 1200, "no call is lost");
    assert!(!text.contains("invented"));
    assert!(text.contains("wharf_requests_in_flight 0\n"));
}

#[test]
fn promtool_finds_no_problem() {
    let metrics = filled();
    {
        let format = MetricsFormat::Prometheus;
        let mut promtool = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|why| {
                panic!("cannot start promtool ({why}): run `cargo xtask prometheus`")
            });
        promtool.stdin.take().unwrap().write_all(metrics.render(format).as_bytes()).unwrap();
        let output = promtool.wait_with_output().unwrap();
        let text =
            String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.trim().is_empty(), "{text}");
    }
}
