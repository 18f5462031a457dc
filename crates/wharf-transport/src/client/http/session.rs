//! What an open conversation needs to say something.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method as Verb};
use tokio::{
    runtime::Handle,
    sync::Semaphore,
    time::{sleep, timeout},
};
use wharf_model::{Error, ErrorKind, Outbox};
use wharf_wire::{CallId, ClientCodec, sse::ServerEvent};

use crate::client::http::{
    auth::AuthWait,
    error::ErrorResponse,
    response::{HttpResponse, MediaKind},
    send::HttpSender,
    server_url::ServerUrl,
};
use crate::{
    client::{
        TraceEvent,
        pending::{PendingRequests, DispatchAction},
    },
    task_set::Tasks,
};

/// What legacy servers tell sessions apart by.
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
/// The longest id that is sent back to a server.
const LONGEST_ID: usize = 4 << 10;
/// How long a server may take for what it only has to take note of.
const NOTED: Duration = Duration::from_secs(30);
/// How many answers may be on their way to the server before reading waits for them.
const ANSWERING: usize = 32;
/// How often an answer is sent to a server that cannot take it, and the pauses between, which double:
/// about two minutes in all.
const ANSWERS: u32 = 30;
const AGAIN: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A message and the headers that repeat what it says.
pub(super) struct OutgoingMessage {
    pub(super) message: Vec<u8>,
    pub(super) heads: Vec<(String, String)>,
    /// The call that it is.
    pub(super) call: Option<Outbox>,
}

impl OutgoingMessage {
    pub(super) fn new(message: Vec<u8>, heads: Vec<(String, String)>) -> OutgoingMessage {
        OutgoingMessage { message, heads, call: None }
    }
}

/// Why a request has no reply.
#[derive(Debug)]
pub(super) enum SendError {
    /// The server knows nothing of this conversation, and did nothing about the request.
    Gone(Error),
    /// Anything else.
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

/// An open conversation, as its calls and its tasks share it.
pub(super) struct HttpSession {
    pub(super) http: Arc<HttpSender>,
    pub(super) desk: Arc<PendingRequests>,
    pub(super) talk: ClientCodec,
    /// Where messages go.
    pub(super) to: ServerUrl,
    /// Headers of every request: the session.
    pub(super) standing: HeaderMap,
    gone: Mutex<bool>,
    answering: Arc<Semaphore>,
    runtime: Handle,
}

impl HttpSession {
    pub(super) fn new(
        http: Arc<HttpSender>,
        desk: Arc<PendingRequests>,
        talk: ClientCodec,
        to: ServerUrl,
        session: Option<HeaderValue>,
    ) -> HttpSession {
        let standing = session.map(|it| (SESSION, it)).into_iter().collect();
        HttpSession {
            http,
            desk,
            talk,
            to,
            standing,
            gone: Mutex::new(false),
            answering: Arc::new(Semaphore::new(ANSWERING)),
            runtime: Handle::current(),
        }
    }

    pub(super) fn has_session(&self) -> bool {
        !self.standing.is_empty()
    }

    /// Whether the server keeps something that it may forget: a session, or the stream of HTTP+SSE.
    fn is_kept(&self) -> bool {
        self.has_session() || self.to != self.http.place
    }

    /// Whether the conversation is over, whoever ended it.
    pub(super) fn is_gone(&self) -> bool {
        *self.gone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the conversation. Where it was more than single requests, all that was under way fails.
    pub(super) fn leave(&self, error: &Error) {
        // Held until everybody knows, so that nothing of the next conversation is taken for this.
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *gone, true) && !self.talk.is_modern() {
            self.desk.lost(&closed(&error.message));
        }
    }

    pub(super) async fn post(&self, letter: OutgoingMessage) -> Result<HttpResponse, Error> {
        match letter.call.clone() {
            Some(call) => self.post_for(AuthWait::Call(&call), letter).await,
            None => self.post_for(AuthWait::Interactive, letter).await,
        }
    }

    async fn post_for(&self, waits: AuthWait<'_>, letter: OutgoingMessage) -> Result<HttpResponse, Error> {
        let mut heads = self.standing.clone();
        heads.extend(headers(&letter.heads)?);
        self.http.options.trace(TraceEvent::Sent(&letter.message));
        let body = letter.message.into();
        self.http.send_for(waits, Verb::POST, &self.to, &heads, body).await
    }

    /// Opens the stream of what the server says by itself, or goes on after the event `last`.
    pub(super) async fn get(&self, last: Option<&str>) -> Result<HttpResponse, Error> {
        let mut heads = self.standing.clone();
        heads.extend(headers(&self.talk.headers("", None, None))?);
        if let Some(last) = last {
            heads.insert(LAST_EVENT, event_id(last)?);
        }
        self.http.send(Verb::GET, &self.http.place, &heads, Bytes::new()).await
    }

    /// Ends the session.
    pub(super) async fn delete(&self) -> Result<HttpResponse, Error> {
        let mut heads = self.standing.clone();
        heads.extend(headers(&self.talk.headers("", None, None))?);
        self.http.send(Verb::DELETE, &self.http.place, &heads, Bytes::new()).await
    }

    /// Sends what has no reply: any success will do, whatever it carries.
    pub(super) async fn tell(&self, message: Vec<u8>, method: &str) -> Result<(), SendError> {
        let letter = OutgoingMessage::new(message, self.talk.headers(method, None, None));
        let told = async {
            // Nobody waits for it, so nobody logs in for it.
            let answer = self.post_for(AuthWait::Background, letter).await?;
            if !answer.status.is_success() {
                return Err(self.refused(answer).await);
            }
            answer.spend().await;
            Ok(())
        };
        match timeout(NOTED, told).await {
            Ok(told) => told,
            Err(_) => Err(Error::new(ErrorKind::RequestTimeout).into()),
        }
    }

