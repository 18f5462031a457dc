//! Media types of files, by the end of their names.

const DEFAULT_TEXT: &str = "text/plain";
const DEFAULT_BYTES: &str = "application/octet-stream";

/// Media types of the files that skills usually have.
const MEDIA_TYPES: [(&[&str], &str); 24] = [
    (&["md", "markdown"], "text/markdown"),
    (&["txt", "log"], "text/plain"),
    (&["html", "htm"], "text/html"),
    (&["css"], "text/css"),
    (&["csv"], "text/csv"),
    (&["js", "mjs", "cjs"], "text/javascript"),
    (&["ts", "tsx"], "text/x-typescript"),
    (&["py"], "text/x-python"),
    (&["rs"], "text/x-rust"),
    (&["sh", "bash"], "text/x-shellscript"),
    (&["toml"], "application/toml"),
    (&["json"], "application/json"),
    (&["yaml", "yml"], "application/yaml"),
    (&["xml"], "application/xml"),
    (&["pdf"], "application/pdf"),
    (&["zip"], "application/zip"),
    (&["png"], "image/png"),
    (&["jpg", "jpeg"], "image/jpeg"),
    (&["gif"], "image/gif"),
    (&["webp"], "image/webp"),
    (&["svg"], "image/svg+xml"),
    (&["docx"], "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    (&["xlsx"], "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    (&["pptx"], "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
];

/// Returns the media type of a file, if its name has a known end.
pub(super) fn media_type(name: &str) -> Option<&'static str> {
    let (_, end) = name.rsplit_once('.')?;
    let end = end.to_ascii_lowercase();
    MEDIA_TYPES.iter().find(|(ends, _)| ends.contains(&end.as_str())).map(|(_, mime)| *mime)
}

/// Returns the media type of a file whose name has no known end.
pub(super) fn default_media_type(is_text: bool) -> &'static str {
    if is_text { DEFAULT_TEXT } else { DEFAULT_BYTES }
}
