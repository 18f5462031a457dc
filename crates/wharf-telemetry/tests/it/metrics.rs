//! Metrics of calls and events, as Prometheus reads them.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::ready,
    io::Write as _,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
    },
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use wharf_model::{
    ActiveCall, BoxFuture, CallErrorType, CallRole, ClientObservation, Deadlines, Error, ErrorKind,
    Event, FailureOrigin, Method, NetworkProtocolVersion, ObservedEvent, ObservedServer,
    ObservedTransport, Observer, Observers, Outbox, Outcome, ProtocolInfo, Refusal, RefusalReason,
    Request, RequestBuilder, Service, SessionEnd, TaskChange, TaskEvent, Timer, ToolResult,
    UpstreamChange,
};
use wharf_telemetry::{METRIC_FAMILIES, Metrics, MetricsFormat, MetricsOptions};

/// Labels of the calls that a server answers.
const SERVER_CALL: &[&str] = &[
    "mcp_method_name",
    "gen_ai_operation_name",
    "gen_ai_tool_name",
    "gen_ai_prompt_name",
    "mcp_resource_uri",
    "error_type",
    "rpc_response_status_code",
    "network_transport",
    "network_protocol_name",
    "network_protocol_version",
    "mcp_protocol_version",
    "otel_metric_overflow",
];
/// Labels of the calls that a client makes.
const CLIENT_CALL: &[&str] = &[
    "mcp_method_name",
    "gen_ai_operation_name",
    "gen_ai_tool_name",
    "gen_ai_prompt_name",
    "mcp_resource_uri",
    "error_type",
    "rpc_response_status_code",
    "network_transport",
    "network_protocol_name",
    "mcp_protocol_version",
    "server_address",
    "server_port",
    "otel_metric_overflow",
];
const SESSION: &[&str] =
    &["network_transport", "network_protocol_name", "mcp_protocol_version", "error_type"];

/// Names of the conventions and of our own, with all their labels.
const NAMES: &[(&str, &[&str])] = &[
    ("mcp_server_operation_duration_seconds", SERVER_CALL),
    ("mcp_client_operation_duration_seconds", CLIENT_CALL),
    ("mcp_server_session_duration_seconds", SESSION),
    ("mcp_client_session_duration_seconds", SESSION),
    ("wharf_requests_in_flight", &[]),
    ("wharf_requests_waiting", &[]),
    ("wharf_queue_rejected_total", &[]),
    ("wharf_sessions", &["transport"]),
    ("wharf_streams", &["transport"]),
    ("wharf_slow_clients_closed_total", &[]),
    ("wharf_tasks", &["state"]),
    ("wharf_tasks_ended_total", &["state", "error_type"]),
    ("wharf_tasks_stopped_total", &[]),
    ("wharf_task_takeovers_total", &[]),
    ("wharf_task_age_seconds", &[]),
    ("wharf_rejected_total", &["reason"]),
    ("wharf_store_operation_seconds", &["op", "outcome"]),
    ("wharf_store_failing", &["store"]),
    ("wharf_upstream_up", &["mcp_upstream"]),
    ("wharf_upstream_restarts_total", &["mcp_upstream"]),
    ("wharf_spans_dropped_total", &[]),
    ("wharf_bytes_total", &["direction"]),
    ("wharf_build_info", &["version"]),
    ("process_cpu_seconds_total", &[]),
    ("process_resident_memory_bytes", &[]),
    ("process_virtual_memory_bytes", &[]),
    ("process_threads", &[]),
    ("process_open_fds", &[]),
    ("process_max_fds", &[]),
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
    end(start(&tools, request(method, target)));
}

fn request(method: Method, target: &str) -> Request {
    let mut request = RequestBuilder::new(method).target(target).build();
    request.scope.insert(ObservedTransport::Http);
    request.scope.insert(NetworkProtocolVersion("1.1"));
    request
}

fn start(tools: &Tools, request: Request) -> ActiveCall {
    let deadlines = Deadlines::NONE;
    ActiveCall::start(tools, request, Arc::new(NoTimer), deadlines)
}

