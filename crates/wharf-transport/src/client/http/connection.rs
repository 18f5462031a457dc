//! An open conversation.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::oneshot,
    task::AbortHandle,
    time::{Instant, timeout},
};
use wharf_model::Error;

use crate::client::http::{
    handshake::{Opened, Speech},
    response::{EventStream, Media},
    resume::{Resumed, Stream},
    send::Http,
    session::{Miss, Voice, closed},
};
use crate::{client::pending::Desk, task_set::TaskSet};

/// How long the last words may take.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long the first call waits for the answer to the stream: some servers give none until they have an event.
const OWN_STREAM: Duration = Duration::from_millis(500);

/// How messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Each request stands alone.
    Modern,
    /// Requests belong to a session, if the server wants one, with streams that can be resumed.
    Session,
    /// HTTP+SSE of 2024-11-05.
    Events,
}

/// An open conversation. Dropping it ends what it does in the background.
pub(super) struct Way {
    pub(super) kind: Kind,
    pub(super) voice: Arc<Voice>,
    pub(super) tasks: Arc<TaskSet>,
    reader: Option<AbortHandle>,
}

impl Way {
    /// Takes up the conversation that was just opened.
    pub(super) async fn begin(http: &Arc<Http>, desk: &Arc<Desk>, opened: Opened) -> Way {
        let Opened { talk, about, then, speech } = opened;
        let (kind, to, session, stream) = match speech {
            Speech::Modern => (Kind::Modern, http.place.clone(), None, None),
            Speech::Session(session) => (Kind::Session, http.place.clone(), session, None),
            Speech::Events(stream, to) => (Kind::Events, to, None, Some(stream)),
        };
        let voice = Arc::new(Voice::new(http.clone(), desk.clone(), talk.clone(), to, session));
        let tasks = Arc::new(TaskSet::default());
        // Made first: if whoever opens it gives up from here on, the session is ended.
        let mut way = Way { kind, voice, tasks, reader: None };
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
            (Kind::Modern, ..) => None,
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

impl Drop for Way {
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
async fn read_own(voice: Arc<Voice>, tasks: Arc<TaskSet>, answered: oneshot::Sender<()>) {
    let answer = voice.get(None).await;
    let _ = answered.send(());
    let stream = match answer {
        Ok(answer) if answer.status.is_success() && answer.media() == Media::Events => {
            answer.events(voice.http.options.limits.message)
        }
        // Most servers have nothing to say by themselves.
        _ => return,
    };
    let mut stream = Resumed::new(voice.clone(), Stream::Own, stream);
    loop {
        match stream.next().await {
            Ok(event) => voice.overhear(&tasks, event, None).await,
            Err(Miss::Gone(error)) => return voice.leave(&error),
            Err(Miss::Failed(error)) => {
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
async fn read(voice: Arc<Voice>, tasks: Arc<TaskSet>, mut stream: Box<EventStream>) {
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
