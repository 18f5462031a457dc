//! Start and end of a call, as observers receive them.

use std::{borrow::Cow, net::SocketAddr, time::Duration};

use crate::{
    ClientObservation, Error, ErrorKind, Method, NetworkProtocolVersion, ObservedTransport,
    Outcome, Principal, RemoteAddress, Reply, Request, Service, TraceContext,
};

/// Side of a call that reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallRole {
    /// The side that answers the call.
    Server,
    /// The side that makes the call. It is a server for its requests to a client: elicitation, sampling and roots.
    Client,
    /// The process that runs a task, which the call of a tool became.
    Task,
}

/// Session id of a call, in the request's extensions where there are observers. Logs contain its hash only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedSession(pub std::sync::Arc<str>);

/// Id of the task that a request runs, in the extensions of that request. Logs contain its hash only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedTask(pub std::sync::Arc<str>);

/// Facts about the protocol version of a request, which the codec attaches to it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ProtocolInfo {
    /// Date of the version.
    pub version: &'static str,
    /// Name of the method [`Method::Discover`] in this version.
    pub discover: &'static str,
    /// Number of the version and its error codes in the codec's tables.
    row: usize,
    error_code: ErrorCodeFn,
}

/// Function of the codec that returns the code of an error, or `None` if it is reported as the result of a tool. The
/// number is that of the [`ProtocolInfo`].
pub type ErrorCodeFn = fn(usize, &Error, Method) -> Option<i32>;

impl ProtocolInfo {
    /// Creates the facts about a version.
    #[must_use]
    pub const fn new(
        version: &'static str,
        discover: &'static str,
        row: usize,
        error_code: ErrorCodeFn,
    ) -> Self {
        ProtocolInfo { version, discover, row, error_code }
    }

    /// Returns the code of an error, or `None` if it is reported as the result of a tool.
    #[must_use]
    pub fn error_code(&self, error: &Error, method: Method) -> Option<i32> {
        (self.error_code)(self.row, error, method)
    }
}

/// Start of a call.
#[derive(Clone, Copy)]
pub struct CallStart<'a> {
    pub(crate) role: CallRole,
    pub(crate) request: &'a Request,
    /// Service of this process that answers the call; `None` for a request to the client of a call.
    pub(crate) service: Option<&'a dyn Service>,
    /// Client that reports the call; `None` if the server does. The extensions of a request that a proxy forwards are
    /// about its own client.
    pub(crate) client: Option<ClientObservation<'a>>,
}

impl<'a> CallStart<'a> {
    /// Returns the side that reports the call.
    #[must_use]
    pub fn role(&self) -> CallRole {
        self.role
    }

    /// Returns the request: its method, parameters, extensions and client.
    #[must_use]
    pub fn request(&self) -> &'a Request {
        self.request
    }

    /// Returns the name of the method on the wire. That of a custom method is the caller's, unless
    /// [`is_known_target`](CallStart::is_known_target).
    #[must_use]
    pub fn method_name(&self) -> Cow<'a, str> {
        let protocol = self.request.protocol.filter(|_| self.client.is_none());
        match (self.request.method, protocol) {
            (Method::Discover, Some(protocol)) => Cow::Borrowed(protocol.discover),
            _ => self.request.method_name(),
        }
    }

    /// Returns whether the server has the target of the call: its tool, prompt, resource or custom method. Names
    /// that it does not have are invented by callers, so they must not become values of metric labels. The names of a
    /// client's calls are known, unless it forwards them for other clients.
    #[must_use]
    pub fn is_known_target(&self) -> bool {
        match self.client {
            Some(client) => client.has_target.is_none_or(|has_target| has_target(self.request)),
            None => self.service.is_none_or(|service| service.has_target(self.request)),
        }
    }

    /// Returns the id of the JSON-RPC request as JSON text. The transport of a client assigns it later.
    #[must_use]
    pub fn request_id(&self) -> Option<&'a str> {
        self.received()?.json(self.request.parts().id)
    }

    /// Returns the request, if it was received.
    fn received(&self) -> Option<&'a Request> {
        self.client.is_none().then_some(self.request)
    }

    /// Returns the date of the protocol version.
    #[must_use]
    pub fn protocol_version(&self) -> Option<&'a str> {
        match self.client {
            Some(client) => client.protocol_version,
            None => self.request.protocol.map(|protocol| protocol.version),
        }
    }

    /// Returns the transport.
    #[must_use]
    pub fn transport(&self) -> Option<ObservedTransport> {
        match self.client {
            Some(client) => client.server.transport,
            None => self.request.scope.get().copied(),
        }
    }

    /// Returns the attribute `network.protocol.version`, for calls of a server.
    #[must_use]
    pub fn network_protocol_version(&self) -> Option<&'static str> {
        self.received()?.scope.get().map(|version: &NetworkProtocolVersion| version.0)
    }

    /// Returns the authenticated principal.
    #[must_use]
    pub fn principal(&self) -> Option<&'a Principal> {
        self.request.principal()
    }

    /// Returns the session id. It authenticates requests in some deployments: logs contain its hash only.
    #[must_use]
    pub fn session_id(&self) -> Option<&'a str> {
        self.received()?.scope.get().map(|session: &ObservedSession| &*session.0)
    }

    /// Returns the id of the task that this process runs. Who has it can read the task: logs contain its hash only.
    #[must_use]
    pub fn task_id(&self) -> Option<&'a str> {
        let is_run = self.role == CallRole::Task;
        self.request.scope.get().filter(|_| is_run).map(|task: &ObservedTask| &*task.0)
    }

    /// Returns the address of the client.
    #[must_use]
    pub fn client_address(&self) -> Option<SocketAddr> {
        self.received()?.scope.get().map(|remote: &RemoteAddress| remote.0)
    }

    /// Returns the attribute `server.address`, for calls of a client.
    #[must_use]
    pub fn server_address(&self) -> Option<&'a str> {
        self.client?.server.address.as_deref()
    }

    /// Returns the attribute `server.port`, for calls of a client.
    #[must_use]
    pub fn server_port(&self) -> Option<u16> {
        self.client?.server.port
    }

    /// Parses the trace context in `_meta`.
    #[must_use]
    pub fn trace_context(&self) -> Option<TraceContext> {
        TraceContext::from_meta(self.request.meta()?)
    }
}