fn end(mut call: ActiveCall) {
    let mut cx = Context::from_waker(Waker::noop());
    assert!(matches!(call.poll_event(&mut cx), Poll::Ready(Event::Done(_))));
}

/// A call of a client to a server that answers with `outcome`.
fn client_call(metrics: &Metrics, method: Method, target: &str, outcome: fn() -> Outcome) {
    struct Server(fn() -> Outcome);
    impl Service for Server {
        fn call(&self, _: Request, _: Outbox) -> BoxFuture<Outcome> {
            Box::pin(ready((self.0)()))
        }
    }
    let observers = &Observers::default().with(metrics.clone());
    let server = &ObservedServer::default()
        .address("files.example".to_owned())
        .port(443_u16)
        .transport(ObservedTransport::Http);
    let (protocol_version, has_target) = (Some("2020-01-01"), None);
    let client = ClientObservation {
        observers,
        server,
        protocol_version,
        has_target,
        forwards_baggage: false,
    };
    let request = RequestBuilder::new(method).target(target).build();
    let deadlines = Deadlines::NONE;
    let timer = Arc::new(NoTimer);
    end(ActiveCall::start_for_client(&Server(outcome), request, timer, deadlines, client));
}

fn ended(
    state: &'static str,
    age: Duration,
    error_type: Option<CallErrorType>,
) -> TaskChange<'static> {
    TaskChange::Ended { state, age, error_type }
}

/// Metrics with a value of every family and every label.
fn filled() -> Metrics {
    let metrics = Metrics::with_options(MetricsOptions::default().resource_uris(true));
    for target in ["echo", "echo", "fail", "deploy \"x\"", "no such tool"] {
        call(&metrics, Method::CallTool, target);
    }
    call(&metrics, Method::GetPrompt, "echo");
    static PROTOCOL: ProtocolInfo =
        ProtocolInfo::new("2020-01-01", "discover", 0, |_, _, _| Some(-32603));
    let mut read = request(Method::ReadResource, "echo");
    read.protocol = Some(&PROTOCOL);
    end(start(&Tools(Observers::default().with(metrics.clone())), read));
    client_call(&metrics, Method::CallTool, "echo", || {
        let mut error = Error::new(ErrorKind::InternalError);
        error.code = Some(-32603);
        error.into()
    });
    client_call(&metrics, Method::ReadResource, "echo", || ToolResult::text("x").into());
    let (transport, elapsed) = (ObservedTransport::Http, Duration::from_secs(3));
    let error = &Error::new(ErrorKind::TransportError);
    let session = SessionEnd::new(transport, elapsed).protocol_version(Some("2020-01-01"));
    let session = session.error("timeout");
    let task = |id, change| ObservedEvent::Task(TaskEvent::new(id, "echo", change));
    let events = [
        ObservedEvent::Refused(Refusal::new(RefusalReason::ForbiddenHost, transport).status(403)),
        ObservedEvent::Queue { running: 4, waiting: 2 },
        ObservedEvent::SessionStarted { transport, client: None },
        ObservedEvent::SessionStarted { transport, client: None },
        ObservedEvent::SessionEnded(session),
        ObservedEvent::SessionEnded(session.role(CallRole::Client)),
        ObservedEvent::StreamOpened { transport },
        ObservedEvent::Received { transport, bytes: 10 },
        ObservedEvent::Sent { transport, bytes: 20 },
        ObservedEvent::StoreOperation { operation: "put", error: None, elapsed },
        ObservedEvent::StoreOperation { operation: "put", error: Some(error), elapsed },
        ObservedEvent::StoreFailed { store: "redis", error },
        task("1", TaskChange::Started),
        task("2", TaskChange::Started),
        task("3", TaskChange::Started),
        task("1", ended("completed", elapsed, Some(CallErrorType::ToolError))),
        task("2", TaskChange::Stopped),
        ObservedEvent::Upstream { name: "files", change: UpstreamChange::Up },
    ];
    events.iter().for_each(|event| metrics.event(event));
    let tools = Tools(Observers::default().with(metrics.clone()));
    for number in 0..500 {
        let name = format!("tool-{number}");
        end(start(&tools, request(Method::GetPrompt, &name)));
        client_call(&metrics, Method::GetPrompt, &name, || ToolResult::text("x").into());
    }
    metrics
}

