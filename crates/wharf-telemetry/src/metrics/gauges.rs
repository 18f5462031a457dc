//! Gauges and counters of events.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    time::Duration,
};

use foldhash::fast::RandomState;
use hashbrown::HashSet;
use wharf_model::{
    CallRole, Lock, ObservedEvent, ObservedTransport, RefusalReason, SessionEnd, TaskChange,
    TaskEvent, UpstreamChange,
};

use crate::dropped_spans;
use crate::metrics::{
    calls::{MAX_SERIES, error_label},
    histogram::Histogram,
    label_text::LabelText,
    text::MetricSink,
};

/// Values by the text of their labels, at most [`MAX_SERIES`].
type Labelled<T> = Lock<BTreeMap<String, T>>;

#[derive(Debug)]
pub(crate) struct Gauges {
    boundaries: &'static [f64],
    waiting: AtomicI64,
    queue_rejected: AtomicU64,
    slow_clients: AtomicU64,
    received: AtomicU64,
    sent: AtomicU64,
    takeovers: AtomicU64,
    /// Set by the first event of a task.
    has_tasks: AtomicBool,
    /// Ids of the tasks that run here, so that no event is counted twice.
    running_tasks: Lock<HashSet<String, RandomState>>,
    task_age: Histogram,
    rejected: Box<[AtomicU64]>,
    sessions: Box<[AtomicI64]>,
    streams: Box<[AtomicI64]>,
    server_sessions: Labelled<Histogram>,
    client_sessions: Labelled<Histogram>,
    store_operations: Labelled<Histogram>,
    ended_tasks: Labelled<i64>,
    stopped_tasks: AtomicU64,
    failing_stores: Labelled<i64>,
    upstreams: Labelled<i64>,
    restarts: Labelled<i64>,
}

impl Gauges {
    pub(crate) fn new(boundaries: &'static [f64]) -> Self {
        let transports = || ObservedTransport::ALL.iter().map(|_| AtomicI64::new(0)).collect();
        Gauges {
            boundaries,
            waiting: AtomicI64::new(0),
            queue_rejected: AtomicU64::new(0),
            slow_clients: AtomicU64::new(0),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            takeovers: AtomicU64::new(0),
            has_tasks: AtomicBool::new(false),
            running_tasks: Lock::default(),
            task_age: Histogram::new(boundaries),
            rejected: RefusalReason::ALL.iter().map(|_| AtomicU64::new(0)).collect(),
            sessions: transports(),
            streams: transports(),
            server_sessions: Lock::default(),
            client_sessions: Lock::default(),
            store_operations: Lock::default(),
            ended_tasks: Lock::default(),
            stopped_tasks: AtomicU64::new(0),
            failing_stores: Lock::default(),
            upstreams: Lock::default(),
            restarts: Lock::default(),
        }
    }

