//! ZIP file of a bundle: written the same for the same files, and read without trust.

use std::{
    fs,
    io::{self, Cursor, Read, Write},
    path::{Component, Path},
};

use serde_json::{Map, Value};
use zip::{CompressionMethod, System, ZipArchive, ZipWriter, write::SimpleFileOptions};

use crate::error::CliError;

/// Name of the manifest.
pub(super) const MANIFEST: &str = "manifest.json";
/// Largest number of files in a bundle that is read.
const MAX_FILES: usize = 10_000;
/// Largest size of all files of a bundle that is read, in bytes.
const MAX_BYTES: u64 = 1 << 30;
/// Largest number of bytes that one byte of the bundle may become, as Deflate can at most.
const MAX_RATIO: u64 = 1_100;
/// Largest manifest, in bytes.
pub(super) const MAX_MANIFEST: u64 = 1 << 20;
/// Bytes of other files that are kept when a bundle is read: the first ones, by which a PNG file is recognized.
const FIRST_BYTES: u64 = 8;
/// Begin and end of the signature after the ZIP file.
const SIGNATURE: (&[u8], &[u8]) = (b"MCPB_SIG_V1", b"MCPB_SIG_END");

/// File of a bundle.
#[derive(Debug)]
pub(super) struct BundleFile {
    pub(super) name: String,
    /// The whole content of a file that is packed, and of the manifest; the first bytes of others in a bundle that was
    /// read.
    pub(super) content: Vec<u8>,
    /// Size in bytes.
    pub(super) size: u64,
    pub(super) is_executable: bool,
}

impl BundleFile {
    pub(super) fn new(name: String, content: Vec<u8>, is_executable: bool) -> Self {
        BundleFile { name, size: content.len() as u64, content, is_executable }
    }

    /// Reads the content from a file.
    pub(super) fn read(name: &str, file: &Path, is_executable: bool) -> Result<Self, CliError> {
        let content = fs::read(file)
            .map_err(|error| CliError::usage(format!("cannot read {}: {error}", file.display())))?;
        Ok(BundleFile::new(name.to_owned(), content, is_executable))
    }
}

/// Writes a bundle: the manifest first, then the files by name, all of the same time.
pub(super) fn write_bundle(
    manifest: &Map<String, Value>,
    mut files: Vec<BundleFile>,
) -> Result<Vec<u8>, CliError> {
    files.sort_by(|one, other| one.name.cmp(&other.name));
    let text = serde_json::to_string_pretty(manifest).unwrap_or_default() + "\n";
    files.insert(0, BundleFile::new(MANIFEST.to_owned(), text.into_bytes(), false));
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let failed = |error: &dyn std::fmt::Display| CliError::usage(format!("cannot pack: {error}"));
    for file in files {
        // The time of a file is 1980-01-01 unless it is set.
        let options = SimpleFileOptions::default()
            .system(System::Unix)
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(6))
            .unix_permissions(if file.is_executable { 0o755 } else { 0o644 });
        writer.start_file(&file.name, options).map_err(|error| failed(&error))?;
        writer.write_all(&file.content).map_err(|error| failed(&error))?;
    }
    Ok(writer.finish().map_err(|error| failed(&error))?.into_inner())
}

/// Files of a bundle that was read, and what is wrong with it.
#[derive(Debug, Default)]
pub(super) struct ReadBundle {
    pub(super) files: Vec<BundleFile>,
    pub(super) problems: Vec<String>,
    pub(super) is_signed: bool,
}

