//! Apps (`io.modelcontextprotocol/ui`, revision 2026-01-26): HTML pages that a host shows for tools.
//!
//! A server declares a page as an [`App`], and the tools that it belongs to with [`ToolAppExt::app`]. The guide,
//! `docs/apps.md`, has the whole way, and the interface of the page.

#[cfg(feature = "server")]
mod app;
#[cfg(feature = "server")]
mod check;
#[cfg(feature = "server")]
mod csp;
#[cfg(feature = "server")]
mod ctx;
#[cfg(feature = "server")]
mod directory;
#[cfg(feature = "server")]
mod inline;
#[cfg(feature = "server")]
mod openai;
#[cfg(feature = "server")]
mod tool;

#[cfg(feature = "server")]
pub use self::{
    app::{App, AppPermission},
    csp::Csp,
    ctx::CtxAppExt,
    tool::{ToolAppExt, Visibility},
};

/// Identifier of the extension.
pub const EXTENSION: &str = "io.modelcontextprotocol/ui";

/// Media type of the pages. Clients that show apps list it in the setting `mimeTypes` of the extension.
pub const MIME_TYPE: &str = "text/html;profile=mcp-app";

/// Script for the page's side of the protocol, which [`App`] puts in the place of `wharf-app.js`.
pub const PAGE_SCRIPT: &str = include_str!("wharf-app.js");
