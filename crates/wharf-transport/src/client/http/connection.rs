//! An open conversation.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::oneshot,
    task::AbortHandle,
    time::{Instant, timeout},
};
use wharf_model::Error;

use crate::client::http::{
    handshake::{HttpHandshakeResult, DetectedMode},
    response::{SseStream, MediaKind},
    resume::{ResumableStream, StreamKind},
    send::HttpSender,
    session::{SendError, HttpSession, closed},
};
use crate::{client::pending::PendingRequests, task_set::Tasks};

/// How long the last words may take.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long the first call waits for the answer to the stream: some servers give none until they have an event.
const OWN_STREAM: Duration = Duration::from_millis(500);

/// How messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionMode {
    /// Each request stands alone.
    Modern,
    /// Requests belong to a session, if the server wants one, with streams that can be resumed.
    Session,
    /// HTTP+SSE of 2024-11-05.
    Events,
}

/// An open conversation. Dropping it ends what it does in the background.
pub(super) struct HttpConnection {
    pub(super) kind: ConnectionMode,
    pub(super) voice: Arc<HttpSession>,
    pub(super) tasks: Arc<Tasks>,
    reader: Option<AbortHandle>,
}

impl HttpConnection {
    /// Takes up the conversation that was just opened.
    pub(super) async fn begin(http: &Arc<HttpSender>, desk: &Arc<PendingRequests>, opened: HttpHandshakeResult) -> HttpConnection {
        let HttpHandshakeResult { talk, about, then, speech } = opened;
        let (kind, to, session, stream) = match speech {
            DetectedMode::Modern => (ConnectionMode::Modern, http.place.clone(), None, None),
            DetectedMode::Session(session) => (ConnectionMode::Session, http.place.clone(), session, None),
            DetectedMode::Events(stream, to) => (ConnectionMode::Events, to, None, Some(stream)),
        };
        let voice = Arc::new(HttpSession::new(http.clone(), desk.clone(), talk.clone(), to, session));
        let tasks = Arc::new(Tasks::default());
        // Made first: if whoever opens it gives up from here on, the session is ended.
        let mut way = HttpConnection { kind, voice, tasks, reader: None };
        if let Some(message) = then
            && let Err(miss) = way.voice.tell(message, "notifications/initialized").await
        {
            // A server that minds will say so when it is called.
            let error = miss.into_error();
            http.options
                .note(format_args!("the server refused notifications/initialized: {error}"));
        }
        desk.opened(talk, about);
        let (answered, is_answered) = oneshot::channel();
        let (its_voice, its_tasks) = (way.voice.clone(), way.tasks.clone());
        let reader = match (kind, stream, answered) {
            (ConnectionMode::Modern, ..) => None,
            (_, Some(stream), _) => Some(tokio::spawn(read(its_voice, its_tasks, stream))),
            (_, None, answered) => Some(tokio::spawn(read_own(its_voice, its_tasks, answered))),
        };
        way.reader = reader.map(|it| it.abort_handle());
        // A server that has a question before the stream is there may have nowhere to put it.
        let _ = timeout(OWN_STREAM, is_answered).await;
        way
    }

    /// Whether what the server says by itself is heard.
    pub(super) fn is_reading(&self) -> bool {
        self.reader.as_ref().is_some_and(|it| !it.is_finished())
    }

    /// Says goodbye, briefly.
    pub(super) async fn end(&self, error: &Error) {
        self.voice.leave(error);
        self.tasks.finish(Instant::now() + FAREWELL).await;
        if self.voice.has_session() {
            let ended = async {
                // A server may keep its sessions to itself, whatever we say.
                if let Ok(answer) = self.voice.delete().await {
                    answer.spend().await;
                }
            };
            let _ = timeout(FAREWELL, ended).await;
        }
        if let Some(reader) = &self.reader {
            reader.abort();
        }
    }
}

impl Drop for HttpConnection {
    fn drop(&mut self) {
        if let Some(reader) = &self.reader {
            reader.abort();
        }
        // Nobody is left to wait for it, but the server need not keep what nobody comes back to.
        if self.voice.has_session() && !self.voice.is_gone() {
            let voice = self.voice.clone();
            self.voice.detach(async move {
                let _ = timeout(FAREWELL, voice.delete()).await;
            });
        }
    }
}

/// Hears what the server of a session says by itself, if it wants to.
async fn read_own(voice: Arc<HttpSession>, tasks: Arc<Tasks>, answered: oneshot::Sender<()>) {
    let answer = voice.get(None).await;
    let _ = answered.send(());
    let stream = match answer {
        Ok(answer) if answer.status.is_success() && answer.media() == MediaKind::Events => {
            answer.events(voice.http.options.limits.message)
        }
        // Most servers have nothing to say by themselves.
        _ => return,
    };
    let mut stream = ResumableStream::new(voice.clone(), StreamKind::Own, stream);
    loop {
        match stream.next().await {
            Ok(event) => voice.overhear(&tasks, event, None).await,
            Err(SendError::Gone(error)) => return voice.leave(&error),
            Err(SendError::Failed(error)) => {
                voice.http.options.note(format_args!("the server's own stream ended: {error}"));
                // A listener would wait for ever for what cannot come: it begins anew elsewhere,
                // unless that would end a call.
                if voice.desk.only_listens() {
                    voice.leave(&error);
                }
                return;
            }
        }
    }
}

/// Hears everything that a server of HTTP+SSE says.
async fn read(voice: Arc<HttpSession>, tasks: Arc<Tasks>, mut stream: Box<SseStream>) {
    let error = loop {
        match stream.next().await {
            Ok(Some(event)) => voice.overhear(&tasks, event, None).await,
            Ok(None) => break closed("The server ended the stream that its replies come on"),
            Err(error) => break error,
        }
    };
    voice.http.options.note(&error);
    voice.leave(&error);
}