/// State that an observer keeps for a call, and the way in which it receives the end.
#[derive(Default)]
#[non_exhaustive]
pub enum CallState {
    /// The observer does not receive the end of the call.
    #[default]
    Ignored,
    /// [`Observer::call_ended`](crate::Observer::call_ended) receives the end with this value. Nothing is allocated
    /// for it.
    Token(u64),
    /// This scope receives each poll and the end.
    Scope(Box<dyn CallScope>),
}

/// State of one call, for observers that need more than a number, such as a `tracing::Span`.
pub trait CallScope: Send {
    /// Runs one poll of the call: call `poll` exactly once. The start of the call, its start for later observers and
    /// the drop of a cancelled call count as polls.
    fn run(&mut self, poll: &mut dyn FnMut()) {
        poll();
    }

    /// Receives the end of the call.
    fn ended(&mut self, end: &CallEnd<'_>) {
        let _ = end;
    }
}

/// End of a call.
#[derive(Clone, Copy, Debug)]
pub struct CallEnd<'a> {
    pub(crate) role: CallRole,
    pub(crate) method: Method,
    pub(crate) protocol: Option<&'static ProtocolInfo>,
    pub(crate) elapsed: Duration,
    pub(crate) outcome: CallOutcome<'a>,
}

/// Form in which a call ended.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum CallOutcome<'a> {
    /// The service returned this outcome. It may be an error.
    Returned(&'a Outcome),
    /// The deadline of the call passed.
    TimedOut,
    /// The call was dropped: the caller cancelled it, or the connection closed.
    Cancelled,
    /// The handler panicked with this text, which may contain confidential data and is for logs only.
    Panicked(&'a str),
}

impl<'a> CallEnd<'a> {
    /// Returns the side that reports the call.
    #[must_use]
    pub fn role(&self) -> CallRole {
        self.role
    }

    /// Returns the method of the call.
    #[must_use]
    pub fn method(&self) -> Method {
        self.method
    }

    /// Returns the duration of the call.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Returns the outcome.
    #[must_use]
    pub fn outcome(&self) -> CallOutcome<'a> {
        self.outcome
    }

    /// Returns the error that the call failed with. Its message is for the client; its
    /// [source](std::error::Error::source) is for logs only.
    #[must_use]
    pub fn error(&self) -> Option<&'a Error> {
        match self.outcome {
            CallOutcome::Returned(Outcome::Failed(error)) => Some(error),
            _ => None,
        }
    }

    /// Returns the name of the outcome in logs: `complete`, `tool_error`, `input_required`, `task`, `timeout`,
    /// `cancelled`, `panicked`, or the name of the error's kind.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.outcome {
            CallOutcome::Returned(outcome) => match outcome {
                Outcome::Complete(Reply::Tool(result)) if result.is_error => "tool_error",
                Outcome::Complete(_) => "complete",
                Outcome::InputRequired(_) => "input_required",
                Outcome::Task(_) => "task",
                Outcome::Failed(error) => error.kind.name(),
            },
            CallOutcome::TimedOut => "timeout",
            CallOutcome::Cancelled => "cancelled",
            CallOutcome::Panicked(_) => "panicked",
        }
    }

    /// Returns the JSON-RPC error code of the response: `rpc.response.status_code`. `None` if the response is a
    /// result, as it is for most failures of a tool, or if there is none. On a client it is the code that the server
    /// sent.
    #[must_use]
    pub fn error_code(&self) -> Option<i32> {
        let of = |error: &Error| match (self.role, self.protocol) {
            (CallRole::Client, _) => error.code.filter(|_| error.origin().is_none()),
            (_, Some(protocol)) => protocol.error_code(error, self.method),
            (_, None) if self.is_tool_result(error) => None,
            (_, None) => error.code.or_else(|| error.kind.registry_code()),
        };
        let is_tool = self.method == Method::CallTool;
        match self.outcome {
            CallOutcome::Returned(Outcome::Failed(error)) => of(error),
            CallOutcome::TimedOut if !is_tool => of(&Error::new(ErrorKind::RequestTimeout)),
            CallOutcome::Panicked(_) if !is_tool => of(&Error::new(ErrorKind::InternalError)),
            _ => None,
        }
    }

    /// Returns whether a caller in the same process receives the error as the result of a tool.
    fn is_tool_result(&self, error: &Error) -> bool {
        let kind = error.kind;
        self.method == Method::CallTool
            && (kind.is_tool_result() || kind.is_invalid_tool_arguments())
    }

    /// Returns the class of the failure that the attribute `error.type` names; `None` if the call did not fail. An
    /// error that is the caller's fault is no failure of a server, and the end of a subscription is none at all.
    #[must_use]
    pub fn error_type(&self) -> Option<CallErrorType> {
        match self.outcome {
            CallOutcome::Returned(Outcome::Failed(error)) => self.error_type_of(error),
            CallOutcome::Returned(Outcome::Complete(Reply::Tool(result))) if result.is_error => {
                Some(CallErrorType::ToolError)
            }
            CallOutcome::Returned(_) => None,
            CallOutcome::TimedOut => Some(CallErrorType::Timeout),
            CallOutcome::Cancelled if self.method == Method::Listen => None,
            CallOutcome::Cancelled => Some(CallErrorType::Cancelled),
            CallOutcome::Panicked(_) => Some(CallErrorType::Panicked),
        }
    }

    fn error_type_of(&self, error: &Error) -> Option<CallErrorType> {
        let is_server = self.role != CallRole::Client;
        match (error.kind, self.error_code()) {
            (ErrorKind::ConnectionClosed, _) => Some(CallErrorType::ConnectionClosed),
            (ErrorKind::RequestTimeout | ErrorKind::ToolTimeout, _) => Some(CallErrorType::Timeout),
            // A caller in the same process receives the kind instead of a code.
            (kind, Some(_)) if is_server && self.protocol.is_none() && kind.is_caller_fault() => {
                None
            }
            (_, Some(code)) => {
                Some(CallErrorType::Code(code)).filter(|it| !(is_server && it.is_caller_fault()))
            }
            (_, None) if is_server && self.method == Method::CallTool => {
                Some(CallErrorType::ToolError)
            }
            (kind, None) => Some(CallErrorType::Kind(kind)),
        }
    }
}

