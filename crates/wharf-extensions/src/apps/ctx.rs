//! Support for apps of the client of a call.

use wharf_model::JsonObject;
use wharf_server::Ctx;

use crate::apps::{EXTENSION, MIME_TYPE};

/// Support for apps of the client of a call; in the prelude of Wharf.
pub trait CtxAppExt {
    /// Returns whether the client shows apps. It decides that anew for each request, so choose the text of a result, not
    /// the tools of a server, by it.
    ///
    /// ```
    /// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod apps { pub use wharf_extensions::apps::*; } }
    /// use wharf::{Ctx, Tool, apps::{CtxAppExt as _, ToolAppExt as _}};
    ///
    /// async fn weather(ctx: Ctx) -> &'static str {
    ///     match ctx.client_has_apps() {
    ///         true => "Sunny. The user sees the details.",
    ///         false => "Sunny, 21 degrees, wind from the west, no rain until Friday.",
    ///     }
    /// }
    ///
    /// let tool = Tool::new("weather", weather).app("ui://weather");
    /// # let _ = tool;
    /// ```
    fn client_has_apps(&self) -> bool;
}

impl CtxAppExt for Ctx {
    fn client_has_apps(&self) -> bool {
        let client = self.client();
        let capabilities = &client.capabilities;
        // Clients of early revisions, whose capabilities have no extensions, declare it as experimental.
        shows_apps(&capabilities.extensions) || shows_apps(&capabilities.experimental)
    }
}

fn shows_apps(declared: &JsonObject) -> bool {
    let settings = declared.get(EXTENSION).unwrap_or_default();
    let mut types = settings["mimeTypes"].as_array().into_iter().flatten();
    types
        .any(|it| it.as_str().is_some_and(|it| it.replace(' ', "").eq_ignore_ascii_case(MIME_TYPE)))
}
