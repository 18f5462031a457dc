//! Saves content to files.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde_json::{Value, json};
use wharf::{
    Content, ToolResult,
    model::{Body, ReadResult, ResourceContents},
};

use super::ResultOutput;
use crate::error::CliError;
use crate::terminal::{StderrOutput, bytes, clean_line};

/// Base64 with optional padding, which many servers omit.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Maximum number of contents of one result.
const MAX_CONTENTS: usize = 100;

/// Maximum total length of the contents of one result.
const MAX_TOTAL_BYTES: usize = 64 << 20;

/// Content to save.
#[derive(Debug, PartialEq)]
pub(crate) struct SavedContent {
    mime_type: Option<String>,
    bytes: Vec<u8>,
}

/// Contents of a read result, text or binary.
pub(crate) fn blobs_of_read(result: &ReadResult) -> Result<Vec<SavedContent>, CliError> {
    result.contents.iter().map(of_resource).collect()
}

/// Contents of a tool result that are not text; if all are text, the text.
pub(crate) fn blobs_of_tool(result: &ToolResult) -> Result<Vec<SavedContent>, CliError> {
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
        blobs.push(SavedContent { mime_type, bytes: texts.join("\n").into_bytes() });
    }
    Ok(blobs)
}

fn of_resource(contents: &ResourceContents) -> Result<SavedContent, CliError> {
    let mime_type = contents.mime_type.clone();
    match &contents.body {
        Body::Text(text) => Ok(SavedContent { mime_type, bytes: text.clone().into_bytes() }),
        Body::Blob(data) => decoded(mime_type.as_deref(), data),
    }
}

fn decoded(mime_type: Option<&str>, data: &str) -> Result<SavedContent, CliError> {
    let bytes = BASE64
        .decode(data)
        .map_err(|error| CliError::tool(format!("The server sent invalid base64: {error}")))?;
    Ok(SavedContent { mime_type: mime_type.map(str::to_owned), bytes })
}

/// Writes to `file`, or to stdout if it is `-`; several contents get numbered names.
pub(crate) fn save(
    blobs: &[SavedContent],
    file: &Path,
    out: ResultOutput,
    screen: &StderrOutput,
) -> Result<(), CliError> {
    if file == Path::new("-") {
        let [blob] = blobs else {
            return Err(CliError::usage(format!(
                "There are {} contents: give a FILE for them",
                blobs.len()
            )));
        };
        let text = std::str::from_utf8(&blob.bytes);
        return match (out.is_terminal(), text) {
            (true, Ok(text)) => out.lines(&[crate::terminal::clean(text).into_owned()]),
            (true, Err(_)) => Err(CliError::usage(
                "Binary content is not written to a terminal: give a FILE, or pipe the output",
            )),
            (false, _) => out.bytes(&blob.bytes),
        };
    }
    within_bounds(blobs)?;
    let files = names(file, blobs.len())?;
    let mut written: Vec<Value> = Vec::new();
    for (blob, file) in blobs.iter().zip(files) {
        // The user named a single file, but not the numbered ones.
        let may_overwrite = blobs.len() == 1;
        write(&file, &blob.bytes, may_overwrite).map_err(|error| cannot_write(&file, &error))?;
        let kind = blob.mime_type.as_deref().unwrap_or("bytes");
        if screen.is_terminal() {
            let size = bytes(blob.bytes.len());
            screen.line(&format!("Wrote {} ({}, {size})", file.display(), clean_line(kind)));
        }
        written.push(json!({"file": file.to_string_lossy(), "mimeType": blob.mime_type, "bytes": blob.bytes.len()}));
    }
    if out.is_json() { out.json(&json!({"written": written})) } else { Ok(()) }
}