/// Class of a failed call: the attribute `error.type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallErrorType {
    /// JSON-RPC error with this code.
    Code(i32),
    /// Error of this kind without a code: a failure of the client itself.
    Kind(ErrorKind),
    /// Result of a tool with `isError`.
    ToolError,
    /// The deadline passed.
    Timeout,
    /// The call was dropped.
    Cancelled,
    /// The connection closed before the response.
    ConnectionClosed,
    /// The handler panicked.
    Panicked,
}

impl CallErrorType {
    /// Returns whether the caller is at fault, so that a server does not report an error.
    ///
    /// ```
    /// # mod wharf { pub use wharf_model::*; pub mod observe { pub use super::*; } }
    /// use wharf::observe::CallErrorType;
    ///
    /// assert!(CallErrorType::Code(-32602).is_caller_fault());
    /// assert!(!CallErrorType::Code(-32603).is_caller_fault());
    /// ```
    #[must_use]
    pub fn is_caller_fault(self) -> bool {
        const CALLER_FAULTS: [i32; 5] = [-32700, -32600, -32601, -32602, -32002];
        matches!(self, CallErrorType::Code(code) if CALLER_FAULTS.contains(&code))
    }

    /// Returns the value of `error.type`.
    #[must_use]
    pub fn name(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            CallErrorType::Code(code) => return Cow::Owned(code.to_string()),
            CallErrorType::Kind(kind) => kind.name(),
            CallErrorType::ToolError => "tool_error",
            CallErrorType::Timeout => "timeout",
            CallErrorType::Cancelled => "cancelled",
            CallErrorType::ConnectionClosed => "connection_closed",
            CallErrorType::Panicked => "panic",
        })
    }
}
