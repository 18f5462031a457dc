//! Tools of apps: the page of a tool, and its callers.

use serde_json::{Map, Value};
use wharf_server::Tool;

use crate::apps::check;

/// Caller of a tool on a host that shows apps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// The model.
    Model,
    /// Pages of the same server.
    App,
}

impl Visibility {
    /// Returns the name in the specification.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Visibility::Model => "model",
            Visibility::App => "app",
        }
    }
}

/// Setters of [`Tool`] for apps; in the prelude of Wharf. `#[tool(app = "ui://…", visibility = ["app"])]` calls them.
pub trait ToolAppExt: Sized {
    /// Sets the page that hosts show for the tool: the URI of an [`App`](crate::apps::App) of the same server.
    ///
    /// ```
    /// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod apps { pub use wharf_extensions::apps::*; } }
    /// use wharf::{Tool, apps::ToolAppExt as _};
    ///
    /// let tool = Tool::new("weather", async || "sunny").app("ui://weather");
    /// let meta = tool.info().meta.as_ref().unwrap();
    /// assert_eq!(meta["ui"]["resourceUri"], "ui://weather");
    /// assert_eq!(meta["ui/resourceUri"], "ui://weather");
    /// ```
    #[must_use]
    fn app(self, uri: impl Into<String>) -> Self;

    /// Sets who may call the tool on hosts that show apps; the default is the model and pages. Hosts hide a tool without
    /// [`Visibility::Model`] from the model, and refuse calls of pages to one without [`Visibility::App`]. Clients that do
    /// not show apps ignore it, and the server does not enforce it: use scopes to protect a tool.
    ///
    /// ```
    /// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod apps { pub use wharf_extensions::apps::*; } }
    /// use wharf::{Tool, apps::{ToolAppExt as _, Visibility}};
    ///
    /// let refresh = Tool::new("refresh", async || "21.5").visibility([Visibility::App]);
    /// # let _ = refresh;
    /// ```
    #[must_use]
    fn visibility(self, callers: impl IntoIterator<Item = Visibility>) -> Self;
}

impl ToolAppExt for Tool {
    fn app(self, uri: impl Into<String>) -> Self {
        let uri = uri.into();
        // Some hosts read only the second key, which the specification deprecates.
        with_ui(self, "resourceUri", uri.clone().into())
            .meta("ui/resourceUri", uri)
            .extension(check::extension)
    }

    fn visibility(self, callers: impl IntoIterator<Item = Visibility>) -> Self {
        let callers: Vec<&str> = callers.into_iter().map(Visibility::as_str).collect();
        with_ui(self, "visibility", callers.into()).extension(check::extension)
    }
}

/// Sets a field of `_meta.ui`.
fn with_ui(tool: Tool, name: &str, value: Value) -> Tool {
    let mut ui = ui_of(&tool).cloned().unwrap_or_default();
    ui.insert(name.to_owned(), value);
    tool.meta("ui", ui)
}

/// Returns `_meta.ui` of a tool.
pub(crate) fn ui_of(tool: &Tool) -> Option<&Map<String, Value>> {
    tool.info().meta.as_ref()?.get("ui")?.as_object()
}
