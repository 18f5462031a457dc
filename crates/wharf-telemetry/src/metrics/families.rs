//! Table of the metric families.

/// Type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricKind {
    /// A number that only grows.
    Counter,
    /// A number that goes up and down.
    Gauge,
    /// Durations in buckets.
    Histogram,
}

impl MetricKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        }
    }
}

/// Name, type, unit and meaning of each metric family. Those of clients, tasks, stores and upstream servers are rendered
/// from the first event on that they count, the others always.
#[rustfmt::skip]
pub static METRIC_FAMILIES: &[(&str, MetricKind, &str, &str)] = {
    use MetricKind::{Counter, Gauge, Histogram};
    &[
        ("mcp_server_operation_duration_seconds", Histogram, "seconds", "Duration of calls that this server answered."),
        ("mcp_client_operation_duration_seconds", Histogram, "seconds", "Duration of calls that this client made."),
        ("mcp_server_session_duration_seconds", Histogram, "seconds", "Duration of ended sessions and connections of this server."),
        ("mcp_client_session_duration_seconds", Histogram, "seconds", "Duration of ended connections of this client."),
        ("wharf_requests_in_flight", Gauge, "", "Calls that this server is handling, without subscriptions."),
        ("wharf_requests_waiting", Gauge, "", "Calls that wait for the concurrency limit."),
        ("wharf_queue_rejected_total", Counter, "", "Calls rejected because the concurrency limit and the queue were full."),
        ("wharf_sessions", Gauge, "", "Open sessions and connections."),
        ("wharf_streams", Gauge, "", "Open event streams."),
        ("wharf_slow_clients_closed_total", Counter, "", "Connections closed because the client did not read."),
        ("wharf_tasks", Gauge, "", "Tasks that run in this process."),
        ("wharf_tasks_ended_total", Counter, "", "Tasks that ended in this process, by final state and class of the failure."),
        ("wharf_tasks_stopped_total", Counter, "", "Runs of tasks that stopped in this process before the task ended."),
        ("wharf_task_takeovers_total", Counter, "", "Tasks taken over from a process that did not renew its lease."),
        ("wharf_task_age_seconds", Histogram, "seconds", "Time from the creation of a task to its end."),
        ("wharf_rejected_total", Counter, "", "Requests and connections refused before there was a call, by reason."),
        ("wharf_store_operation_seconds", Histogram, "seconds", "Duration of operations of the store."),
        ("wharf_store_failing", Gauge, "", "1 while the store fails."),
        ("wharf_upstream_up", Gauge, "", "1 while the upstream server is connected."),
        ("wharf_upstream_restarts_total", Counter, "", "Restarts of upstream servers."),
        ("wharf_spans_dropped_total", Counter, "", "Spans of calls that were not exported."),
        ("wharf_bytes_total", Counter, "bytes", "Bytes of messages, by direction."),
        ("wharf_build_info", Gauge, "", "Always 1; the label has the version of Wharf."),
        ("process_cpu_seconds_total", Counter, "seconds", "CPU time of the process, user and system."),
        ("process_resident_memory_bytes", Gauge, "bytes", "Resident memory of the process."),
        ("process_virtual_memory_bytes", Gauge, "bytes", "Virtual memory of the process."),
        ("process_threads", Gauge, "", "Threads of the process."),
        ("process_open_fds", Gauge, "", "Open file descriptors of the process."),
        ("process_max_fds", Gauge, "", "Maximum number of open file descriptors."),
        ("process_start_time_seconds", Gauge, "seconds", "Start of the process, in seconds since 1970."),
    ]
};
