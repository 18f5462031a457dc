//! Log messages of a call to the client (`notifications/message`), above the level that it requested.

use std::sync::Arc;

use serde::Serialize;
use serde_json::value::to_raw_value;
use wharf_model::{LogLevel, Notification};

use crate::context::Ctx;

/// # Logs
impl Ctx {
    /// Returns the same context with the logger `name` for its log messages.
    #[must_use]
    pub fn logger(&self, name: impl Into<Arc<str>>) -> Ctx {
        Ctx { inner: self.inner.clone(), logger: Some(name.into()) }
    }

    /// Sends a log message to the client, if the client requested this level.
    ///
    /// The client reads the message: do not include secrets or details of the server.
    pub async fn log(&self, level: LogLevel, data: impl Serialize) {
        let outbox = self.outbox();
        let wanted = self.request().and_then(|request| request.log_level);
        let declared = || self.server().catalog.load().discovery.capabilities.logging;
        if wanted.is_none_or(|least| level < least) || !declared() {
            return outbox.touch();
        }
        // Wait before the message is serialized, however many futures of the handler log at once.
        outbox.wait_for_capacity().await;
        let logger = self.logger.as_deref().map(str::to_owned);
        match to_raw_value(&data) {
            Ok(data) => outbox.notify(Notification::Log { level, logger, data }),
            Err(error) => tracing::warn!(%error, "cannot serialize a log message as JSON"),
        }
        outbox.wait_for_capacity().await;
    }

    /// Logs at level `debug`: details for finding faults.
    pub async fn debug(&self, data: impl Serialize) {
        self.log(LogLevel::Debug, data).await;
    }

    /// Logs at level `info`: normal operation.
    pub async fn info(&self, data: impl Serialize) {
        self.log(LogLevel::Info, data).await;
    }

    /// Logs at level `notice`: normal but significant events.
    pub async fn notice(&self, data: impl Serialize) {
        self.log(LogLevel::Notice, data).await;
    }

    /// Logs at level `warning`: possible faults.
    pub async fn warning(&self, data: impl Serialize) {
        self.log(LogLevel::Warning, data).await;
    }

    /// Logs at level `error`: faults.
    pub async fn error(&self, data: impl Serialize) {
        self.log(LogLevel::Error, data).await;
    }
}
