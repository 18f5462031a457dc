//! Sends one request and receives its reply.

use std::sync::Arc;

use bytestring::ByteString;
use serde_json::{Value, value::RawValue};
use wharf_model::{Error, ErrorKind, FailureOrigin, Method, Outbox, Outcome, Reply, Request};
use wharf_wire::{CallId, ClientCodec};

use crate::client::http::{
    cancel_on_drop::CancelOnDrop,
    connection::{ConnectionMode, HttpConnection},
    response::{MediaKind, ServerResponse},
    resume::{ResumableStream, StreamKind},
    session::{OutgoingMessage, SendError, unexpected},
    transport::HttpTransportState,
};
use crate::client::pending::{PendingKind, PendingReply};

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
    cancelling.disarm();
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

impl HttpTransportState {
    pub(super) async fn call(
        self: &Arc<Self>,
        request: &Request,
        outbox: &Outbox,
    ) -> Result<Outcome, Error> {
        let info = request.method.info();
        // Without `server/discover`, servers describe themselves only in the handshake.
        if request.method == Method::Discover
            && !self.connection().await?.session.codec.has(Method::Discover)
        {
            let discovery = self.pending.about().discovery.clone();
            return Ok(Reply::Discover(Box::new(discovery)).into());
        }
        let kind = PendingKind::Call { asks: info.may_suspend };
        let write = |codec: &ClientCodec, id: &CallId| {
            let mut message = Vec::new();
            codec.call(request, id, &mut message)?;
            let target = info.mirrored.map(|_| request.target());
            let name = request.method_name();
            let name = codec.name(request.method).unwrap_or(&name);
            let headers = codec.headers(name, target.as_deref(), request.mirrored.as_ref());
            Ok(OutgoingMessage::new(message, headers))
        };
        let (codec, result) = self.send_with_reopen(Some(outbox), kind, write).await?;
        codec.result(request.method, &result)
    }

    pub(super) async fn request(
        self: &Arc<Self>,
        method: &str,
        params: Option<&RawValue>,
        outbox: &Outbox,
    ) -> Result<Box<RawValue>, Error> {
        let params = params.map(RawValue::get);
        let target = target(method, params);
        let write = |codec: &ClientCodec, id: &CallId| {
            let mut message = Vec::new();
            codec.request(method, params, id, &mut message)?;
            Ok(OutgoingMessage::new(message, codec.headers(method, target.as_deref(), None)))
        };
        let known = Method::from_name(method);
        let kind = PendingKind::Call { asks: known.is_none_or(|it| it.info().may_suspend) };
        let (_, result) = self.send_with_reopen(Some(outbox), kind, write).await?;
        RawValue::from_string(result.to_string()).map_err(|error| {
            let problem = format!("The result of {method} is not JSON: {error}");
            Error::new(ErrorKind::ValidationFailed)
                .with_message(problem)
                .from_client_because(FailureOrigin::Protocol, Arc::new(error))
        })
    }
}

/// The tool name, prompt name or URI of a raw request, for the `Mcp-Name` header.
fn target(method: &str, params: Option<&str>) -> Option<String> {
    let field = Method::from_name(method)?.info().mirrored?;
    let params: Value = serde_json::from_str(params?).ok()?;
    params.get(field)?.as_str().map(str::to_owned)
}
