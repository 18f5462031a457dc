//! A stream of events that is taken up again where it broke off.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout};
use wharf_model::{Error, ErrorKind};
use wharf_wire::sse::ServerEvent;

use crate::client::http::{
    response::{MediaKind, SseStream},
    session::{HttpSession, SendError},
};

/// When to come back if the server does not say.
const DEFAULT_RETRY: Duration = Duration::from_secs(1);
/// However little the server says: a broken one must not keep us busy.
const MIN_RETRY: Duration = Duration::from_millis(50);
/// However often it was in vain.
const MAX_RETRY: Duration = Duration::from_secs(60);
/// A stream that lasted this long was a good one, even if nothing came.
const STABLE_AFTER: Duration = Duration::from_secs(1);
/// How long the end of a stream is waited for once the reply is there.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest pause of our own choice: whoever follows a server wants to know that it is gone.
const MAX_BACKOFF: Duration = Duration::from_secs(5);
/// How often in a row a stream is taken up in vain.
const MAX_ATTEMPTS: u32 = 8;

/// When to try again.
#[derive(Debug, Default)]
pub(super) struct ReconnectDelay {
    pub(super) retry: Option<Duration>,
    /// How often in a row it was in vain.
    pub(super) failures: u32,
}

impl ReconnectDelay {
    /// What the server asked for, longer each time it was in vain, and not the same for everybody.
    pub(super) fn duration(&self) -> Duration {
        let base = self.retry.unwrap_or(DEFAULT_RETRY).clamp(MIN_RETRY, MAX_RETRY);
        let longer = base.saturating_mul(1 << self.failures.min(10)).min(base.max(MAX_BACKOFF));
        let random = RandomState::new().hash_one(self.failures) % 1000;
        longer + longer.mul_f64(random as f64 / 10_000.0)
    }

    pub(super) async fn wait(&self) {
        sleep(self.duration()).await;
    }
}

/// What a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamKind {
    /// The reply to a request, which ends with its connection.
    Once,
    /// The reply to a request, which goes on after an event that can be named.
    Reply,
    /// What the server says by itself, which can also begin anew.
    Get,
}

/// A stream of a legacy server.
pub(super) struct ResumableStream {
    session: Arc<HttpSession>,
    kind: StreamKind,
    stream: Option<SseStream>,
    /// When the stream was opened.
    since: Instant,
    last: Option<String>,
    delay: ReconnectDelay,
}

impl ResumableStream {
    pub(super) fn new(
        session: Arc<HttpSession>,
        kind: StreamKind,
        stream: SseStream,
    ) -> ResumableStream {
        let (stream, since) = (Some(stream), Instant::now());
        ResumableStream {
            session,
            kind,
            stream,
            since,
            last: None,
            delay: ReconnectDelay::default(),
        }
    }

    /// Reads what is left of the stream, if it ends soon, so that its connection can be used again.
    pub(super) async fn drain(mut self) {
        if let Some(stream) = &mut self.stream {
            let rest = async { while let Ok(Some(_)) = stream.next().await {} };
            let _ = timeout(DRAIN_TIMEOUT, rest).await;
        }
    }

    /// The next event. It ends only with the reason why nothing more can come: `Gone` if nothing
    /// of the whole conversation can.
    pub(super) async fn next(&mut self) -> Result<ServerEvent, SendError> {
        loop {
            let Some(stream) = &mut self.stream else {
                self.reconnect().await?;
                continue;
            };
            let next = stream.next().await;
            if let Some(last) = stream.last_id() {
                self.last = (!last.is_empty()).then(|| last.to_owned());
            }
            self.delay.retry = stream.retry().or(self.delay.retry);
            let problem = match next {
                Ok(Some(event)) => {
                    self.delay.failures = 0;
                    return Ok(event);
                }
                Err(error) if error.kind.is_content_too_large() => return Err(error.into()),
                Err(error) => error,
                Ok(None) => ended(),
            };
            let was_alive = stream.received_any() || self.since.elapsed() >= STABLE_AFTER;
            self.delay.failures = if was_alive { 0 } else { self.delay.failures + 1 };
            self.stream = None;
            self.check_resumable(problem)?;
        }
    }

    fn check_resumable(&self, problem: Error) -> Result<(), SendError> {
        let can = match self.kind {
            StreamKind::Once => false,
            StreamKind::Reply => self.last.is_some(),
            StreamKind::Get => true,
        };
        if can && self.delay.failures <= MAX_ATTEMPTS { Ok(()) } else { Err(problem.into()) }
    }

    async fn reconnect(&mut self) -> Result<(), SendError> {
        self.delay.wait().await;
        let response = match self.session.get(self.last.as_deref()).await {
            Ok(response) => response,
            Err(error) => {
                self.delay.failures += 1;
                self.session.http.options.note(format_args!("cannot go on with a stream: {error}"));
                // Nothing else of this conversation can be reached either.
                return self
                    .check_resumable(error)
                    .map_err(|send_error| SendError::Gone(send_error.into_error()));
            }
        };
        if response.status.is_success() && response.media() == MediaKind::Events {
            self.stream = Some(response.events(self.session.http.options.limits.message));
            self.since = Instant::now();
            return Ok(());
        }
        // Some servers refuse a stream until they notice that the last one has ended.
        let passes = self.kind == StreamKind::Get
            || response.status.is_server_error()
            || response.status.as_u16() == 429;
        match self.session.error_for(response).await {
            SendError::Gone(error) => {
                // Whatever was under way there is lost with it.
                self.session.end(&error);
                Err(SendError::Failed(not_resumed(&error)))
            }
            SendError::Failed(error) if passes => {
                self.delay.failures += 1;
                self.check_resumable(not_resumed(&error))
            }
            SendError::Failed(error) => Err(SendError::Failed(not_resumed(&error))),
        }
    }
}

fn ended() -> Error {
    let problem = "The server ended the stream before it replied";
    Error::new(ErrorKind::ConnectionClosed).with_message(problem)
}

fn not_resumed(error: &Error) -> Error {
    let problem = format!("The stream broke off and could not be resumed: {}", error.message);
    Error::new(ErrorKind::ConnectionClosed).with_message(problem)
}
