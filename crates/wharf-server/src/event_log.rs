//! Log lines of events: one for each refusal, slow client, full queue, session, stream, store outage, task change and
//! upstream change.

use std::{fmt::Write as _, net::SocketAddr};

use wharf_model::{
    CallErrorType, Error, LogThrottle, ObservedEvent, ObservedTransport, Refusal, RefusalReason,
    SessionEnd, TaskChange, TaskEvent, UpstreamChange, hashed_id, printable,
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

/// Writes the line of an event.
pub(crate) fn log(event: &ObservedEvent<'_>) {
    match *event {
        ObservedEvent::Refused(refusal) => log_refusal(&refusal),
        ObservedEvent::QueueFull { running, waiting } => log_queue_full(running, waiting),
        ObservedEvent::SlowClientClosed { transport, client } => log_slow_client(transport, client),
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
        // Not throttled, so that the last line is true: the store reports no more than a few changes in each minute.
        ObservedEvent::StoreFailed { store, error } => {
            let error = error_text(error);
            tracing::error!(store, error, "lost the store: its operations fail");
        }
        ObservedEvent::StoreRecovered { store, outage } => {
            tracing::info!(store, ?outage, "recovered the store");
        }
        ObservedEvent::Task(task) => log_task(&task),
        ObservedEvent::Upstream { name, change } => log_upstream(name, change),
        _ => {}
    }
}

fn log_queue_full(running: usize, waiting: usize) {
    if let Some(suppressed) = QUEUE_FULL.due() {
        tracing::warn!(running, waiting, suppressed, "rejecting calls: the queue is full");
    }
}

fn log_slow_client(transport: ObservedTransport, client: Option<SocketAddr>) {
    if let Some(suppressed) = SLOW_CLIENT[transport as usize].due() {
        let (transport, client) = (transport.name(), client.map(tracing::field::display));
        let problem = "closed a connection: the client does not read";
        tracing::warn!(transport, client, suppressed, "{problem}");
    }
}

fn log_refusal(refusal: &Refusal<'_>) {
    let Refusal { reason, transport, status, client, detail, .. } = *refusal;
    // The listener logs it itself, with the limit to raise.
    if reason == RefusalReason::NoDescriptors {
        return;
    }
    let Some(suppressed) = REFUSED[reason as usize][transport as usize].due() else { return };
    let (name, transport) = (reason.name(), transport.name());
    let client = client.map(tracing::field::display);
    let detail = detail.filter(|detail| !detail.is_empty()).map(printable);
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                reason = name,
                transport,
                status,
                client,
                detail,
                suppressed,
                "refused a request"
            )
        };
    }
    match WARNED_REFUSALS.contains(&reason) {
        true => line!(warn),
        false => line!(info),
    }
}

fn log_session_end(end: &SessionEnd<'_>) {
    let SessionEnd { transport, protocol_version: revision, elapsed, error, client, .. } = *end;
    let (transport, client) = (transport.name(), client.map(tracing::field::display));
    tracing::debug!(transport, client, revision, ?elapsed, error, "ended a session");
}

fn log_task(event: &TaskEvent<'_>) {
    let TaskEvent { id, change, principal, trace, .. } = *event;
    macro_rules! line {
        ($level:ident, $message:literal $($field:tt)*) => {
            // The fields are formatted only if the line is written.
            tracing::$level!(
                task = hashed_id(id),
                tool = printable(event.tool),
                $($field)*
                principal = principal.map(printable),
                trace_id = trace.map(|it| format!("{:032x}", it.trace_id())),
                $message
            )
        };
    }
    match change {
        TaskChange::Created => line!(debug, "created a task"),
        TaskChange::Started => line!(info, "started a task"),
        TaskChange::Step { name } => {
            line!(debug, "recorded a step of a task" step = printable(name),);
        }
        TaskChange::TakenOver => {
            line!(info, "took over a task: its process did not renew the lease");
        }
        TaskChange::InputRequired => line!(debug, "waiting for input of a task"),
        TaskChange::Ended { state, age, error_type } => {
            let error_type = error_type.map(CallErrorType::name);
            line!(info, "ended a task" state, error_type = error_type.as_deref(), ?age,);
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
