//! Resources of the demo server.

use std::time::{SystemTime, UNIX_EPOCH};

use wharf::prelude::*;

use super::media;

/// Content of the readme resource.
pub(crate) const README: &str = "# Wharf\n\nWrite a tool once, as a plain function.\n";

/// A Markdown document.
#[resource("demo://readme", mime = "text/markdown")]
pub(crate) async fn readme() -> &'static str {
    README
}

/// A PNG image.
#[resource("demo://logo", mime = "image/png")]
pub(crate) async fn logo() -> Vec<u8> {
    media::PNG.to_vec()
}

/// Seconds since 1970. Subscribe to it, then call the tool `touch`.
#[resource("demo://clock", mime = "text/plain")]
pub(crate) async fn clock() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_secs().to_string()
}

/// A note by name.
#[resource("demo://notes/{name}", mime = "text/plain")]
pub(crate) async fn notes(#[complete("shopping", "standup", "story")] name: String) -> String {
    format!("Note {name}")
}

/// A file by path, which may contain slashes.
#[resource("demo://files/{+path}", mime = "text/plain")]
pub(crate) async fn files(path: String) -> String {
    format!("File {path}")
}