fn within_bounds(blobs: &[SavedContent]) -> Result<(), CliError> {
    let all: usize = blobs.iter().map(|blob| blob.bytes.len()).sum();
    let hint = "Nothing was written. `--json` without --output prints the result unchanged.";
    if blobs.len() > MAX_CONTENTS {
        let count = blobs.len();
        let message =
            format!("The server gave {count} contents, and --output saves at most {MAX_CONTENTS}");
        return Err(CliError::tool(message).hint(hint.to_owned()));
    }
    if all > MAX_TOTAL_BYTES {
        let (all, most) = (bytes(all), bytes(MAX_TOTAL_BYTES));
        let message = format!("The server gave {all}, and --output saves at most {most}");
        return Err(CliError::tool(message).hint(hint.to_owned()));
    }
    Ok(())
}

/// File name of each content. Numbered names must not exist yet.
fn names(file: &Path, count: usize) -> Result<Vec<PathBuf>, CliError> {
    if count == 1 {
        return Ok(vec![file.to_owned()]);
    }
    let files: Vec<PathBuf> = (1..=count).map(|number| numbered(file, number)).collect();
    match files.iter().find(|file| file.symlink_metadata().is_ok()) {
        Some(taken) => Err(cannot_write(taken, &io::ErrorKind::AlreadyExists.into())),
        None => Ok(files),
    }
}

fn write(file: &Path, bytes: &[u8], may_overwrite: bool) -> io::Result<()> {
    if may_overwrite {
        return fs::write(file, bytes);
    }
    fs::File::options().write(true).create_new(true).open(file)?.write_all(bytes)
}

fn cannot_write(file: &Path, error: &io::Error) -> CliError {
    let name = file.display();
    if error.kind() != io::ErrorKind::AlreadyExists {
        return CliError::usage(format!("Cannot write {name}: {error}"));
    }
    CliError::usage(format!("{name} exists and is not overwritten"))
        .hint("Pass another name to --output, or move that file.".to_owned())
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
    fn binary_content_is_saved_before_text() {
        let result = ToolResult::new([Content::text("x"), Content::image([1, 2], "image/png")]);
        let blobs = blobs_of_tool(&result).unwrap();
        assert_eq!(
            blobs,
            [SavedContent { mime_type: Some("image/png".into()), bytes: vec![1, 2] }]
        );
        let blobs = blobs_of_tool(&ToolResult::text("x")).unwrap();
        assert_eq!(blobs[0].bytes, b"x");
    }

    #[test]
    fn base64_padding_is_optional() {
        assert_eq!(decoded(None, "iVA").unwrap().bytes, [0x89, 0x50]);
        assert_eq!(decoded(None, "!").unwrap_err().exit as i32, 5);
    }

    /// Audit 11.
    #[test]
    fn saved_contents_are_limited_and_never_overwrite() {
        let blob = |bytes: usize| SavedContent { mime_type: None, bytes: vec![0; bytes] };
        let many: Vec<SavedContent> = (0..=MAX_CONTENTS).map(|_| blob(1)).collect();
        assert!(within_bounds(&many).unwrap_err().json().contains("101 contents"));
        assert!(within_bounds(&many[1..]).is_ok());
        assert!(
            within_bounds(&[blob(MAX_TOTAL_BYTES + 1)]).unwrap_err().json().contains("67.1 MB")
        );
        let dir = std::env::temp_dir().join(format!("wharf-save-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let file = dir.join("logo.png");
        fs::write(dir.join("logo-2.png"), "precious").unwrap();
        let fail = names(&file, 3).unwrap_err().json();
        assert!(fail.contains("logo-2.png exists"), "{fail}");
        assert!(write(&dir.join("logo-2.png"), b"x", false).is_err());
        assert_eq!(fs::read(dir.join("logo-2.png")).unwrap(), b"precious");
        assert_eq!(names(&file, 1).unwrap(), [file]);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn multiple_files_are_numbered() {
        assert_eq!(numbered(Path::new("a/logo.png"), 2), Path::new("a/logo-2.png"));
        assert_eq!(numbered(Path::new("logo"), 1), Path::new("logo-1"));
    }
}
