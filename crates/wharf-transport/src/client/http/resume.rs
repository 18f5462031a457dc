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
    response::{SseStream, MediaKind},
    session::{SendError, HttpSession},
};

/// When to come back if the server does not say.
const RETRY: Duration = Duration::from_secs(1);
/// However little the server says: a broken one must not keep us busy.
const SOONEST: Duration = Duration::from_millis(50);
/// However often it was in vain.
const LATEST: Duration = Duration::from_secs(60);
/// A stream that lasted this long was a good one, even if nothing came.
const GOOD: Duration = Duration::from_secs(1);
/// How long the end of a stream is waited for once the reply is there.
const SPENDING: Duration = Duration::from_secs(1);
/// The longest pause of our own choice: whoever follows a server wants to know that it is gone.
const LONG: Duration = Duration::from_secs(5);
/// How often in a row a stream is taken up in vain.
const ATTEMPTS: u32 = 8;

/// When to try again.
#[derive(Debug, Default)]
pub(super) struct ReconnectDelay {
    pub(super) retry: Option<Duration>,
    /// How often in a row it was in vain.
    pub(super) in_vain: u32,
}

impl ReconnectDelay {
    /// What the server asked for, longer each time it was in vain, and not the same for everybody.
    pub(super) fn length(&self) -> Duration {
        let base = self.retry.unwrap_or(RETRY).clamp(SOONEST, LATEST);
        let longer = base.saturating_mul(1 << self.in_vain.min(10)).min(base.max(LONG));
        let random = RandomState::new().hash_one(self.in_vain) % 1000;
        longer + longer.mul_f64(random as f64 / 10_000.0)
    }

    pub(super) async fn wait(&self) {
        sleep(self.length()).await;
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
    Own,
}

/// A stream of a legacy server.
pub(super) struct ResumableStream {
    voice: Arc<HttpSession>,
    kind: StreamKind,
    stream: Option<SseStream>,
    /// When the stream was opened.
    since: Instant,
    last: Option<String>,
    pause: ReconnectDelay,
}

impl ResumableStream {
    pub(super) fn new(voice: Arc<HttpSession>, kind: StreamKind, stream: SseStream) -> ResumableStream {
        let (stream, since) = (Some(stream), Instant::now());
        ResumableStream { voice, kind, stream, since, last: None, pause: ReconnectDelay::default() }
    }

    /// Reads what is left of the stream, if it ends soon, so that its connection can be used again.
    pub(super) async fn spend(mut self) {
        if let Some(stream) = &mut self.stream {
            let rest = async { while let Ok(Some(_)) = stream.next().await {} };
            let _ = timeout(SPENDING, rest).await;
        }
    }

    /// The next event. It ends only with the reason why nothing more can come: `Gone` if nothing
    /// of the whole conversation can.
    pub(super) async fn next(&mut self) -> Result<ServerEvent, SendError> {
        loop {
            let Some(stream) = &mut self.stream else {
                self.take_up().await?;
                continue;
            };
            let next = stream.next().await;
            if let Some(last) = stream.last_id() {
                self.last = (!last.is_empty()).then(|| last.to_owned());
            }
            self.pause.retry = stream.retry().or(self.pause.retry);
            let problem = match next {
                Ok(Some(event)) => {
                    self.pause.in_vain = 0;
                    return Ok(event);
                }
                Err(error) if error.kind.is_content_too_large() => return Err(error.into()),
                Err(error) => error,
                Ok(None) => ended(),
            };
            let was_alive = stream.was_alive() || self.since.elapsed() >= GOOD;
            self.pause.in_vain = if was_alive { 0 } else { self.pause.in_vain + 1 };
            self.stream = None;
            self.may_go_on(problem)?;
        }
    }

    fn may_go_on(&self, problem: Error) -> Result<(), SendError> {
        let can = match self.kind {
            StreamKind::Once => false,
            StreamKind::Reply => self.last.is_some(),
            StreamKind::Own => true,
        };
        if can && self.pause.in_vain <= ATTEMPTS { Ok(()) } else { Err(problem.into()) }
    }

    async fn take_up(&mut self) -> Result<(), SendError> {
        self.pause.wait().await;
        let answer = match self.voice.get(self.last.as_deref()).await {
            Ok(answer) => answer,
            Err(error) => {
                self.pause.in_vain += 1;
                self.voice.http.options.note(format_args!("cannot go on with a stream: {error}"));
                // Nothing else of this conversation can be reached either.
                return self.may_go_on(error).map_err(|miss| SendError::Gone(miss.into_error()));
            }
        };
        if answer.status.is_success() && answer.media() == MediaKind::Events {
            self.stream = Some(answer.events(self.voice.http.options.limits.message));
            self.since = Instant::now();
            return Ok(());
        }
        // Some servers refuse a stream until they notice that the last one has ended.
        let passes = self.kind == StreamKind::Own
            || answer.status.is_server_error()
            || answer.status.as_u16() == 429;
        match self.voice.refused(answer).await {
            SendError::Gone(error) => {
                // Whatever was under way there is lost with it.
                self.voice.leave(&error);
                Err(SendError::Failed(cut(&error)))
            }
            SendError::Failed(error) if passes => {
                self.pause.in_vain += 1;
                self.may_go_on(cut(&error))
            }
            SendError::Failed(error) => Err(SendError::Failed(cut(&error))),
        }
    }
}

fn ended() -> Error {
    let problem = "The server ended the stream before it replied";
    Error::new(ErrorKind::ConnectionClosed).with_message(problem)
}

fn cut(error: &Error) -> Error {
    let problem = format!("The stream broke off and could not be resumed: {}", error.message);
    Error::new(ErrorKind::ConnectionClosed).with_message(problem)
}
