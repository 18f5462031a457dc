//! Resumability: reconnects an SSE stream with `Last-Event-ID`.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout};
use wharf_model::{Error, ErrorKind, FailureOrigin};
use wharf_wire::sse::ServerEvent;

use crate::client::http::{
    response::{MediaKind, SseStream},
    session::{HttpSession, SendError},
};

/// Reconnection time if the server sends none.
const DEFAULT_RETRY: Duration = Duration::from_secs(1);
/// Lower limit of the reconnection time: a broken server must not keep the client busy.
const MIN_RETRY: Duration = Duration::from_millis(50);
/// A stream that lasted this long counts as stable, even without events.
const STABLE_AFTER: Duration = Duration::from_secs(1);
/// Time to read the end of a stream after the reply.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Upper limit of the backoff, unless the server's reconnection time is longer: subscribers are soon notified of a server
/// that is down.
const MAX_BACKOFF: Duration = Duration::from_secs(5);
/// Maximum number of failed reconnects in a row.
const MAX_ATTEMPTS: u32 = 8;

/// Delay before the next reconnect.
#[derive(Debug, Default)]
pub(super) struct ReconnectDelay {
    pub(super) retry: Option<Duration>,
    /// Number of failures in a row.
    pub(super) failures: u32,
}

impl ReconnectDelay {
    /// The server's reconnection time, with exponential backoff and jitter.
    pub(super) fn duration(&self) -> Duration {
        let base = self.retry.unwrap_or(DEFAULT_RETRY).max(MIN_RETRY);
        let longer = base.saturating_mul(1 << self.failures.min(10)).min(base.max(MAX_BACKOFF));
        let random = RandomState::new().hash_one(self.failures) % 1000;
        longer + longer.mul_f64(random as f64 / 10_000.0)
    }

    pub(super) async fn wait(&self) {
        sleep(self.duration()).await;
    }
}

/// The kind of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamKind {
    /// The reply to a request, which cannot be resumed.
    Once,
    /// The reply to a request, resumable after an event with an id.
    Reply,
    /// The GET stream of a session, which can also be opened anew.
    Get,
}

/// An SSE stream that reconnects.
pub(super) struct ResumableStream {
    session: Arc<HttpSession>,
    kind: StreamKind,
    stream: Option<SseStream>,
    /// The time at which the stream was opened.
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

    /// Reads the rest of the stream if it ends soon, so that its connection can be reused.
    pub(super) async fn drain(mut self) {
        if let Some(stream) = &mut self.stream {
            let rest = async { while let Ok(Some(_)) = stream.next().await {} };
            let _ = timeout(DRAIN_TIMEOUT, rest).await;
        }
    }

    /// The next event. Fails once the stream cannot be resumed; with `Gone` if the session has
    /// ended as well.
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
        if can && self.delay.failures <= MAX_ATTEMPTS {
            return Ok(());
        }
        // The server has received the request, whatever a later attempt failed with.
        let cause = problem.clone();
        Err(problem.in_place_of(&cause, FailureOrigin::Interrupted).into())
    }

    async fn reconnect(&mut self) -> Result<(), SendError> {
        self.delay.wait().await;
        let response = match self.session.get(self.last.as_deref()).await {
            Ok(response) => response,
            Err(error) => {
                self.delay.failures += 1;
                self.session.http.options.note(format_args!("cannot resume a stream: {error}"));
                // The session cannot be reached either.
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
                // All requests in flight are lost with the session.
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
    Error::new(ErrorKind::ConnectionClosed)
        .with_message(problem)
        .from_client(FailureOrigin::Interrupted)
}

fn not_resumed(error: &Error) -> Error {
    let problem = format!("The stream was interrupted and could not be resumed: {}", error.message);
    Error::new(ErrorKind::ConnectionClosed)
        .with_message(problem)
        .in_place_of(error, FailureOrigin::Interrupted)
}
