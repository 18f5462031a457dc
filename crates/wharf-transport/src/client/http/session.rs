//! Posts the messages of one HTTP session (`Mcp-Session-Id`), and dispatches those it receives.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method as Verb};
use tokio::{
    runtime::Handle,
    sync::Semaphore,
    time::{sleep, timeout},
};
use wharf_model::{Error, ErrorKind, FailureOrigin, Lock, Outbox, TimeoutKind};
use wharf_wire::{CallId, ClientCodec, sse::ServerEvent};

use crate::client::http::{
    auth::AuthWait,
    error_response::ErrorResponse,
    response::{MediaKind, ServerResponse},
    send::HttpSender,
    server_url::ServerUrl,
};
use crate::{
    client::{
        TraceEvent,
        pending::{DispatchAction, PendingRequests},
    },
    task_set::TaskSet,
};

/// The session id of legacy servers.
pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Maximum length of a session id or event id that is sent back.
const MAX_ID_BYTES: usize = 4 << 10;
/// Timeout of a notification or a response.
const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of answers in flight before reading waits (back-pressure).
const MAX_CONCURRENT_ANSWERS: usize = 32;
/// Maximum number of attempts to deliver an answer, and the delays between them, which double:
/// about two minutes in total.
const MAX_ANSWER_ATTEMPTS: u32 = 30;
const FIRST_ANSWER_DELAY: Duration = Duration::from_millis(250);
const MAX_ANSWER_DELAY: Duration = Duration::from_secs(5);

/// A message and its `Mcp-*` headers.
pub(super) struct OutgoingMessage {
    pub(super) message: Vec<u8>,
    pub(super) headers: Vec<(String, String)>,
    /// The call that the message belongs to.
    pub(super) call: Option<Outbox>,
}

impl OutgoingMessage {
    pub(super) fn new(message: Vec<u8>, headers: Vec<(String, String)>) -> OutgoingMessage {
        OutgoingMessage { message, headers, call: None }
    }
}

/// Error of a request.
#[derive(Debug)]
pub(super) enum SendError {
    /// The server does not have this session, and did not process the request.
    Gone(Error),
    /// Any other error.
    Failed(Error),
}

impl From<Error> for SendError {
    fn from(error: Error) -> Self {
        SendError::Failed(error)
    }
}

impl SendError {
    pub(super) fn into_error(self) -> Error {
        match self {
            SendError::Gone(error) | SendError::Failed(error) => error,
        }
    }
}

/// An open session, shared by its calls and background tasks.
pub(super) struct HttpSession {
    pub(super) http: Arc<HttpSender>,
    pub(super) pending: Arc<PendingRequests>,
    pub(super) codec: ClientCodec,
    /// The URL that messages are posted to.
    pub(super) to: ServerUrl,
    /// Headers of every request: the session id.
    pub(super) session_headers: HeaderMap,
    gone: Lock<bool>,
    answer_permits: Arc<Semaphore>,
    runtime: Handle,
}

impl HttpSession {
    pub(super) fn new(
        http: Arc<HttpSender>,
        pending: Arc<PendingRequests>,
        codec: ClientCodec,
        to: ServerUrl,
        session: Option<HeaderValue>,
    ) -> HttpSession {
        let session_headers = session.map(|it| (SESSION_ID, it)).into_iter().collect();
        HttpSession {
            http,
            pending,
            codec,
            to,
            session_headers,
            gone: Lock::new(false),
            answer_permits: Arc::new(Semaphore::new(MAX_CONCURRENT_ANSWERS)),
            runtime: Handle::current(),
        }
    }

    pub(super) fn has_session(&self) -> bool {
        !self.session_headers.is_empty()
    }

    /// Returns whether the server holds state that it may lose: a session, or an HTTP+SSE stream.
    fn has_server_state(&self) -> bool {
        self.has_session() || self.to != self.http.url
    }

    /// Returns whether the session has ended, on either side.
    pub(super) fn is_gone(&self) -> bool {
        *self.gone.lock()
    }

    /// Ends the session. Unless the server is stateless, all requests in flight fail.
    pub(super) fn end(&self, error: &Error) {
        // Held until all requests have failed, so that requests of the next session are not
        // affected.
        let mut gone = self.gone.lock();
        if !std::mem::replace(&mut *gone, true) && self.codec.has_sessions() {
            self.pending.fail_all(&closed_by(error));
        }
    }