fn lines<'t>(text: &'t str, prefix: &str) -> Vec<&'t str> {
    text.lines().filter(|line| line.starts_with(prefix)).collect()
}

#[test]
fn calls_are_counted_by_method_target_and_outcome() {
    let metrics = Metrics::new();
    for target in ["echo", "echo", "fail", "deploy \"x\"", "no such tool"] {
        call(&metrics, Method::CallTool, target);
    }
    let text = metrics.render(MetricsFormat::Prometheus);
    let count = "mcp_server_operation_duration_seconds_count";
    let labels = |tool: &str, more: &str| {
        format!(
            "{count}{{mcp_method_name=\"tools/call\",gen_ai_operation_name=\"execute_tool\",\
             gen_ai_tool_name=\"{tool}\",network_transport=\"tcp\",network_protocol_name=\"http\",\
             network_protocol_version=\"1.1\"{more}}}"
        )
    };
    assert_eq!(
        lines(&text, count),
        [
            labels("echo", "") + " 2",
            labels("fail", ",error_type=\"tool_error\"") + " 1",
            labels("deploy \\\"x\\\"", "") + " 1",
            // A fault of the caller is no error of the server.
            labels("_other", ",rpc_response_status_code=\"-32602\"") + " 1",
        ]
    );
}

#[test]
fn calls_of_a_client_name_the_server_and_the_code_that_it_sent() {
    let metrics = Metrics::new();
    client_call(&metrics, Method::CallTool, "echo", || ToolResult::text("x").into());
    client_call(&metrics, Method::CallTool, "echo", || {
        let mut error = Error::new(ErrorKind::InvalidParams);
        error.code = Some(-32602);
        error.into()
    });
    client_call(&metrics, Method::ListTools, "", || {
        Error::new(ErrorKind::TransportError).from_client(FailureOrigin::Interrupted).into()
    });
    let text = metrics.render(MetricsFormat::Prometheus);
    let count = "mcp_client_operation_duration_seconds_count";
    let labels = |method: &str, more: &str| {
        format!(
            "{count}{{{method},network_transport=\"tcp\",network_protocol_name=\"http\",\
             mcp_protocol_version=\"2020-01-01\",server_address=\"files.example\",server_port=\"443\"{more}}} 1"
        )
    };
    let tool = "mcp_method_name=\"tools/call\",gen_ai_operation_name=\"execute_tool\",gen_ai_tool_name=\"echo\"";
    let code = ",error_type=\"-32602\",rpc_response_status_code=\"-32602\"";
    assert_eq!(
        lines(&text, count),
        [
            labels(tool, ""),
            labels(tool, code),
            labels("mcp_method_name=\"tools/list\"", ",error_type=\"transport_error\""),
        ]
    );
    assert!(!text.contains("mcp_server_operation"), "no server reported anything");
}

#[test]
fn invented_error_codes_are_one_series() {
    static CODE: AtomicI32 = AtomicI32::new(1);
    let metrics = Metrics::new();
    for _ in 0..1000 {
        client_call(&metrics, Method::CallTool, "echo", || {
            let mut error = Error::new(ErrorKind::InternalError);
            error.code = Some(CODE.fetch_add(3, Ordering::Relaxed));
            error.into()
        });
    }
    let text = metrics.render(MetricsFormat::Prometheus);
    let counts = lines(&text, "mcp_client_operation_duration_seconds_count");
    assert!(counts.len() < 10, "{counts:?}");
    let other = "error_type=\"_other\",rpc_response_status_code=\"_other\"";
    assert!(counts.iter().any(|it| it.contains(other)), "{counts:?}");
}

#[test]
fn a_subscription_is_no_request_in_flight() {
    let metrics = Metrics::new();
    let tools = Tools(Observers::default().with(metrics.clone()));
    let in_flight = || {
        let text = metrics.render(MetricsFormat::Prometheus);
        lines(&text, "wharf_requests_in_flight")[0].to_owned()
    };
    let subscription = start(&tools, request(Method::Listen, ""));
    assert_eq!(in_flight(), "wharf_requests_in_flight 0");
    let call = start(&tools, request(Method::CallTool, "echo"));
    assert_eq!(in_flight(), "wharf_requests_in_flight 1");
    drop((subscription, call));
    assert_eq!(in_flight(), "wharf_requests_in_flight 0");
}

