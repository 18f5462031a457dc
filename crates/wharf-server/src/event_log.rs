//! Log lines of events: one for each refusal, slow client, full queue, session, stream, store outage, task change and
//! upstream change.

use std::fmt::Write as _;

use wharf_model::{
    Error, LogThrottle, ObservedEvent, ObservedTransport, Refusal, RefusalReason, SessionEnd,
    TaskChange, TaskEvent, UpstreamChange, hashed_id, printable,
};

use crate::call_tracing::cause;

/// Refusals that hint at an attack, at a wrong configuration or at limits that are too low. The others are faults of
/// a client that do no harm.
const WARNED_REFUSALS: &[RefusalReason] = &[
    RefusalReason::HeaderMismatch,
    RefusalReason::Unauthenticated,
    RefusalReason::Forbidden,
    RefusalReason::ForbiddenHost,
    RefusalReason::ForbiddenOrigin,
    RefusalReason::RequestTimeout,
    RefusalReason::TooLarge,
    RefusalReason::RateLimited,
    RefusalReason::TooManyCalls,
    RefusalReason::TooManySessions,
    RefusalReason::TooManyConnections,
    RefusalReason::MessageMemory,
    RefusalReason::StoreUnavailable,
    RefusalReason::TlsHandshake,
];

const TRANSPORTS: usize = ObservedTransport::ALL.len();

/// Limits of the lines about refusals, which any client can cause: one for each reason and transport.
static REFUSED: [[LogThrottle; TRANSPORTS]; RefusalReason::ALL.len()] =
    [const { [const { LogThrottle::new() }; TRANSPORTS] }; RefusalReason::ALL.len()];
static QUEUE_FULL: LogThrottle = LogThrottle::new();
static SLOW_CLIENT: [LogThrottle; TRANSPORTS] = [const { LogThrottle::new() }; TRANSPORTS];
/// A full store may fail and recover with each call.
static STORE_FAILED: LogThrottle = LogThrottle::every_seconds(1);
static STORE_RECOVERED: LogThrottle = LogThrottle::every_seconds(1);

/// Writes the line of an event.
pub(crate) fn log(event: &ObservedEvent<'_>) {
    match *event {
        ObservedEvent::Refused(refusal) => log_refusal(&refusal),
        ObservedEvent::QueueFull { running, waiting } if QUEUE_FULL.is_due() => {
            tracing::warn!(running, waiting, "rejecting calls: the queue is full");
        }
        ObservedEvent::SlowClientClosed { transport, client }
            if SLOW_CLIENT[transport as usize].is_due() =>
        {
            let transport = transport.name();
            let client = client.map(tracing::field::display);
            tracing::warn!(transport, client, "closed a connection: the client does not read");
        }
        ObservedEvent::SessionStarted { transport, client } => {
            let (transport, client) = (transport.name(), client.map(tracing::field::display));
            tracing::debug!(transport, client, "started a session");
        }
        ObservedEvent::SessionEnded(end) => log_session_end(&end),
        ObservedEvent::StreamOpened { transport } => {
            tracing::trace!(transport = transport.name(), "opened an event stream");
        }
        ObservedEvent::StreamClosed { transport } => {
            tracing::trace!(transport = transport.name(), "closed an event stream");
        }
        ObservedEvent::StoreFailed { store, error } if STORE_FAILED.is_due() => {
            let error = error_text(error);
            tracing::error!(store, error, "lost the store: its operations fail");
        }
        ObservedEvent::StoreRecovered { store, outage } if STORE_RECOVERED.is_due() => {
            tracing::info!(store, ?outage, "recovered the store");
        }
        ObservedEvent::Task(task) => log_task(&task),
        ObservedEvent::Upstream { name, change } => log_upstream(name, change),
        _ => {}
    }
}

fn log_refusal(refusal: &Refusal<'_>) {
    let Refusal { reason, transport, status, client, detail, .. } = *refusal;
    // The listener logs it itself, with the limit to raise.
    if reason == RefusalReason::NoDescriptors
        || !REFUSED[reason as usize][transport as usize].is_due()
    {
        return;
    }
    let (name, transport) = (reason.name(), transport.name());
    let client = client.map(tracing::field::display);
    let detail = detail.filter(|detail| !detail.is_empty()).map(printable);
    match WARNED_REFUSALS.contains(&reason) {
        true => {
            tracing::warn!(reason = name, transport, status, client, detail, "refused a request");
        }
        false => {
            tracing::info!(reason = name, transport, status, client, detail, "refused a request");
        }
    }
}

fn log_session_end(end: &SessionEnd<'_>) {
    let SessionEnd { transport, protocol_version: revision, elapsed, error, client, .. } = *end;
    let (transport, client) = (transport.name(), client.map(tracing::field::display));
    tracing::debug!(transport, client, revision, ?elapsed, error, "ended a session");
}

fn log_task(event: &TaskEvent<'_>) {
    let TaskEvent { id, tool, change, .. } = *event;
    let is_info =
        matches!(change, TaskChange::Started | TaskChange::TakenOver | TaskChange::Ended { .. });
    // The hash takes time.
    let is_enabled = match is_info {
        true => tracing::enabled!(tracing::Level::INFO),
        false => tracing::enabled!(tracing::Level::DEBUG),
    };
    if !is_enabled {
        return;
    }
    let (task, tool) = (hashed_id(id), printable(tool));
    match change {
        TaskChange::Created => tracing::debug!(task, tool, "created a task"),
        TaskChange::Started => tracing::info!(task, tool, "started a task"),
        TaskChange::Step { name } => {
            tracing::debug!(task, tool, step = printable(name), "recorded a step of a task");
        }
        TaskChange::TakenOver => {
            tracing::info!(task, tool, "took over a task: its process did not renew the lease");
        }
        TaskChange::InputRequired => tracing::debug!(task, tool, "waiting for input of a task"),
        TaskChange::Ended { state, age } => {
            tracing::info!(task, tool, state, ?age, "ended a task");
        }
        _ => {}
    }
}

fn log_upstream(name: &str, change: UpstreamChange<'_>) {
    let upstream = printable(name);
    match change {
        UpstreamChange::Up => tracing::info!(upstream, "connected to the upstream server"),
        UpstreamChange::Down { error } => {
            let error = error_text(error);
            tracing::warn!(upstream, error, "lost the upstream server");
        }
        UpstreamChange::Closed => tracing::debug!(upstream, "closed the upstream client"),
        UpstreamChange::Restarting => tracing::info!(upstream, "restarting the upstream server"),
        _ => {}
    }
}

/// Returns the message of an error with those of its sources, for the log only.
fn error_text(error: &Error) -> String {
    let mut text = printable(&error.message);
    if let Some(cause) = cause(error) {
        let _ = write!(text, ": {cause}");
    }
    text
}
