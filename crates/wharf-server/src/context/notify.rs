//! Notifications of extensions during a call.

use serde::Serialize;
use wharf_model::{ClientCapability, Error, Notification};

use crate::{context::Ctx, notifications::custom};

impl Ctx {
    /// Sends a notification that an extension of the server declares to the client of this call, if the client
    /// declared the extension; otherwise nothing is sent. A call that runs as a task has no client to notify.
    ///
    /// Waits until the client has read earlier messages (back-pressure).
    ///
    /// ```
    /// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod server { pub use super::*; } }
    /// use serde_json::json;
    /// use wharf::{Ctx, Error, server::{ProtocolExtension, Router}};
    ///
    /// async fn measure(ctx: Ctx) -> Result<(), Error> {
    ///     ctx.notify("tides/measuring", json!({"buoy": 7})).await
    /// }
    ///
    /// let tides = ProtocolExtension::new("com.example/tides")
    ///     .notification("tides/measuring")
    ///     .method("tides/measure", measure);
    /// let router = Router::builder().extension(tides).build()?;
    /// # let _ = router;
    /// # Ok::<(), wharf::server::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// If no extension of the server declares it, or if `params` is not an object.
    pub async fn notify(&self, method: &str, params: impl Serialize) -> Result<(), Error> {
        let notification = custom::build(self.server(), method, &params)?;
        let outbox = self.outbox();
        if !self.can(ClientCapability::Extension(notification.extension.clone())) {
            outbox.touch();
            return Ok(());
        }
        outbox.wait_for_capacity().await;
        outbox.notify(Notification::Custom(Box::new(notification)));
        outbox.wait_for_capacity().await;
        Ok(())
    }
}
