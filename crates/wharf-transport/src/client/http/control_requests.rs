//! Sends the requests of the client itself: `ping`, `logging/setLevel`, and its notifications.

use std::sync::Arc;

use wharf_client::ControlRequest;
use wharf_model::{CustomNotification, Error, LogLevel};
use wharf_wire::{CallId, ClientCodec};

use crate::client::http::{
    call::send_request,
    connection::HttpConnection,
    session::{OutgoingMessage, SendError, closed},
    transport::HttpTransportState,
};
use crate::client::pending::PendingKind;

impl HttpTransportState {
    pub(super) async fn run(self: &Arc<Self>, control: ControlRequest) -> Result<(), Error> {
        match control {
            ControlRequest::Ping => self.ping().await,
            ControlRequest::LogLevel(level) => self.set_level(level).await,
            ControlRequest::RootsChanged => self.roots_changed().await,
            ControlRequest::Notify(notification) => self.notify(&notification).await,
            _ => Ok(()),
        }
    }

    async fn notify(self: &Arc<Self>, notification: &CustomNotification) -> Result<(), Error> {
        let connection = self.connection().await?;
        let mut message = Vec::new();
        connection.session.codec.custom_notification(notification, &mut message)?;
        connection.session.notify(message, &notification.method).await.map_err(
            |error| match error {
                SendError::Gone(error) => {
                    connection.session.end(&error);
                    closed(&error.message)
                }
                SendError::Failed(error) => error,
            },
        )
    }

    async fn ping(self: &Arc<Self>) -> Result<(), Error> {
        let write = |codec: &ClientCodec, id: &CallId| {
            let mut message = Vec::new();
            codec.ping(id, &mut message);
            Ok(OutgoingMessage::new(message, codec.headers(codec.ping_method(), None, None)))
        };
        self.send_with_reopen(None, PendingKind::ControlRequest, write).await.map(drop)
    }

    /// Sets the log level on servers that store it (`logging/setLevel`).
    pub(super) async fn send_level(
        &self,
        connection: &HttpConnection,
        level: LogLevel,
    ) -> Result<(), SendError> {
        let (id, mut message) = (self.pending.next_id(), Vec::new());
        if !connection.session.codec.set_log_level(level, &id, &mut message) {
            return Ok(());
        }
        let pending_reply = self.pending.register(id, None, PendingKind::ControlRequest)?;
        let headers = connection.session.codec.headers("logging/setLevel", None, None);
        self.until_closed(send_request(
            connection,
            OutgoingMessage::new(message, headers),
            pending_reply,
        ))
        .await
        .map(drop)
    }

    async fn set_level(self: &Arc<Self>, level: LogLevel) -> Result<(), Error> {
        let connection = self.connection().await?;
        *self.level.lock() = Some(level);
        match self.send_level(&connection, level).await {
            Ok(()) => Ok(()),
            Err(SendError::Gone(error)) => {
                connection.session.end(&error);
                // The next session gets the level when it is opened.
                self.connection().await.map(drop)
            }
            Err(SendError::Failed(error)) => Err(error),
        }
    }

    async fn roots_changed(self: &Arc<Self>) -> Result<(), Error> {
        let connection = self.connection().await?;
        let mut message = Vec::new();
        if !connection.session.codec.roots_changed(&mut message) {
            return Ok(());
        }
        let method = "notifications/roots/list_changed";
        match connection.session.notify(message, method).await {
            Ok(()) => Ok(()),
            Err(SendError::Gone(error)) => {
                // The next session starts with the current roots.
                connection.session.end(&error);
                Ok(())
            }
            Err(SendError::Failed(error)) => Err(error),
        }
    }
}
