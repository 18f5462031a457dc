//! Apps: HTML pages that hosts show for tools (extension `io.modelcontextprotocol/ui`).

#[cfg(feature = "server")]
pub use wharf_extensions::apps::{App, AppPermission, Csp, CtxAppExt, ToolAppExt, Visibility};
pub use wharf_extensions::apps::{EXTENSION, MIME_TYPE, PAGE_SCRIPT};
