//! One request and its reply.

use std::sync::Arc;

use bytestring::ByteString;
use wharf_model::{Error, ErrorKind};
use wharf_wire::CallId;

use crate::client::http::{
    connection::{ConnectionMode, HttpConnection},
    response::{HttpResponse, MediaKind},
    resume::{ResumableStream, StreamKind},
    session::{OutgoingMessage, SendError, HttpSession, unexpected},
};
use crate::{client::pending::PendingReply, task_set::Tasks};

/// Sends a request and waits for its reply: the JSON text of its result.
pub(super) async fn exchange(
    way: &HttpConnection,
    letter: OutgoingMessage,
    mut ticket: PendingReply,
) -> Result<ByteString, SendError> {
    let mut cancelling = CancelOnDrop::new(way, &ticket.id);
    let replied = match way.kind {
        ConnectionMode::Modern | ConnectionMode::Session => reply(way, letter, &mut ticket).await,
        ConnectionMode::Events => reply_elsewhere(way, letter, &mut ticket).await,
    };
    cancelling.id = None;
    replied
}

async fn reply(way: &HttpConnection, letter: OutgoingMessage, ticket: &mut PendingReply) -> Result<ByteString, SendError> {
    let answer = way.voice.post(letter).await?;
    if !answer.status.is_success() {
        return Err(way.voice.refused(answer).await);
    }
    match answer.media() {
        MediaKind::Json => {
            let body = answer.whole(way.voice.http.options.limits.message).await?;
            let heard = way.voice.hear(&way.tasks, body, Some(&ticket.id)).await;
            heard.map_err(|error| no_message(way, &error))?;
            Ok(ready(ticket).await?)
        }
        MediaKind::Events => follow(way, answer, ticket).await,
        // The server may have put the reply on the stream of what it says by itself.
        MediaKind::Other if answer.status.as_u16() == 202 && way.is_reading() => {
            answer.spend().await;
            Ok(ticket.wait().await?)
        }
        MediaKind::Other => Err(unexpected(answer, &way.voice.to).await.into()),
    }
}

/// Hears the events of a reply until the reply itself is there, on whichever stream it comes.
async fn follow(way: &HttpConnection, answer: HttpResponse, ticket: &mut PendingReply) -> Result<ByteString, SendError> {
    let kind = if way.kind == ConnectionMode::Modern { StreamKind::Once } else { StreamKind::Reply };
    let stream = answer.events(way.voice.http.options.limits.message);
    let mut stream = ResumableStream::new(way.voice.clone(), kind, stream);
    loop {
        let event = tokio::select! {
            biased;
            reply = ticket.wait() => {
                way.voice.detach(stream.spend());
                return Ok(reply?);
            }
            // The server knows the request, so it is not sent again.
            event = stream.next() => event.map_err(|miss| SendError::Failed(miss.into_error()))?,
        };
        way.voice.overhear(&way.tasks, event, Some(&ticket.id)).await;
    }
}

/// The reply to a message of HTTP+SSE, which comes on the stream that was there before.
async fn reply_elsewhere(
    way: &HttpConnection,
    letter: OutgoingMessage,
    ticket: &mut PendingReply,
) -> Result<ByteString, SendError> {
    let sending = async {
        let answer = way.voice.post(letter).await?;
        if !answer.status.is_success() {
            return Err(way.voice.refused(answer).await);
        }
        answer.spend().await;
        Ok(())
    };
    tokio::select! {
        biased;
        reply = ticket.wait() => return Ok(reply?),
        sent = sending => sent?,
    }
    Ok(ticket.wait().await?)
}

fn no_message(way: &HttpConnection, error: &Error) -> Error {
    let problem = format!("{} answered with what is no message: {}", way.voice.to, error.message);
    Error::new(ErrorKind::TransportError).with_message(problem)
}

/// The reply, which must be there.
async fn ready(ticket: &mut PendingReply) -> Result<ByteString, Error> {
    tokio::select! {
        biased;
        reply = ticket.wait() => reply,
        () = std::future::ready(()) => {
            let problem = "The server's answer holds no reply to the request";
            Err(Error::new(ErrorKind::TransportError).with_message(problem))
        }
    }
}

/// Tells a legacy server when nobody waits for a reply any more: that the connection ends does not.
struct CancelOnDrop {
    voice: Arc<HttpSession>,
    tasks: Arc<Tasks>,
    id: Option<CallId>,
}

impl CancelOnDrop {
    fn new(way: &HttpConnection, id: &CallId) -> CancelOnDrop {
        let id = (way.kind != ConnectionMode::Modern).then(|| id.clone());
        CancelOnDrop { voice: way.voice.clone(), tasks: way.tasks.clone(), id }
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let voice = self.voice.clone();
        self.voice.spawn(&self.tasks, async move {
            let mut message = Vec::new();
            voice.talk.cancelled(&id, "The caller no longer waits for it", &mut message);
            let _ = voice.tell(message, "notifications/cancelled").await;
        });
    }
}