    pub(super) async fn post(&self, outgoing: OutgoingMessage) -> Result<ServerResponse, Error> {
        match outgoing.call.clone() {
            Some(call) => self.post_for(AuthWait::Call(&call), outgoing).await,
            None => self.post_for(AuthWait::Interactive, outgoing).await,
        }
    }

    async fn post_for(
        &self,
        wait: AuthWait<'_>,
        outgoing: OutgoingMessage,
    ) -> Result<ServerResponse, Error> {
        let mut headers = self.session_headers.clone();
        headers.extend(to_header_map(&outgoing.headers)?);
        self.http.options.record(TraceEvent::Sent(&outgoing.message));
        let body = outgoing.message.into();
        self.http.send_for(wait, Verb::POST, &self.to, &headers, body).await
    }

    /// Opens the GET stream, or resumes after the event `last`.
    pub(super) async fn get(&self, last: Option<&str>) -> Result<ServerResponse, Error> {
        let mut headers = self.session_headers.clone();
        headers.extend(to_header_map(&self.codec.headers("", None, None))?);
        if let Some(last) = last {
            headers.insert(LAST_EVENT_ID, event_id(last)?);
        }
        self.http.send(Verb::GET, &self.http.url, &headers, Bytes::new()).await
    }

    /// Ends the session (DELETE).
    pub(super) async fn delete(&self) -> Result<ServerResponse, Error> {
        let mut headers = self.session_headers.clone();
        headers.extend(to_header_map(&self.codec.headers("", None, None))?);
        self.http.send(Verb::DELETE, &self.http.url, &headers, Bytes::new()).await
    }

    /// Sends a message without a reply. Any success status counts.
    pub(super) async fn notify(&self, message: Vec<u8>, method: &str) -> Result<(), SendError> {
        let outgoing = OutgoingMessage::new(message, self.codec.headers(method, None, None));
        let sent = async {
            // Sent in the background: no login is started for it.
            let answer = self.post_for(AuthWait::Background, outgoing).await?;
            if !answer.status.is_success() {
                return Err(self.error_for(answer).await);
            }
            answer.drain().await;
            Ok(())
        };
        match timeout(NOTIFICATION_TIMEOUT, sent).await {
            Ok(sent) => sent,
            Err(_) => {
                let origin = FailureOrigin::Timeout(TimeoutKind::Idle, NOTIFICATION_TIMEOUT);
                Err(Error::new(ErrorKind::RequestTimeout).from_client(origin).into())
            }
        }
    }

    /// Converts an error response.
    pub(super) async fn error_for(&self, answer: ServerResponse) -> SendError {
        let refusal = ErrorResponse::read(answer, &self.to, Some(&self.codec)).await;
        let is_gone = match self.codec.has_sessions() {
            true => self.has_server_state() && refusal.is_about_session(),
            false => refusal.is_from_replaced_server(),
        };
        if let Some(message) = refusal.message() {
            self.http.options.record(TraceEvent::Received(message));
        }
        if is_gone { SendError::Gone(refusal.error) } else { SendError::Failed(refusal.error) }
    }

    /// Dispatches a message, and sends the answers it requires.
    pub(super) async fn receive(
        self: &Arc<Self>,
        tasks: &TaskSet,
        message: Bytes,
        belongs_to: Option<&CallId>,
    ) -> Result<(), Error> {
        for action in self.pending.receive(message, belongs_to).await? {
            let session = self.clone();
            match action {
                DispatchAction::Send(message) => {
                    // Back-pressure for a server that sends requests faster than it reads answers.
                    let permit = self.answer_permits.clone().acquire_owned().await;
                    self.spawn(tasks, async move {
                        session.answer(message).await;
                        drop(permit);
                    });
                }
                DispatchAction::Answer(answer) => self.spawn(tasks, async move {
                    if let Some((message, _open)) = answer.await {
                        session.answer(message).await;
                    }
                }),
            }
        }
        Ok(())
    }

    /// Dispatches an event. An event that is not a message is only traced.
    pub(super) async fn receive_event(
        self: &Arc<Self>,
        tasks: &TaskSet,
        event: ServerEvent,
        belongs_to: Option<&CallId>,
    ) {
        if event.name.as_deref().is_none_or(|name| name == "message")
            && let Err(error) = self.receive(tasks, event.data, belongs_to).await
        {
            self.http.options.note(format_args!("an event was not a JSON-RPC message: {error}"));
        }
    }

