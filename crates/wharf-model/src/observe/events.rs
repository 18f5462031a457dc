//! Events besides the start and the end of a call.

use std::{net::SocketAddr, time::Duration};

use crate::{CallErrorType, CallRole, Error, ObservedTransport, RefusalReason, TraceContext};

/// Event for observers. A new event is a new variant, in a new minor version of this crate.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ObservedEvent<'a> {
    /// A message or a connection was refused before it became a call.
    Refused(Refusal<'a>),
    /// The number of running and of waiting calls changed while calls wait for the concurrency limit.
    Queue {
        /// Number of running calls.
        running: usize,
        /// Number of waiting calls.
        waiting: usize,
    },
    /// A call was rejected because the concurrency limit and the queue are full. Its end is reported, too.
    QueueFull {
        /// Number of running calls.
        running: usize,
        /// Number of waiting calls.
        waiting: usize,
    },
    /// A connection was closed because the client did not read.
    SlowClientClosed {
        /// Transport of the connection.
        transport: ObservedTransport,
        /// Address of the client.
        client: Option<SocketAddr>,
    },
    /// A session over HTTP, or a connection over another transport, began.
    SessionStarted {
        /// Transport of the session.
        transport: ObservedTransport,
        /// Address of the client.
        client: Option<SocketAddr>,
    },
    /// A session or connection ended.
    SessionEnded(SessionEnd<'a>),
    /// An event stream was opened.
    StreamOpened {
        /// Transport of the stream.
        transport: ObservedTransport,
    },
    /// An event stream was closed.
    StreamClosed {
        /// Transport of the stream.
        transport: ObservedTransport,
    },
    /// Bytes of messages were received.
    Received {
        /// Transport that received them.
        transport: ObservedTransport,
        /// Number of bytes.
        bytes: usize,
    },
    /// Bytes of messages were sent.
    Sent {
        /// Transport that sent them.
        transport: ObservedTransport,
        /// Number of bytes.
        bytes: usize,
    },
    /// A store finished an operation.
    StoreOperation {
        /// Name of the operation, from a closed table.
        operation: &'static str,
        /// Error of the operation, if it failed.
        error: Option<&'a Error>,
        /// Duration of the operation.
        elapsed: Duration,
    },
    /// A store began to fail.
    StoreFailed {
        /// Name of the store.
        store: &'a str,
        /// Error of the store.
        error: &'a Error,
    },
    /// A store works again.
    StoreRecovered {
        /// Name of the store.
        store: &'a str,
        /// Time since the store began to fail.
        outage: Duration,
    },
    /// A task changed.
    Task(TaskEvent<'a>),
    /// The connection to an upstream server changed.
    Upstream {
        /// Name of the upstream server.
        name: &'a str,
        /// New state.
        change: UpstreamChange<'a>,
    },
}

/// Refusal of a message or a connection before it became a call.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Refusal<'a> {
    /// Reason of the refusal.
    pub reason: RefusalReason,
    /// Transport that refused.
    pub transport: ObservedTransport,
    /// HTTP status of the response.
    pub status: Option<u16>,
    /// Address of the client.
    pub client: Option<SocketAddr>,
    /// Further text for logs, without secrets. It may be the caller's.
    pub detail: Option<&'a str>,
}

impl<'a> Refusal<'a> {
    /// Creates a refusal.
    #[must_use]
    pub fn new(reason: RefusalReason, transport: ObservedTransport) -> Self {
        Refusal { reason, transport, status: None, client: None, detail: None }
    }

    /// Sets the HTTP status.
    #[must_use]
    pub fn status(self, status: u16) -> Self {
        Refusal { status: Some(status), ..self }
    }

    /// Sets the address of the client.
    #[must_use]
    pub fn client(self, client: Option<SocketAddr>) -> Self {
        Refusal { client, ..self }
    }

    /// Sets the text for logs.
    #[must_use]
    pub fn detail(self, detail: &'a str) -> Self {
        Refusal { detail: Some(detail), ..self }
    }
}

/// End of a session or connection.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SessionEnd<'a> {
    /// Side of the session that reports it. A client reports the end of its connection only.
    pub role: CallRole,
    /// Transport of the session.
    pub transport: ObservedTransport,
    /// Date of the protocol version, if it was negotiated.
    pub protocol_version: Option<&'a str>,
    /// Duration of the session.
    pub elapsed: Duration,
    /// Attribute `error.type`: why the session ended, if it did not end in good order. From a closed table.
    pub error: Option<&'static str>,
    /// Address of the client.
    pub client: Option<SocketAddr>,
}

