//! File operations whose errors name the path.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

pub(crate) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))
}

pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))
}

pub(crate) fn create(path: &Path) -> Result<(), String> {
    fs::create_dir_all(path).map_err(|e| format!("cannot create {}: {e}", path.display()))
}

/// Removes a file, if it exists.
pub(crate) fn remove(path: &Path) -> Result<(), String> {
    ignore_missing(path, fs::remove_file(path))
}

/// Removes a directory with its contents, if it exists.
pub(crate) fn remove_directory(path: &Path) -> Result<(), String> {
    ignore_missing(path, fs::remove_dir_all(path))
}

fn ignore_missing(path: &Path, removed: std::io::Result<()>) -> Result<(), String> {
    match removed {
        Err(e) if e.kind() != ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {e}", path.display()))
        }
        _ => Ok(()),
    }
}
