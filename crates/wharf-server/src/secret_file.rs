//! Reads secret files that only their owner can read.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

/// Maximum size of a secret file.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Reads a file that contains a secret. On Unix, a file that other users can read or write is
/// rejected. A file owned by root may be readable by a group, as is usual where secrets are mounted
/// into containers.
///
/// ```no_run
/// let secret = wharf_server::read_private("/run/secrets/client-secret")?;
/// # let _ = secret;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// If the file cannot be read, is longer than 1 MiB, or is accessible to other users: then run
/// `chmod 600 FILE`.
pub fn read_private(path: impl AsRef<Path>) -> io::Result<String> {
    let path = path.as_ref();
    let file = File::open(path)?;
    check_permissions(&file, path)?;
    let mut text = String::new();
    file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MAX_FILE_BYTES {
        true => Err(io::Error::other("it is longer than 1 MiB, the limit for a secret file")),
        false => Ok(text),
    }
}

/// Checks the permissions of the open file, not of its path, which may point elsewhere by now.
#[cfg(unix)]
fn check_permissions(file: &File, path: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let about = file.metadata()?;
    // Accepts a pipe, as a shell makes of `<(…)`: it can be read once only, by this process.
    if !about.is_file() || is_private(about.mode(), about.uid()) {
        return Ok(());
    }
    let path = path.display();
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("other users of this machine can read it: run `chmod 600 {path}`"),
    ))
}

#[cfg(unix)]
fn is_private(mode: u32, owner: u32) -> bool {
    wharf_model::is_private_mode(mode, owner == 0)
}

/// Accepts every file on Windows, which has no modes; files below a user's home folder belong to
/// that user.
#[cfg(not(unix))]
fn check_permissions(_: &File, _: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn only_modes_without_access_for_others_are_private() {
        for (mode, owner, private) in [
            (0o100_600, 1000, true),
            (0o100_400, 1000, true),
            (0o100_640, 1000, false),
            (0o100_644, 1000, false),
            (0o100_604, 0, false),
            (0o100_440, 0, true),
            (0o100_640, 0, true),
            (0o100_660, 0, false),
            (0o100_444, 0, false),
        ] {
            assert_eq!(is_private(mode, owner), private, "{mode:o} of {owner}");
        }
    }
}
