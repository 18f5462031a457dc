//! Sends the requests of the client itself: `ping`, `logging/setLevel`, and the notification that roots changed.

use std::sync::Arc;

use wharf_client::ControlRequest;
use wharf_model::Error;

use crate::client::{
    pending::PendingKind,
    stream::{connector::Connector, transport::StreamTransportState},
};

impl<D: Connector> StreamTransportState<D> {
    pub(super) async fn run(self: &Arc<Self>, control: ControlRequest) -> Result<(), Error> {
        let connection = self.connection().await?;
        let (codec, id) = (connection.codec().clone(), self.pending.next_id());
        let mut message = Vec::new();
        let replies = match control {
            ControlRequest::Ping => {
                codec.ping(&id, &mut message);
                true
            }
            ControlRequest::LogLevel(level) => {
                *self.level.lock() = Some(level);
                codec.set_log_level(level, &id, &mut message)
            }
            ControlRequest::RootsChanged => {
                if codec.roots_changed(&mut message) {
                    connection.send(message).await?;
                }
                return Ok(());
            }
            ControlRequest::Notify(notification) => {
                codec.custom_notification(&notification, &mut message)?;
                return connection.send(message).await;
            }
            _ => false,
        };
        if replies {
            let pending_reply = self.pending.register(id, None, PendingKind::ControlRequest)?;
            Self::send_request(connection, pending_reply, message).await?;
        }
        Ok(())
    }
}
