//! Opens the session of an HTTP transport, opens it again when the server has lost it (404), and sends the request that
//! found it lost once more.

use std::{pin::pin, sync::Arc};

use bytestring::ByteString;
use tokio::time::timeout;
use wharf_model::{Error, Outbox};
use wharf_wire::{CallId, ClientCodec};

use crate::client::http::{
    call::send_request,
    connection::HttpConnection,
    handshake::open,
    session::{OutgoingMessage, SendError},
    transport::HttpTransportState,
};
use crate::client::{closed_error, opening_failed, pending::PendingKind};

impl HttpTransportState {
    /// The connection, opened if necessary. Concurrent callers share one handshake and its error.
    pub(super) async fn connection(self: &Arc<Self>) -> Result<Arc<HttpConnection>, Error> {
        self.connection_for(None).await
    }

    /// The connection for a call, whose deadline is paused while the user logs in for the
    /// handshake.
    pub(super) async fn connection_for(
        self: &Arc<Self>,
        outbox: Option<&Outbox>,
    ) -> Result<Arc<HttpConnection>, Error> {
        if let Some(connection) = self.current() {
            return Ok(connection);
        }
        let state = self.clone();
        // In a task: a call that is not polled must not block the handshake for others.
        let reopening = || async move { state.reopen().await };
        let mut opening = pin!(self.opening.run_in_task(|| self.opened(), reopening));
        let mut login_state = self.http.login_state();
        loop {
            let is_login = *login_state.borrow_and_update();
            let _paused = outbox.filter(|_| is_login).map(Outbox::pause);
            tokio::select! {
                opened = &mut opening => {
                    return opened.unwrap_or_else(|| Err(opening_failed()));
                }
                _ = login_state.changed() => {}
            }
        }
    }

    pub(super) async fn open(&self) -> Result<Arc<HttpConnection>, Error> {
        self.opening.run(|| self.opened(), self.reopen()).await
    }

    /// The connection that another call has opened, or the error that nothing is opened any more.
    fn opened(&self) -> Option<Result<Arc<HttpConnection>, Error>> {
        match self.current() {
            Some(connection) => Some(Ok(connection)),
            None => self.closing.is_stopped().then(|| Err(closed_error())),
        }
    }

    async fn reopen(&self) -> Result<Arc<HttpConnection>, Error> {
        let opening = async {
            let opened = open(&self.http, &self.key).await?;
            Ok(Arc::new(HttpConnection::begin(&self.http, &self.pending, opened).await))
        };
        let connection = tokio::select! {
            biased;
            () = self.closing.stopped() => Err(closed_error()),
            opened = opening => opened,
        }?;
        *self.current_connection.lock() = Some(connection.clone());
        self.pending.upstream.up();
        let level = *self.level.lock();
        if let Some(level) = level {
            // If this fails, only log messages are missing.
            let _ = timeout(self.http.options.handshake, self.send_level(&connection, level)).await;
        }
        Ok(connection)
    }

    pub(super) fn current(&self) -> Option<Arc<HttpConnection>> {
        self.current_connection.lock().clone().filter(|connection| !connection.session.is_gone())
    }

    /// Sends a request and waits for its reply. If the server has lost the session, opens a new one
    /// and sends the request again, once.
    pub(super) async fn send_with_reopen(
        self: &Arc<Self>,
        outbox: Option<&Outbox>,
        kind: PendingKind,
        write: impl Fn(&ClientCodec, &CallId) -> Result<OutgoingMessage, Error>,
    ) -> Result<(ClientCodec, ByteString), Error> {
        let mut again = false;
        loop {
            let connection = self.connection_for(outbox).await?;
            let codec = connection.session.codec.clone();
            let id = self.pending.next_id();
            let outgoing = OutgoingMessage { call: outbox.cloned(), ..write(&codec, &id)? };
            let pending_reply = self.pending.register(id, outbox, kind.clone())?;
            match self.until_closed(send_request(&connection, outgoing, pending_reply)).await {
                Ok(reply) => return Ok((codec, reply)),
                Err(SendError::Gone(error)) if !again => {
                    self.http.options.note(format_args!("opening a new session: {error}"));
                    connection.session.end(&error);
                    again = true;
                }
                Err(send_error) => return Err(send_error.into_error()),
            }
        }
    }
}
