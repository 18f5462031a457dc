//! Sends one request and receives its reply.

use std::sync::Arc;

use bytestring::ByteString;
use wharf_model::{Error, ErrorKind, FailureOrigin};
use wharf_wire::CallId;

use crate::client::http::{
    connection::{ConnectionMode, HttpConnection},
    response::{MediaKind, ServerResponse},
    resume::{ResumableStream, StreamKind},
    session::{HttpSession, OutgoingMessage, SendError, unexpected},
};
use crate::{client::pending::PendingReply, task_set::TaskSet};

/// Sends a request and waits for its reply: the result as JSON text.
pub(super) async fn send_request(
    connection: &HttpConnection,
    outgoing: OutgoingMessage,
    mut pending_reply: PendingReply,
) -> Result<ByteString, SendError> {
    let mut cancelling = CancelOnDrop::new(connection, &pending_reply.id);
    let replied = match connection.kind {
        ConnectionMode::Stateless | ConnectionMode::Session => {
            reply(connection, outgoing, &mut pending_reply).await
        }
        ConnectionMode::Events => {
            reply_on_sse_stream(connection, outgoing, &mut pending_reply).await
        }
    };
    cancelling.id = None;
    replied
}

async fn reply(
    connection: &HttpConnection,
    outgoing: OutgoingMessage,
    pending_reply: &mut PendingReply,
) -> Result<ByteString, SendError> {
    let response = connection.session.post(outgoing).await?;
    if !response.status.is_success() {
        return Err(connection.session.error_for(response).await);
    }
    match response.media() {
        MediaKind::Json => {
            let body = response.read_all(connection.session.http.options.limits.message).await?;
            let heard =
                connection.session.receive(&connection.tasks, body, Some(&pending_reply.id)).await;
            heard.map_err(|error| not_json_rpc(connection, &error))?;
            Ok(ready(pending_reply).await?)
        }
        MediaKind::Events => reply_from_stream(connection, response, pending_reply).await,
        // The server may send the reply on its GET stream.
        MediaKind::Other if response.status.as_u16() == 202 && connection.is_reading() => {
            response.drain().await;
            Ok(pending_reply.wait().await?)
        }
        MediaKind::Other => Err(unexpected(response, &connection.session.to).await.into()),
    }
}

/// Receives the events of a reply stream until the reply arrives, on this or another stream.
async fn reply_from_stream(
    connection: &HttpConnection,
    response: ServerResponse,
    pending_reply: &mut PendingReply,
) -> Result<ByteString, SendError> {
    let kind = if connection.kind == ConnectionMode::Stateless {
        StreamKind::Once
    } else {
        StreamKind::Reply
    };
    let stream = response.events(connection.session.http.options.limits.message);
    let mut stream = ResumableStream::new(connection.session.clone(), kind, stream);
    loop {
        let event = tokio::select! {
            biased;
            reply = pending_reply.wait() => {
                connection.session.detach(stream.drain());
                return Ok(reply?);
            }
            // The server has received the request, so it is not sent again.
            event = stream.next() => event.map_err(|send_error| SendError::Failed(send_error.into_error()))?,
        };
        connection.session.receive_event(&connection.tasks, event, Some(&pending_reply.id)).await;
    }
}

/// Waits for the reply to a message of HTTP+SSE, which arrives on the open SSE stream.
async fn reply_on_sse_stream(
    connection: &HttpConnection,
    outgoing: OutgoingMessage,
    pending_reply: &mut PendingReply,
) -> Result<ByteString, SendError> {
    let sending = async {
        let response = connection.session.post(outgoing).await?;
        if !response.status.is_success() {
            return Err(connection.session.error_for(response).await);
        }
        response.drain().await;
        Ok(())
    };
    tokio::select! {
        biased;
        reply = pending_reply.wait() => return Ok(reply?),
        sent = sending => sent?,
    }
    Ok(pending_reply.wait().await?)
}

fn not_json_rpc(connection: &HttpConnection, error: &Error) -> Error {
    let problem = format!(
        "{} returned something that is not a JSON-RPC message: {}",
        connection.session.to, error.message
    );
    Error::new(ErrorKind::TransportError)
        .with_message(problem)
        .in_place_of(error, FailureOrigin::Protocol)
}

/// Returns the reply, which must have arrived.
async fn ready(pending_reply: &mut PendingReply) -> Result<ByteString, Error> {
    tokio::select! {
        biased;
        reply = pending_reply.wait() => reply,
        () = std::future::ready(()) => {
            let problem = "The server's response contains no reply to the request";
            let error = Error::new(ErrorKind::TransportError).with_message(problem);
            Err(error.from_client(FailureOrigin::Protocol))
        }
    }
}

/// Sends `notifications/cancelled` to a legacy server when the caller drops its request: closing
/// the connection does not cancel it there.
struct CancelOnDrop {
    session: Arc<HttpSession>,
    tasks: Arc<TaskSet>,
    id: Option<CallId>,
}

impl CancelOnDrop {
    fn new(connection: &HttpConnection, id: &CallId) -> CancelOnDrop {
        let id = (connection.kind != ConnectionMode::Stateless).then(|| id.clone());
        CancelOnDrop { session: connection.session.clone(), tasks: connection.tasks.clone(), id }
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let session = self.session.clone();
        self.session.spawn(&self.tasks, async move {
            let mut message = Vec::new();
            session.codec.cancelled(&id, "The caller dropped the request", &mut message);
            let _ = session.notify(message, "notifications/cancelled").await;
        });
    }
}