#[test]
fn a_task_is_counted_once_however_often_it_is_reported() {
    let metrics = Metrics::new();
    let task = |id, change| metrics.event(&ObservedEvent::Task(TaskEvent::new(id, "echo", change)));
    let tasks = || {
        let text = metrics.render(MetricsFormat::Prometheus);
        lines(&text, "wharf_tasks").into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(tasks().is_empty());
    let ended = ended("cancelled", Duration::ZERO, None);
    task("1", TaskChange::Started);
    task("1", TaskChange::TakenOver);
    task("1", TaskChange::Started);
    task("elsewhere", ended);
    task("elsewhere", TaskChange::Stopped);
    assert_eq!(
        tasks(),
        [
            "wharf_tasks{state=\"working\"} 1",
            "wharf_tasks_ended_total{state=\"cancelled\"} 1",
            "wharf_tasks_stopped_total 0",
        ]
    );
    task("1", TaskChange::Stopped);
    assert_eq!(tasks()[0], "wharf_tasks{state=\"working\"} 0");
    assert_eq!(tasks()[2], "wharf_tasks_stopped_total 1");
    // The run of a task is no second call of the tool.
    let tools = Tools(Observers::default().with(metrics.clone()));
    let (run, deadlines) = (request(Method::CallTool, "echo"), Deadlines::NONE);
    end(ActiveCall::start_task(&tools, run, Arc::new(NoTimer), deadlines, tools.observers()));
    assert!(!metrics.render(MetricsFormat::Prometheus).contains("mcp_server_operation"));
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
        let rendered = part(format, "# HELP wharf_store_operation", "# HELP wharf_spans");
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
        format!(
            "# HELP wharf_bytes {help}\n# TYPE wharf_bytes counter\n# UNIT wharf_bytes bytes\n{samples}"
        )
    );
    assert!(metrics.render(MetricsFormat::OpenMetrics).ends_with("\n# EOF\n"));
}

#[test]
fn names_and_labels_are_exactly_those_of_the_table() {
    let text = filled().render(MetricsFormat::Prometheus);
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut family = String::new();
    for line in text.lines() {
        if let Some(header) = line.strip_prefix("# TYPE ") {
            family = header.split(' ').next().unwrap().to_owned();
            assert!(found.insert(family.clone(), BTreeSet::new()).is_none(), "{family} twice");
        } else if !line.starts_with('#') {
            let (name, labels) = line.split_once('{').unwrap_or((line, ""));
            let name = name.split(' ').next().unwrap();
            assert!(name.starts_with(&*family), "{line} is in the family {family}");
            // The values of these metrics contain no comma before a name.
            let names = labels.split("=\"").filter_map(|it| it.rsplit([',', '"']).next());
            let is_name = |it: &&str| {
                !it.is_empty() && it.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
            };
            found.get_mut(&family).unwrap().extend(names.filter(is_name).map(str::to_owned));
        }
    }
    for labels in found.values_mut() {
        labels.remove("le");
    }
    let owned = |labels: &[&str]| labels.iter().map(|it| (*it).to_owned()).collect();
    let expected: BTreeMap<String, BTreeSet<String>> =
        NAMES.iter().map(|(name, labels)| ((*name).to_owned(), owned(labels))).collect();
    assert_eq!(found, expected);
    let families: BTreeSet<_> = METRIC_FAMILIES.iter().map(|it| it.0).collect();
    assert_eq!(families.len(), METRIC_FAMILIES.len(), "a family is in the table twice");
    assert_eq!(families, NAMES.iter().map(|it| it.0).collect());
}