    /// Sends an answer to the server, with retries if the server is temporarily unavailable. The
    /// server applies an answer once, so a retry is safe.
    async fn answer(&self, message: Vec<u8>) {
        let mut pause = FIRST_ANSWER_DELAY;
        for left in (0..MAX_ANSWER_ATTEMPTS).rev() {
            let Err(send_error) = self.notify(message.clone(), "").await else { return };
            let is_gone = matches!(send_error, SendError::Gone(_));
            let error = send_error.into_error();
            if is_gone || left == 0 || !is_temporary(error.kind) {
                let options = &self.http.options;
                return options
                    .note(format_args!("cannot deliver an answer to the server: {error}"));
            }
            sleep(pause).await;
            pause = (pause * 2).min(MAX_ANSWER_DELAY);
        }
    }

    /// Spawns a detached task.
    pub(super) fn detach(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    /// Spawns a task of this session, also from outside of the runtime.
    pub(super) fn spawn(&self, tasks: &TaskSet, task: impl Future<Output = ()> + Send + 'static) {
        let _context = self.runtime.enter();
        tasks.spawn(task);
    }
}

/// Returns whether a retry may succeed.
fn is_temporary(kind: ErrorKind) -> bool {
    use ErrorKind::{ConnectionClosed, Overloaded, RateLimited, TemporarilyUnavailable};
    [ConnectionClosed, Overloaded, RateLimited, TemporarilyUnavailable].contains(&kind)
}

pub(super) fn closed(why: &str) -> Error {
    Error::new(ErrorKind::ConnectionClosed)
        .with_message(why.to_owned())
        .from_client(FailureOrigin::Interrupted)
}

/// Error of the requests that were lost with a session, because of `error`.
pub(super) fn closed_by(error: &Error) -> Error {
    closed(&error.message).in_place_of(error, FailureOrigin::Interrupted)
}

/// Error for a response that is neither a message nor an SSE stream.
pub(super) async fn unexpected(answer: ServerResponse, from: &ServerUrl) -> Error {
    let (status_line, media) = (answer.status_line(), answer.media());
    let wanted = if media == MediaKind::Other { "a message or an SSE stream" } else { "a reply" };
    let shown = answer.read_start().await;
    let colon = if shown.is_empty() { "" } else { ": " };
    let problem = format!("{from} answered with {status_line} instead of {wanted}{colon}{shown}");
    Error::new(ErrorKind::TransportError).with_message(problem).from_client(FailureOrigin::Protocol)
}

pub(super) fn to_header_map(pairs: &[(String, String)]) -> Result<HeaderMap, Error> {
    let bad = |name: &str| {
        let problem = format!("The header {name} has an invalid name or value");
        Error::new(ErrorKind::InvalidParams).with_message(problem).from_client(FailureOrigin::Usage)
    };
    let header = |(name, value): &(String, String)| {
        let known = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad(name))?;
        Ok((known, HeaderValue::from_str(value).map_err(|_| bad(name))?))
    };
    pairs.iter().map(header).collect()
}

/// The session id that the server assigned, if it is valid.
pub(super) fn session_id(headers: &HeaderMap) -> Result<Option<HeaderValue>, Error> {
    let Some(id) = headers.get(SESSION_ID) else { return Ok(None) };
    let visible = |byte: &u8| (0x21..=0x7e).contains(byte);
    if id.is_empty() || id.len() > MAX_ID_BYTES || !id.as_bytes().iter().all(visible) {
        let problem =
            "The server assigned a session id that is empty, too long, or not visible ASCII";
        let error = Error::new(ErrorKind::TransportError).with_message(problem);
        return Err(error.from_client(FailureOrigin::Protocol));
    }
    let mut id = id.clone();
    id.set_sensitive(true);
    Ok(Some(id))
}

fn event_id(id: &str) -> Result<HeaderValue, Error> {
    let value = HeaderValue::from_bytes(id.as_bytes()).ok().filter(|_| id.len() <= MAX_ID_BYTES);
    value.ok_or_else(|| {
        let problem = "The stream cannot be resumed: its last event id is not a valid header value";
        closed(problem)
    })
}
