//! Sends one request over a stream connection and receives its reply.

use std::sync::Arc;

use bytestring::ByteString;
use serde_json::value::RawValue;
use wharf_model::{Error, Method, Outbox, Outcome, Reply, Request};

use crate::client::{
    pending::{PendingKind, PendingReply},
    stream::{
        cancel_on_drop::SentRequest, connection::StreamConnection, connector::Connector,
        transport::StreamTransportState,
    },
};

impl<D: Connector> StreamTransportState<D> {
    /// Sends a request and waits for its result. Dropping the future cancels the request on the
    /// server.
    pub(super) async fn send_request(
        connection: StreamConnection,
        pending_reply: PendingReply,
        message: Vec<u8>,
    ) -> Result<ByteString, Error> {
        connection.send(message).await?;
        SentRequest { connection, pending_reply }.pending_reply.wait().await
    }

    pub(super) async fn call(
        self: &Arc<Self>,
        request: Request,
        outbox: Outbox,
    ) -> Result<Outcome, Error> {
        let connection = self.connection().await?;
        let codec = connection.codec().clone();
        let method = request.method;
        // Without `server/discover`, servers describe themselves only in the handshake.
        if method == Method::Discover && !codec.has(method) {
            let discovery = self.pending.about().discovery.clone();
            return Ok(Reply::Discover(Box::new(discovery)).into());
        }
        let id = self.pending.next_id();
        let mut message = Vec::new();
        codec.call(&request, &id, &mut message)?;
        // Frees the request early: the call may take long.
        drop(request);
        let kind = PendingKind::Call { asks: method.info().may_suspend };
        let pending_reply = self.pending.register(id, Some(&outbox), kind)?;
        let result = Self::send_request(connection, pending_reply, message).await?;
        codec.result(method, &result)
    }

    pub(super) async fn request(
        self: &Arc<Self>,
        method: &str,
        params: Option<&str>,
        outbox: &Outbox,
    ) -> Result<Box<RawValue>, Error> {
        let connection = self.connection().await?;
        let id = self.pending.next_id();
        let mut message = Vec::new();
        connection.codec().request(method, params, &id, &mut message)?;
        let known = Method::from_name(method);
        let kind = PendingKind::Call { asks: known.is_none_or(|method| method.info().may_suspend) };
        let pending_reply = self.pending.register(id, Some(outbox), kind)?;
        let result = Self::send_request(connection, pending_reply, message).await?;
        RawValue::from_string(result.to_string()).map_err(Error::from)
    }
}