impl<'a> SessionEnd<'a> {
    /// Creates the end of a server's session in good order.
    #[must_use]
    pub fn new(transport: ObservedTransport, elapsed: Duration) -> Self {
        let role = CallRole::Server;
        SessionEnd { role, transport, protocol_version: None, elapsed, error: None, client: None }
    }

    /// Sets the side that reports the end.
    #[must_use]
    pub fn role(self, role: CallRole) -> Self {
        SessionEnd { role, ..self }
    }

    /// Sets the date of the protocol version.
    #[must_use]
    pub fn protocol_version(self, version: Option<&'a str>) -> Self {
        SessionEnd { protocol_version: version, ..self }
    }

    /// Sets the reason of an unexpected end.
    #[must_use]
    pub fn error(self, error: &'static str) -> Self {
        SessionEnd { error: Some(error), ..self }
    }

    /// Sets the address of the client.
    #[must_use]
    pub fn client(self, client: Option<SocketAddr>) -> Self {
        SessionEnd { client, ..self }
    }
}

/// Change of a task.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TaskEvent<'a> {
    /// Id of the task. Who has it can read the task: logs contain its hash only.
    pub id: &'a str,
    /// Name of the tool.
    pub tool: &'a str,
    /// What happened.
    pub change: TaskChange<'a>,
    /// Id of the principal that owns the task.
    pub principal: Option<&'a str>,
    /// Trace of the call that created the task.
    pub trace: Option<&'a TraceContext>,
}

impl<'a> TaskEvent<'a> {
    /// Creates an event of the task `id` of `tool`.
    #[must_use]
    pub fn new(id: &'a str, tool: &'a str, change: TaskChange<'a>) -> Self {
        TaskEvent { id, tool, change, principal: None, trace: None }
    }

    /// Sets the principal that owns the task.
    #[must_use]
    pub fn principal(self, principal: Option<&'a str>) -> Self {
        TaskEvent { principal, ..self }
    }

    /// Sets the trace of the call that created the task.
    #[must_use]
    pub fn trace(self, trace: Option<&'a TraceContext>) -> Self {
        TaskEvent { trace, ..self }
    }
}

/// What happened to a task.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum TaskChange<'a> {
    /// A call became a task.
    Created,
    /// This process runs the task.
    Started,
    /// A step of the task was recorded.
    Step {
        /// Name of the step.
        name: &'a str,
    },
    /// This process took over the task of a process that did not renew its lease.
    TakenOver,
    /// The task waits for input of the client.
    InputRequired,
    /// The task ended.
    Ended {
        /// Final state of the task: `completed`, `failed` or `cancelled`.
        state: &'static str,
        /// Time since the task was created.
        age: Duration,
        /// Class of the failure, also of one that is a result for the model: `completed` includes errors of the tool,
        /// timeouts and panics.
        error_type: Option<CallErrorType>,
    },
    /// This process does not run the task any more: it ended, or another process may continue it.
    Stopped,
}

/// Change of the connection to an upstream server.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum UpstreamChange<'a> {
    /// The server is connected.
    Up,
    /// The connection was lost, or could not be made.
    Down {
        /// Error of the connection.
        error: &'a Error,
    },
    /// The client was closed.
    Closed,
    /// The process of the server is started again.
    Restarting,
}
