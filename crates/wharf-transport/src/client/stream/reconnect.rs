//! Opens the connection of a stream transport, and opens it again, with a backoff, after it broke.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep_until;
use wharf_model::{Error, ErrorKind, FailureOrigin};

use crate::client::{closed_error, opening_failed};
use crate::client::{
    handshake::{HandshakeResult, open},
    reconnect_backoff::RetryTiming,
    stream::{connection::StreamConnection, connector::Connector, transport::StreamTransportState},
};

impl<D: Connector> StreamTransportState<D> {
    /// The current connection, or a new one. Opening it continues if this future is dropped, and
    /// concurrent callers share its error.
    pub(super) async fn connection(self: &Arc<Self>) -> Result<StreamConnection, Error> {
        if let Some(connection) = self.live() {
            return Ok(connection);
        }
        let state = self.clone();
        // In a task: a call that is not polled must not block the others.
        let opening = || async move { state.reopen().await };
        let opened = self.opening.run_in_task(|| self.live().map(Ok), opening).await;
        opened.unwrap_or_else(|| Err(opening_failed()))
    }

    pub(super) fn live(&self) -> Option<StreamConnection> {
        self.current.lock().clone().filter(|connection| !connection.is_dead())
    }

    /// Opens a connection, after everything on the last one has failed.
    async fn reopen(self: &Arc<Self>) -> Result<StreamConnection, Error> {
        let last = self.current.lock().take();
        if let Some(last) = last {
            last.pending_failed().await;
            if self.connector.is_process() {
                self.pending.upstream.restarting();
            }
        }
        tokio::select! {
            biased;
            () = self.closed.stopped() => Err(closed_error()),
            opened = self.open_when_due() => self.begin(opened?),
        }
    }

    /// Opens a connection when the backoff permits it.
    async fn open_when_due(&self) -> Result<HandshakeResult<D>, Error> {
        let next_attempt = self.backoff.lock().next_attempt();
        match next_attempt {
            RetryTiming::Now => {}
            RetryTiming::At(time) => sleep_until(time).await,
            RetryTiming::Refused(wait, failures) => {
                let error = Error::new(ErrorKind::TransportError).with_message(format!(
                    "{} failed {failures} times in a row, and is tried again in {:.1} s",
                    self.connector.name(),
                    wait.as_secs_f64()
                ));
                return Err(error.from_client(FailureOrigin::NotSent));
            }
        }
        let opened = open(&self.connector, &self.pending).await;
        if opened.is_err() {
            self.backoff.lock().record_end(Duration::ZERO);
        }
        opened
    }

    fn begin(self: &Arc<Self>, opened: HandshakeResult<D>) -> Result<StreamConnection, Error> {
        let HandshakeResult { parts, codec, about } = opened;
        self.pending.opened(codec.clone(), about);
        let (pending, state) = (self.pending.clone(), Arc::downgrade(self));
        let on_end = move |lived| {
            if let Some(state) = state.upgrade() {
                state.backoff.lock().record_end(lived);
            }
        };
        let connection =
            StreamConnection::start(pending, self.connector.name(), parts, codec, on_end);
        self.repeat_level(&connection);
        *self.current.lock() = Some(connection.clone());
        if !connection.is_dead() {
            self.pending.upstream.up();
        }
        // A concurrent `close` found no connection to close.
        if self.closed.is_stopped() {
            connection.close();
        }
        Ok(connection)
    }

    /// Sets the log level on a new connection.
    fn repeat_level(&self, connection: &StreamConnection) {
        let Some(level) = *self.level.lock() else { return };
        let mut message = Vec::new();
        if connection.codec().set_log_level(level, &self.pending.next_id(), &mut message) {
            connection.send_soon(message);
        }
    }
}
