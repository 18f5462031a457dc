//! Content that goes into files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde_json::{Value, json};
use wharf::{Content, ReadResult, ResourceContents, ToolResult, model::Body};

use super::Out;
use crate::{
    fail::Fail,
    terminal::{Screen, bytes, clean_line},
};

/// Many servers leave the padding out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Something to save.
#[derive(Debug, PartialEq)]
pub(crate) struct Blob {
    mime_type: Option<String>,
    bytes: Vec<u8>,
}

/// What was read, text or not.
pub(crate) fn blobs_of_read(result: &ReadResult) -> Result<Vec<Blob>, Fail> {
    result.contents.iter().map(of_resource).collect()
}

/// What a tool gave that is no text; if it is all text, that.
pub(crate) fn blobs_of_tool(result: &ToolResult) -> Result<Vec<Blob>, Fail> {
    let mut blobs = Vec::new();
    for content in &result.content {
        match content {
            Content::Image(media) | Content::Audio(media) => {
                blobs.push(decoded(Some(&media.mime_type), &media.data)?);
            }
            Content::Resource(it) if matches!(it.resource.body, Body::Blob(_)) => {
                blobs.push(of_resource(&it.resource)?);
            }
            _ => {}
        }
    }
    if blobs.is_empty() {
        let texts: Vec<&str> = result.content.iter().filter_map(Content::as_text).collect();
        let mime_type = Some("text/plain".to_owned());
        blobs.push(Blob { mime_type, bytes: texts.join("\n").into_bytes() });
    }
    Ok(blobs)
}

fn of_resource(contents: &ResourceContents) -> Result<Blob, Fail> {
    let mime_type = contents.mime_type.clone();
    match &contents.body {
        Body::Text(text) => Ok(Blob { mime_type, bytes: text.clone().into_bytes() }),
        Body::Blob(data) => decoded(mime_type.as_deref(), data),
    }
}

fn decoded(mime_type: Option<&str>, data: &str) -> Result<Blob, Fail> {
    let bytes = BASE64.decode(data).map_err(|error| {
        Fail::tool(format!("The server sent bytes in base64 that cannot be read: {error}"))
    })?;
    Ok(Blob { mime_type: mime_type.map(str::to_owned), bytes })
}

/// Writes to `file`, or to stdout if it is `-`; several get numbers.
pub(crate) fn save(blobs: &[Blob], file: &Path, out: Out, screen: &Screen) -> Result<(), Fail> {
    if file == Path::new("-") {
        let [blob] = blobs else {
            return Err(Fail::usage(format!(
                "There are {} contents: give a FILE for them",
                blobs.len()
            )));
        };
        let text = std::str::from_utf8(&blob.bytes);
        return match (out.is_terminal(), text) {
            (true, Ok(text)) => out.lines(&[crate::terminal::clean(text).into_owned()]),
            (true, Err(_)) => {
                Err(Fail::usage("Bytes are not for a terminal: give a FILE, or pipe this on"))
            }
            (false, _) => out.bytes(&blob.bytes),
        };
    }
    let mut written: Vec<Value> = Vec::new();
    for (at, blob) in blobs.iter().enumerate() {
        let file = if blobs.len() == 1 { file.to_owned() } else { numbered(file, at + 1) };
        fs::write(&file, &blob.bytes)
            .map_err(|error| Fail::usage(format!("Cannot write {}: {error}", file.display())))?;
        let kind = blob.mime_type.as_deref().unwrap_or("bytes");
        if screen.is_terminal() {
            let size = bytes(blob.bytes.len());
            screen.line(&format!("Wrote {} ({}, {size})", file.display(), clean_line(kind)));
        }
        written.push(json!({"file": file.to_string_lossy(), "mimeType": blob.mime_type, "bytes": blob.bytes.len()}));
    }
    if out.is_json() { out.json(&json!({"written": written})) } else { Ok(()) }
}

/// `logo.png` becomes `logo-2.png`.
fn numbered(file: &Path, number: usize) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let name = match file.extension() {
        Some(extension) => format!("{stem}-{number}.{}", extension.to_string_lossy()),
        None => format!("{stem}-{number}"),
    };
    file.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_goes_first() {
        let result = ToolResult::new([Content::text("x"), Content::image([1, 2], "image/png")]);
        let blobs = blobs_of_tool(&result).unwrap();
        assert_eq!(blobs, [Blob { mime_type: Some("image/png".into()), bytes: vec![1, 2] }]);
        let blobs = blobs_of_tool(&ToolResult::text("x")).unwrap();
        assert_eq!(blobs[0].bytes, b"x");
    }

    #[test]
    fn padding_may_be_missing_but_not_sense() {
        assert_eq!(decoded(None, "iVA").unwrap().bytes, [0x89, 0x50]);
        assert_eq!(decoded(None, "!").unwrap_err().exit as i32, 5);
    }

    #[test]
    fn several_files_get_numbers() {
        assert_eq!(numbered(Path::new("a/logo.png"), 2), Path::new("a/logo-2.png"));
        assert_eq!(numbered(Path::new("logo"), 1), Path::new("logo-1"));
    }
}
