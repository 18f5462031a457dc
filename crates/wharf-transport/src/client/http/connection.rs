//! An open connection over HTTP, and its background stream.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::oneshot,
    task::AbortHandle,
    time::{Instant, timeout},
};
use wharf_model::Error;

use crate::client::http::{
    handshake::{DetectedMode, HttpHandshakeResult},
    response::{MediaKind, SseStream},
    resume::{ResumableStream, StreamKind},
    send::HttpSender,
    session::{HttpSession, SendError, closed},
};
use crate::{client::pending::PendingRequests, task_set::TaskSet};

/// Timeout of the last messages and of the DELETE on close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time that the first call waits for the response to the GET stream: some servers send none until
/// their first event.
const GET_STREAM_WAIT: Duration = Duration::from_millis(500);

/// The message exchange pattern over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionMode {
    /// Each request is independent.
    Stateless,
    /// Requests belong to a session, if the server uses one, with resumable streams.
    Session,
    /// HTTP+SSE of 2024-11-05.
    Events,
}

/// An open connection. Dropping it ends its background stream.
pub(super) struct HttpConnection {
    pub(super) kind: ConnectionMode,
    pub(super) session: Arc<HttpSession>,
    pub(super) tasks: Arc<TaskSet>,
    reader: Option<AbortHandle>,
}

impl HttpConnection {
    /// Creates the connection after a handshake.
    pub(super) async fn begin(
        http: &Arc<HttpSender>,
        pending: &Arc<PendingRequests>,
        opened: HttpHandshakeResult,
    ) -> HttpConnection {
        let HttpHandshakeResult { codec, about, then, mode } = opened;
        let (kind, to, session, stream) = match mode {
            DetectedMode::Stateless => (ConnectionMode::Stateless, http.url.clone(), None, None),
            DetectedMode::Session(session) => {
                (ConnectionMode::Session, http.url.clone(), session, None)
            }
            DetectedMode::Events(stream, to) => (ConnectionMode::Events, to, None, Some(stream)),
        };
        let session =
            Arc::new(HttpSession::new(http.clone(), pending.clone(), codec.clone(), to, session));
        let tasks = Arc::new(TaskSet::default());
        // Created first, so that the session is ended if this future is dropped later.
        let mut connection = HttpConnection { kind, session, tasks, reader: None };
        if let Some(message) = then
            && let Err(send_error) =
                connection.session.notify(message, "notifications/initialized").await
        {
            // A server that insists on it rejects the first call.
            let error = send_error.into_error();
            http.options
                .note(format_args!("the server rejected notifications/initialized: {error}"));
        }
        pending.opened(codec, about);
        let (answered, is_answered) = oneshot::channel();
        let (its_session, its_tasks) = (connection.session.clone(), connection.tasks.clone());
        let reader = match (kind, stream, answered) {
            (ConnectionMode::Stateless, ..) => None,
            (_, Some(stream), _) => Some(tokio::spawn(read(its_session, its_tasks, stream))),
            (_, None, answered) => {
                Some(tokio::spawn(read_get_stream(its_session, its_tasks, answered)))
            }
        };
        connection.reader = reader.map(|it| it.abort_handle());
        // Before the GET stream is open, a server may not be able to send requests.
        let _ = timeout(GET_STREAM_WAIT, is_answered).await;
        connection
    }

    /// Returns whether the background stream is being read.
    pub(super) fn is_reading(&self) -> bool {
        self.reader.as_ref().is_some_and(|it| !it.is_finished())
    }

    /// Closes the connection within a short timeout.
    pub(super) async fn end(&self, error: &Error) {
        self.session.end(error);
        self.tasks.finish(Instant::now() + CLOSE_TIMEOUT).await;
        if self.session.has_session() {
            let ended = async {
                // A server may refuse DELETE.
                if let Ok(response) = self.session.delete().await {
                    response.drain().await;
                }
            };
            let _ = timeout(CLOSE_TIMEOUT, ended).await;
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
        // Ends the session in the background, so that the server can free it.
        if self.session.has_session() && !self.session.is_gone() {
            let session = self.session.clone();
            self.session.detach(async move {
                let _ = timeout(CLOSE_TIMEOUT, session.delete()).await;
            });
        }
    }
}

/// Reads the GET stream of a session, if the server offers one.
async fn read_get_stream(
    session: Arc<HttpSession>,
    tasks: Arc<TaskSet>,
    answered: oneshot::Sender<()>,
) {
    let response = session.get(None).await;
    let _ = answered.send(());
    let stream = match response {
        Ok(response) if response.status.is_success() && response.media() == MediaKind::Events => {
            response.events(session.http.options.limits.message)
        }
        // Most servers offer no GET stream.
        _ => return,
    };
    let mut stream = ResumableStream::new(session.clone(), StreamKind::Get, stream);
    loop {
        match stream.next().await {
            Ok(event) => session.receive_event(&tasks, event, None).await,
            Err(SendError::Gone(error)) => return session.end(&error),
            Err(SendError::Failed(error)) => {
                session.http.options.note(format_args!("the GET stream ended: {error}"));
                // Subscriptions would wait for notifications that cannot arrive. Ending the session
                // makes them reconnect, unless a call is in flight.
                if session.pending.has_only_listens() {
                    session.end(&error);
                }
                return;
            }
        }
    }
}

/// Reads the SSE stream of an HTTP+SSE server.
async fn read(session: Arc<HttpSession>, tasks: Arc<TaskSet>, mut stream: Box<SseStream>) {
    let error = loop {
        match stream.next().await {
            Ok(Some(event)) => session.receive_event(&tasks, event, None).await,
            Ok(None) => break closed("The server closed the SSE stream that carries its replies"),
            Err(error) => break error,
        }
    };
    session.http.options.note(&error);
    session.end(&error);
}
