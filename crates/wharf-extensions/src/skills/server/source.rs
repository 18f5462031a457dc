//! Sources of skills: directories on disk, and files embedded at compile time.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

use super::embedded::EmbeddedSkills;
use crate::skills::format::{FileDigest, MAX_SKILL_BYTES, SKILL_FILE, SkillProblem};

/// Maximum depth of directories below the directory of a source.
const MAX_DEPTH: usize = 32;
/// Size of one read while a digest is computed.
const CHUNK: usize = 64 * 1024;

/// Files and directories of a source, with the problems that were found while they were read.
#[derive(Default)]
pub(super) struct SourceListing {
    pub(super) files: Vec<SourceFile>,
    /// Segments of the paths of directories.
    pub(super) directories: Vec<Vec<String>>,
    pub(super) problems: Vec<SkillProblem>,
}

/// File of a source.
pub(super) struct SourceFile {
    /// Segments of its path below the source.
    pub(super) path: Vec<String>,
    /// Path for messages.
    pub(super) shown: String,
    pub(super) location: FileLocation,
    pub(super) digest: FileDigest,
    pub(super) size: u64,
    /// Bytes of a `SKILL.md`.
    pub(super) skill_file: Option<Vec<u8>>,
}

/// Place from which the bytes of a file are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FileLocation {
    Disk(PathBuf),
    Embedded(&'static [u8]),
}

impl FileLocation {
    /// Reads the bytes. A file that grew is read only up to one byte more than `size`.
    pub(super) fn read(&self, size: u64) -> io::Result<Vec<u8>> {
        match self {
            FileLocation::Embedded(bytes) => Ok(bytes.to_vec()),
            FileLocation::Disk(path) => {
                let mut bytes = Vec::new();
                open_regular(path)?.take(size.saturating_add(1)).read_to_end(&mut bytes)?;
                Ok(bytes)
            }
        }
    }
}

impl SourceListing {
    /// Lists an embedded directory.
    pub(super) fn embedded(skills: &EmbeddedSkills) -> Self {
        let mut listing = SourceListing::default();
        for file in skills.files {
            let path: Vec<String> = file.path.split('/').map(str::to_owned).collect();
            for end in 1..path.len() {
                let directory = path[..end].to_vec();
                if !listing.directories.contains(&directory) {
                    listing.directories.push(directory);
                }
            }
            let is_skill_file = path.last().is_some_and(|name| name == SKILL_FILE);
            listing.files.push(SourceFile {
                path,
                shown: format!("{}/{}", skills.directory, file.path),
                location: FileLocation::Embedded(file.bytes),
                digest: FileDigest::from_bytes(file.digest),
                size: file.bytes.len() as u64,
                skill_file: is_skill_file.then(|| file.bytes.to_vec()),
            });
        }
        listing
    }

    /// Lists a directory on disk. Its path is put before the paths of its files as `prefix`.
    pub(super) fn directory(root: &Path, prefix: &[String]) -> Self {
        let mut listing = SourceListing::default();
        if !prefix.is_empty() {
            listing.directories.push(prefix.to_vec());
        }
        // The directory itself may be a link: the application named it.
        match fs::canonicalize(root) {
            Ok(canonical) if canonical.is_dir() => listing.walk(&canonical, root, prefix),
            Ok(_) => {
                listing.add_problem(root, "it is not a directory: name the directory of skills")
            }
            Err(error) => listing.add_problem(root, format!("cannot read the directory: {error}")),
        }
        listing
    }

    fn add_problem(&mut self, path: &Path, text: impl Into<String>) {
        self.problems.push(SkillProblem::error(text).in_file(path.display().to_string()));
    }

    /// Lists `directory`, which is shown as `shown` in problems.
    fn walk(&mut self, directory: &Path, shown: &Path, path: &[String]) {
        if path.len() > MAX_DEPTH {
            let text = format!("its directories are nested deeper than {MAX_DEPTH} levels");
            return self.add_problem(shown, text);
        }
        let entries = fs::read_dir(directory).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(error) => return self.add_problem(shown, format!("cannot read it: {error}")),
        };
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let shown = shown.join(entry.file_name());
            match entry.file_name().to_str() {
                // Editors, Git and file managers create hidden files, which are not part of a skill.
                Some(name) if name.starts_with('.') => {}
                Some(name) => {
                    let path: Vec<String> = path.iter().cloned().chain([name.to_owned()]).collect();
                    self.entry(&entry, &shown, path);
                }
                None => self.add_problem(&shown, "its name is not UTF-8: rename it"),
            }
        }
    }

    fn entry(&mut self, entry: &fs::DirEntry, shown: &Path, path: Vec<String>) {
        let kind = match entry.file_type() {
            Ok(kind) => kind,
            Err(error) => return self.add_problem(shown, format!("cannot read it: {error}")),
        };
        if kind.is_dir() {
            self.directories.push(path.clone());
            return self.walk(&entry.path(), shown, &path);
        }
        if kind.is_symlink() {
            let text = "it is a symbolic link, which may lead out of the skill: replace it by a copy, \
                        or add the directory that it names";
            return self.add_problem(shown, text);
        }
        if !kind.is_file() {
            let text = "it is neither a file nor a directory: remove it";
            return self.add_problem(shown, text);
        }
        match read_file(&entry.path(), shown, path) {
            Ok(file) => self.files.push(file),
            Err(error) => self.add_problem(shown, format!("cannot read it: {error}")),
        }
    }
}

/// Opens a regular file without following a link at the end of the path.
fn open_regular(path: &Path) -> io::Result<File> {
    let refused = || io::Error::other("it is no longer a regular file");
    let before = fs::symlink_metadata(path)?;
    if !before.is_file() {
        return Err(refused());
    }
    let file = File::open(path)?;
    if is_same_file(&before, &file.metadata()?) { Ok(file) } else { Err(refused()) }
}

/// Returns whether the path and the open file are the same file: a link that replaced it in between is another one.
#[cfg(unix)]
fn is_same_file(path: &fs::Metadata, open: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    open.is_file() && (path.dev(), path.ino()) == (open.dev(), open.ino())
}

#[cfg(not(unix))]
fn is_same_file(_path: &fs::Metadata, open: &fs::Metadata) -> bool {
    open.is_file()
}

/// Computes the digest of a file. The bytes of a `SKILL.md` are kept.
fn read_file(on_disk: &Path, shown: &Path, path: Vec<String>) -> io::Result<SourceFile> {
    let is_skill_file = path.last().is_some_and(|name| name == SKILL_FILE);
    let mut file = open_regular(on_disk)?;
    let (mut hash, mut size, mut kept) = (Sha256::new(), 0, Vec::new());
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = file.read(&mut chunk)?;
        if read == 0 {
            break;
        }
        hash.update(&chunk[..read]);
        size += read as u64;
        if is_skill_file {
            if size > MAX_SKILL_BYTES {
                return Err(io::Error::other(format!("it has more than {MAX_SKILL_BYTES} bytes")));
            }
            kept.extend_from_slice(&chunk[..read]);
        }
    }
    let location = FileLocation::Disk(on_disk.to_owned());
    let digest = FileDigest::from_bytes(hash.finalize().into());
    let (shown, skill_file) = (shown.display().to_string(), is_skill_file.then_some(kept));
    Ok(SourceFile { path, shown, location, digest, size, skill_file })
}
