//! Files that only their owner can read.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use crate::client::token_store::file::TokenFileError;

/// Limit of the file size.
const MAX_FILE_BYTES: u64 = 8 << 20;

/// Reads the file, if it exists.
pub(crate) fn read(path: &Path) -> Result<Option<String>, TokenFileError> {
    let file = match options().read(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(_) if is_symlink(path) => return Err(symlink_error(path)),
        Err(error) => return Err(TokenFileError::because(path, error)),
    };
    check_permissions(&file, path)?;
    let mut text = String::new();
    let read = file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text);
    read.map_err(|error| TokenFileError::because(path, error))?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(TokenFileError::at(path, &"it is too large for a token file: move it away"));
    }
    Ok(Some(text))
}

/// Replaces the file atomically: readers never see a partial file.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), TokenFileError> {
    if is_symlink(path) {
        return Err(symlink_error(path));
    }
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(TokenFileError::at(
            path,
            &"there is no room for more logins: log out of some servers",
        ));
    }
    let mut random = [0; 8];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut random)
        .map_err(|_| TokenFileError::at(path, &"the system returned no random bytes"))?;
    let sibling_path = sibling_path(path, &format!("{:016x}.tmp", u64::from_ne_bytes(random)));
    let written = write_new(&sibling_path, text).and_then(|()| fs::rename(&sibling_path, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&sibling_path);
        TokenFileError::because(path, error)
    })
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = options().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Removes the file, if it exists.
pub(crate) fn remove(path: &Path) -> Result<(), TokenFileError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(TokenFileError::because(path, error))
        }
        _ => Ok(()),
    }
}

/// Lock between processes, released on drop.
#[derive(Debug)]
pub(crate) struct FileLock(
    #[expect(dead_code, reason = "closing the file releases the lock")] File,
);

/// Waits for the lock with this name.
pub(crate) fn lock(path: &Path, name: &str, timeout: Duration) -> Result<FileLock, TokenFileError> {
    let path = sibling_path(path, name);
    let opened = options().write(true).create(true).truncate(false).open(&path);
    let file = opened.map_err(|error| match is_symlink(&path) {
        true => symlink_error(&path),
        false => TokenFileError::because(&path, error),
    })?;
    check_permissions(&file, &path)?;
    let deadline = Instant::now() + timeout;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(FileLock(file)),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(10));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(TokenFileError::at(
                    &path,
                    &"another process has held the lock for too long",
                ));
            }
            Err(TryLockError::Error(error)) => return Err(TokenFileError::because(&path, error)),
        }
    }
}

/// `logins.json` and `lock` give `logins.json.lock`.
fn sibling_path(path: &Path, end: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(end);
    path.with_file_name(name)
}

fn is_symlink(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|it| it.is_symlink())
}

fn symlink_error(path: &Path) -> TokenFileError {
    TokenFileError::at(path, &"it is a symbolic link, which is not allowed: remove it")
}

/// Creates the folder of `path` for its owner only. Fails if other users can write to it.
#[cfg(unix)]
pub(crate) fn make_folder(path: &Path) -> Result<(), TokenFileError> {
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
    let folder = folder(path);
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| TokenFileError::because(folder, error))?;
    let metadata = fs::metadata(folder).map_err(|error| TokenFileError::because(folder, error))?;
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(TokenFileError::at(folder, &"it belongs to another user"));
    }
    if metadata.mode() & 0o022 != 0 {
        let what = format!("other users can write to it: run chmod 700 {}", folder.display());
        return Err(TokenFileError::at(folder, &what));
    }
    Ok(())
}

/// Creates the folder of `path`. On Windows, a user's folders are private by default.
#[cfg(not(unix))]
pub(crate) fn make_folder(path: &Path) -> Result<(), TokenFileError> {
    let folder = folder(path);
    fs::create_dir_all(folder).map_err(|error| TokenFileError::because(folder, error))
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Options that neither follow symbolic links nor block on pipes; new files are for the owner only.
#[cfg(unix)]
fn options() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.mode(0o600).custom_flags(flags.bits().cast_signed());
    options
}

#[cfg(not(unix))]
fn options() -> OpenOptions {
    OpenOptions::new()
}

/// Checks the open file and not its name, which may have been replaced (TOCTOU).
#[cfg(unix)]
fn check_permissions(file: &File, path: &Path) -> Result<(), TokenFileError> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = file.metadata().map_err(|error| TokenFileError::because(path, error))?;
    if !metadata.is_file() {
        return Err(TokenFileError::at(path, &"it is not a regular file: remove it"));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(TokenFileError::at(path, &"it belongs to another user"));
    }
    if !wharf_model::is_private_mode(metadata.mode(), false) {
        let what = format!(
            "other users can read it: run chmod 600 {}, and log in again if one of them may have",
            path.display()
        );
        return Err(TokenFileError::at(path, &what));
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_permissions(file: &File, path: &Path) -> Result<(), TokenFileError> {
    let metadata = file.metadata().map_err(|error| TokenFileError::because(path, error))?;
    if metadata.is_file() {
        Ok(())
    } else {
        Err(TokenFileError::at(path, &"it is not a regular file: remove it"))
    }
}