#[test]
fn families_without_events_are_omitted() {
    let text = Metrics::new().render(MetricsFormat::Prometheus);
    for absent in ["mcp_", "wharf_task", "wharf_store", "wharf_upstream"] {
        assert!(!text.contains(absent), "{absent}: {text}");
    }
    for present in ["wharf_requests_in_flight 0", "wharf_requests_waiting 0", "wharf_sessions{"] {
        assert!(text.contains(present), "{present}: {text}");
    }
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
fn restarts_are_counted_for_each_upstream_server() {
    let metrics = Metrics::new();
    for (name, change) in [
        ("files", UpstreamChange::Up),
        ("files", UpstreamChange::Restarting),
        ("files", UpstreamChange::Restarting),
        ("mail", UpstreamChange::Up),
    ] {
        metrics.event(&ObservedEvent::Upstream { name, change });
    }
    let text = metrics.render(MetricsFormat::Prometheus);
    let series = |name: &str, count| {
        format!("wharf_upstream_restarts_total{{mcp_upstream=\"{name}\"}} {count}")
    };
    assert_eq!(lines(&text, "wharf_upstream_restarts"), [series("files", 2), series("mail", 0)]);
}

#[test]
fn failures_beyond_the_limit_of_series_stay_failures() {
    let metrics = Metrics::new();
    for number in 0..600 {
        call(&metrics, Method::CallTool, &format!("tool-{number}"));
    }
    call(&metrics, Method::CallTool, "fail");
    client_calls_that_fail(&metrics);
    let text = metrics.render(MetricsFormat::Prometheus);
    for (side, error, calls) in
        [("server", "tool_error", 1), ("client", "_other", 2), ("client", "timeout", 1)]
    {
        let series = format!(
            "mcp_{side}_operation_duration_seconds_count\
             {{otel_metric_overflow=\"true\",error_type=\"{error}\"}} {calls}"
        );
        assert!(text.lines().any(|line| line == series), "{series}: {text}");
    }
    let mut series: Vec<_> = text
        .lines()
        .filter(|it| !it.starts_with('#'))
        .filter_map(|it| it.rsplit_once(' '))
        .collect();
    let all = series.len();
    series.sort_by_key(|it| it.0);
    series.dedup_by_key(|it| it.0);
    assert_eq!(series.len(), all, "a series is there twice");
}

/// Uses up the series of a client; then three of its calls fail.
fn client_calls_that_fail(metrics: &Metrics) {
    for number in 0..600 {
        let name = format!("tool-{number}");
        client_call(metrics, Method::GetPrompt, &name, || ToolResult::text("x").into());
    }
    client_call(metrics, Method::CallTool, "late", || {
        let mut error = Error::new(ErrorKind::InternalError);
        error.code = Some(-32603);
        error.into()
    });
    client_call(metrics, Method::CallTool, "late", || {
        Error::new(ErrorKind::TransportError).from_client(FailureOrigin::Interrupted).into()
    });
    client_call(metrics, Method::CallTool, "late", || {
        Error::new(ErrorKind::RequestTimeout).from_client(FailureOrigin::Interrupted).into()
    });
}

/// Runs promtool with this input; returns what it prints.
fn promtool(arguments: &[&str], input: &str) -> String {
    let mut promtool = Command::new("promtool")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|why| {
            panic!("cannot start promtool ({why}): run `cargo xtask prometheus`")
        });
    promtool.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    text.into_owned()
}

#[test]
fn promtool_finds_no_problem() {
    let text = promtool(&["check", "metrics"], &filled().render(MetricsFormat::Prometheus));
    assert_eq!(text.trim(), "");
}

#[test]
fn promtool_reads_open_metrics() {
    let directory = std::env::temp_dir().join(format!("wharf-openmetrics-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let (input, output) = (directory.join("metrics"), directory.join("data"));
    // The command reads samples with timestamps only.
    let text = filled().render(MetricsFormat::OpenMetrics);
    let dated = text.lines().map(|line| match line.starts_with('#') {
        true => format!("{line}\n"),
        false => format!("{line} 1700000000\n"),
    });
    std::fs::write(&input, dated.collect::<String>()).unwrap();
    let (input, output) = (input.to_str().unwrap(), output.to_str().unwrap());
    promtool(&["tsdb", "create-blocks-from", "openmetrics", input, output], "");
    let found = promtool(&["tsdb", "list", output], "");
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(found.contains("BLOCK ULID") && found.lines().count() > 1, "{found}");
}