/// Reads a bundle, but keeps only its manifest and the first bytes of other files: a small bundle may unpack to much (zip
/// bomb). Nothing is written, so a name cannot lead elsewhere (zip slip); such names, links and files that are too large
/// are problems.
pub(super) fn read_bundle(bytes: &[u8]) -> Result<ReadBundle, String> {
    let (zip, is_signed) = without_signature(bytes);
    let mut archive =
        ZipArchive::new(Cursor::new(zip)).map_err(|it| format!("not a ZIP file: {it}"))?;
    let mut bundle = ReadBundle { is_signed, ..ReadBundle::default() };
    if archive.len() > MAX_FILES {
        return Err(format!("it has {} files; at most {MAX_FILES} are read", archive.len()));
    }
    let limit = MAX_BYTES.min(MAX_RATIO.saturating_mul(zip.len() as u64));
    let mut left = limit;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(|it| format!("file {index}: {it}"))?;
        let Ok(name) = entry.name().map(|name| name.into_owned()) else {
            bundle.problems.push(format!("the name of file {index} is not text"));
            continue;
        };
        bundle.problems.extend(name_problem(&name));
        if entry.is_symlink() {
            bundle.problems.push(format!("{name:?} is a symbolic link: pack the file itself"));
        }
        if entry.is_dir() {
            continue;
        }
        let is_again = bundle.files.iter().any(|file| file.name == name);
        if is_again {
            bundle.problems.push(format!("{name:?} is there twice"));
        }
        let mode = entry.unix_mode().unwrap_or_default();
        let kept = if name == MANIFEST && !is_again { MAX_MANIFEST + 1 } else { FIRST_BYTES };
        // The size that the entry declares may be wrong.
        let (content, size) = read_start(entry.by_ref().take(left + 1), kept)
            .map_err(|error| format!("{name:?}: {error}"))?;
        left = left
            .checked_sub(size)
            .ok_or_else(|| format!("its files have more than {limit} bytes"))?;
        let is_executable = mode & 0o111 == 0o111;
        bundle.files.push(BundleFile { name, content, size, is_executable });
    }
    Ok(bundle)
}

/// Reads to the end; returns the first `kept` bytes, and the number of all.
fn read_start(mut file: impl Read, kept: u64) -> io::Result<(Vec<u8>, u64)> {
    let mut start = Vec::new();
    file.by_ref().take(kept).read_to_end(&mut start)?;
    let rest = io::copy(&mut file, &mut io::sink())?;
    let size = start.len() as u64 + rest;
    Ok((start, size))
}

/// Splits off the signature that may follow the ZIP file.
fn without_signature(bytes: &[u8]) -> (&[u8], bool) {
    let begin = match bytes.ends_with(SIGNATURE.1) {
        true => bytes.windows(SIGNATURE.0.len()).rposition(|it| it == SIGNATURE.0),
        false => None,
    };
    begin.map_or((bytes, false), |begin| (&bytes[..begin], true))
}

/// Returns the reason why a name is unsafe: a program that unpacks the bundle would write elsewhere.
pub(super) fn name_problem(name: &str) -> Option<String> {
    let is_plain = Path::new(name).components().all(|it| matches!(it, Component::Normal(_)));
    let has_drive = name.as_bytes().get(1) == Some(&b':');
    let is_safe = is_plain
        && !has_drive
        && !name.is_empty()
        && !name.contains(['\\', '\0'])
        && !name.split('/').any(|part| part == "." || part == "..");
    (!is_safe).then(|| format!("the name {name:?} leads out of the bundle or is not portable"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_out_are_found() {
        for name in ["../a", "/etc/passwd", "a/../../b", "C:/a", "a\\b", "", "./a", "a\0"] {
            assert!(name_problem(name).is_some(), "{name:?}");
        }
        for name in ["manifest.json", "server/a.exe", "server/win32/a b.exe", "a/"] {
            assert_eq!(name_problem(name), None, "{name:?}");
        }
    }

    #[test]
    fn large_files_are_counted_and_not_kept() {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for name in [MANIFEST, "icon.png"] {
            writer.start_file(name, SimpleFileOptions::default()).unwrap();
            writer.write_all(&vec![b'0'; 4 << 20]).unwrap();
        }
        let bundle = read_bundle(&writer.finish().unwrap().into_inner()).unwrap();
        let kept: Vec<_> = bundle.files.iter().map(|it| it.content.len()).collect();
        assert_eq!(kept, [(1 << 20) + 1, 8]);
    }

    #[test]
    fn a_signature_is_split_off() {
        let signed = b"PK...MCPB_SIG_V1abcMCPB_SIG_END";
        assert_eq!(without_signature(signed), (&b"PK..."[..], true));
        assert!(!without_signature(b"PK...MCPB_SIG_V1abc").1);
    }
}