    pub(crate) fn count(&self, event: &ObservedEvent<'_>) {
        let add = |counter: &AtomicU64, more: u64| {
            counter.fetch_add(more, Ordering::Relaxed);
        };
        let change = |gauges: &[AtomicI64], transport: ObservedTransport, more: i64| {
            gauges[transport as usize].fetch_add(more, Ordering::Relaxed);
        };
        match *event {
            ObservedEvent::Refused(refusal) => add(&self.rejected[refusal.reason as usize], 1),
            ObservedEvent::Queue { waiting, .. } => {
                let waiting = i64::try_from(waiting).unwrap_or(i64::MAX);
                self.waiting.store(waiting, Ordering::Relaxed);
            }
            ObservedEvent::QueueFull { .. } => add(&self.queue_rejected, 1),
            ObservedEvent::SlowClientClosed { .. } => add(&self.slow_clients, 1),
            ObservedEvent::SessionStarted { transport, .. } => change(&self.sessions, transport, 1),
            ObservedEvent::SessionEnded(end) => {
                let durations = match end.role {
                    CallRole::Client => &self.client_sessions,
                    _ => {
                        change(&self.sessions, end.transport, -1);
                        &self.server_sessions
                    }
                };
                self.record(durations, session_labels(&end), end.elapsed);
            }
            ObservedEvent::StreamOpened { transport } => change(&self.streams, transport, 1),
            ObservedEvent::StreamClosed { transport } => change(&self.streams, transport, -1),
            ObservedEvent::Received { bytes, .. } => add(&self.received, bytes as u64),
            ObservedEvent::Sent { bytes, .. } => add(&self.sent, bytes as u64),
            ObservedEvent::StoreOperation { operation, error, elapsed } => {
                let mut labels = LabelText::one("op", operation);
                labels.add("outcome", error.map_or("ok", |error| error.kind.name()));
                self.record(&self.store_operations, labels, elapsed);
            }
            ObservedEvent::StoreFailed { store, .. } => {
                set(&self.failing_stores, LabelText::one("store", store), |_| 1);
            }
            ObservedEvent::StoreRecovered { store, .. } => {
                set(&self.failing_stores, LabelText::one("store", store), |_| 0);
            }
            ObservedEvent::Task(task) => self.count_task(&task),
            ObservedEvent::Upstream { name, change } => {
                let labels = LabelText::one("mcp_upstream", name);
                let restarts = i64::from(matches!(change, UpstreamChange::Restarting));
                set(&self.restarts, labels.clone(), |before| before + restarts);
                match change {
                    UpstreamChange::Up => set(&self.upstreams, labels, |_| 1),
                    UpstreamChange::Down { .. } | UpstreamChange::Closed => {
                        set(&self.upstreams, labels, |_| 0)
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn count_task(&self, task: &TaskEvent<'_>) {
        self.has_tasks.store(true, Ordering::Relaxed);
        let mut running = self.running_tasks.lock();
        match task.change {
            TaskChange::Started => {
                running.insert(task.id.to_owned());
            }
            TaskChange::TakenOver => {
                self.takeovers.fetch_add(1, Ordering::Relaxed);
            }
            TaskChange::Ended { state, age, error_type } => {
                running.remove(task.id);
                let mut labels = LabelText::one("state", state);
                labels.add("error_type", &error_type.map(error_label).unwrap_or_default());
                set(&self.ended_tasks, labels, |tasks| tasks + 1);
                self.task_age.record(age);
            }
            // A run that stops after the end of its task is not one that stopped before it.
            TaskChange::Stopped if running.remove(task.id) => {
                self.stopped_tasks.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    fn record(&self, histograms: &Labelled<Histogram>, labels: LabelText, elapsed: Duration) {
        let mut histograms = histograms.lock();
        if histograms.len() < MAX_SERIES || histograms.contains_key(&labels.0) {
            let histogram =
                histograms.entry(labels.0).or_insert_with(|| Histogram::new(self.boundaries));
            histogram.record(elapsed);
        }
    }

    pub(crate) fn render(&self, in_flight: i64, text: &mut dyn MetricSink) {
        let none = LabelText::default();
        histograms("mcp_server_session_duration_seconds", &self.server_sessions, text);
        histograms("mcp_client_session_duration_seconds", &self.client_sessions, text);
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        let waiting = self.waiting.load(Ordering::Relaxed) as f64;
        one("wharf_requests_in_flight", in_flight as f64, text);
        one("wharf_requests_waiting", waiting, text);
        one("wharf_queue_rejected_total", get(&self.queue_rejected), text);
        transports("wharf_sessions", &self.sessions, text);
        transports("wharf_streams", &self.streams, text);
        one("wharf_slow_clients_closed_total", get(&self.slow_clients), text);
        if self.has_tasks.load(Ordering::Relaxed) {
            text.family("wharf_tasks");
            let running = self.running_tasks.lock().len() as f64;
            text.sample("wharf_tasks", &LabelText::one("state", "working"), running);
            values("wharf_tasks_ended_total", &self.ended_tasks, text);
            one("wharf_tasks_stopped_total", get(&self.stopped_tasks), text);
            one("wharf_task_takeovers_total", get(&self.takeovers), text);
            text.family("wharf_task_age_seconds");
            text.histogram("wharf_task_age_seconds", &none, &self.task_age.values());
        }
        text.family("wharf_rejected_total");
        for (reason, count) in RefusalReason::ALL.iter().zip(&self.rejected) {
            let labels = LabelText::one("reason", reason.name());
            text.sample("wharf_rejected_total", &labels, get(count));
        }
        histograms("wharf_store_operation_seconds", &self.store_operations, text);
        values("wharf_store_failing", &self.failing_stores, text);
        values("wharf_upstream_up", &self.upstreams, text);
        values("wharf_upstream_restarts_total", &self.restarts, text);
        one("wharf_spans_dropped_total", dropped_spans() as f64, text);
        text.family("wharf_bytes_total");
        for (direction, bytes) in [("received", &self.received), ("sent", &self.sent)] {
            text.sample("wharf_bytes_total", &LabelText::one("direction", direction), get(bytes));
        }
        text.family("wharf_build_info");
        let version = LabelText::one("version", env!("CARGO_PKG_VERSION"));
        text.sample("wharf_build_info", &version, 1.0);
    }
}

fn session_labels(end: &SessionEnd<'_>) -> LabelText {
    let mut labels = LabelText::one("network_transport", end.transport.network_transport());
    labels.add("network_protocol_name", end.transport.network_protocol().unwrap_or_default());
    labels.add("mcp_protocol_version", end.protocol_version.unwrap_or_default());
    labels.add("error_type", end.error.unwrap_or_default());
    labels
}

fn set(values: &Labelled<i64>, labels: LabelText, change: impl FnOnce(i64) -> i64) {
    let mut values = values.lock();
    if values.len() < MAX_SERIES || values.contains_key(&labels.0) {
        let value = values.entry(labels.0).or_default();
        *value = change(*value);
    }
}

fn one(name: &str, value: f64, text: &mut dyn MetricSink) {
    text.family(name);
    text.sample(name, &LabelText::default(), value);
}

fn transports(name: &str, gauges: &[AtomicI64], text: &mut dyn MetricSink) {
    text.family(name);
    for (transport, gauge) in ObservedTransport::ALL.iter().zip(gauges) {
        let labels = LabelText::one("transport", transport.name());
        text.sample(name, &labels, gauge.load(Ordering::Relaxed) as f64);
    }
}

fn values(name: &str, labelled: &Labelled<i64>, text: &mut dyn MetricSink) {
    text.family(name);
    for (labels, value) in &*labelled.lock() {
        text.sample(name, &LabelText(labels.clone()), *value as f64);
    }
}

fn histograms(name: &str, labelled: &Labelled<Histogram>, text: &mut dyn MetricSink) {
    text.family(name);
    for (labels, histogram) in &*labelled.lock() {
        text.histogram(name, &LabelText(labels.clone()), &histogram.values());
    }
}