    /// What a status amounts to that is no success.
    pub(super) async fn refused(&self, answer: HttpResponse) -> SendError {
        let refusal = ErrorResponse::read(answer, &self.to, Some(&self.talk)).await;
        let is_gone = match self.talk.is_modern() {
            true => refusal.is_of_another_era(),
            false => self.is_kept() && refusal.is_about_session(),
        };
        if let Some(message) = refusal.message() {
            self.http.options.trace(TraceEvent::Received(message));
        }
        if is_gone { SendError::Gone(refusal.error) } else { SendError::Failed(refusal.error) }
    }

    /// Hears a message, and does what it asks for.
    pub(super) async fn hear(
        self: &Arc<Self>,
        tasks: &Tasks,
        message: Bytes,
        belongs_to: Option<&CallId>,
    ) -> Result<(), Error> {
        for duty in self.desk.hear(message, belongs_to).await? {
            let voice = self.clone();
            match duty {
                DispatchAction::Send(message) => {
                    // A server that asks faster than it listens has to wait.
                    let turn = self.answering.clone().acquire_owned().await;
                    self.spawn(tasks, async move {
                        voice.answer(message).await;
                        drop(turn);
                    });
                }
                DispatchAction::Answer(answer) => self.spawn(tasks, async move {
                    if let Some((message, _open)) = answer.await {
                        voice.answer(message).await;
                    }
                }),
            }
        }
        Ok(())
    }

    /// Hears an event. What is no message is noted, and otherwise left alone.
    pub(super) async fn overhear(
        self: &Arc<Self>,
        tasks: &Tasks,
        event: ServerEvent,
        belongs_to: Option<&CallId>,
    ) {
        if event.name.as_deref().is_none_or(|name| name == "message")
            && let Err(error) = self.hear(tasks, event.data, belongs_to).await
        {
            self.http.options.note(format_args!("an event was no message: {error}"));
        }
    }

    /// Answers the server, which waits for it: one that cannot take the answer now is told again. An
    /// answer counts once, however often it comes.
    async fn answer(&self, message: Vec<u8>) {
        let mut pause = AGAIN;
        for left in (0..ANSWERS).rev() {
            let Err(miss) = self.tell(message.clone(), "").await else { return };
            let is_gone = matches!(miss, SendError::Gone(_));
            let error = miss.into_error();
            if is_gone || left == 0 || !is_passing(error.kind) {
                let options = &self.http.options;
                return options.note(format_args!("an answer did not reach the server: {error}"));
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Runs a task that nobody waits for, and nothing ends.
    pub(super) fn detach(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    /// Runs a task from wherever the caller is, which may be no task.
    pub(super) fn spawn(&self, tasks: &Tasks, task: impl Future<Output = ()> + Send + 'static) {
        let _context = self.runtime.enter();
        tasks.spawn(task);
    }
}

/// Whether the same may be taken a little later.
fn is_passing(kind: ErrorKind) -> bool {
    use ErrorKind::{ConnectionClosed, Overloaded, RateLimited, TemporarilyUnavailable};
    [ConnectionClosed, Overloaded, RateLimited, TemporarilyUnavailable].contains(&kind)
}

pub(super) fn closed(why: &str) -> Error {
    Error::new(ErrorKind::ConnectionClosed).with_message(why.to_owned())
}

/// An answer that is neither a message nor a stream.
pub(super) async fn unexpected(answer: HttpResponse, from: &ServerUrl) -> Error {
    let (head, media) = (answer.head(), answer.media());
    let wanted = if media == MediaKind::Other { "a message or a stream of events" } else { "a reply" };
    let shown = answer.beginning().await;
    let colon = if shown.is_empty() { "" } else { ": " };
    let problem = format!("{from} answered with {head} instead of {wanted}{colon}{shown}");
    Error::new(ErrorKind::TransportError).with_message(problem)
}

pub(super) fn headers(pairs: &[(String, String)]) -> Result<HeaderMap, Error> {
    let bad = |name: &str| {
        let problem = format!("The header {name} cannot carry what the message says");
        Error::new(ErrorKind::InvalidParams).with_message(problem)
    };
    let header = |(name, value): &(String, String)| {
        let known = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad(name))?;
        Ok((known, HeaderValue::from_str(value).map_err(|_| bad(name))?))
    };
    pairs.iter().map(header).collect()
}

/// The id of a session as the server gave it, if it may be sent back.
pub(super) fn session_id(heads: &HeaderMap) -> Result<Option<HeaderValue>, Error> {
    let Some(id) = heads.get(SESSION) else { return Ok(None) };
    let visible = |byte: &u8| (0x21..=0x7e).contains(byte);
    if id.is_empty() || id.len() > LONGEST_ID || !id.as_bytes().iter().all(visible) {
        let problem = "The server gave a session id that is empty, too long, or not visible ASCII";
        return Err(Error::new(ErrorKind::TransportError).with_message(problem));
    }
    let mut id = id.clone();
    id.set_sensitive(true);
    Ok(Some(id))
}

fn event_id(id: &str) -> Result<HeaderValue, Error> {
    let value = HeaderValue::from_bytes(id.as_bytes()).ok().filter(|_| id.len() <= LONGEST_ID);
    value.ok_or_else(|| {
        let problem = "The stream cannot be resumed: the id of its last event fits no header";
        Error::new(ErrorKind::ConnectionClosed).with_message(problem)
    })
}
