//! Files with secrets in them.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

/// No file of keys or passwords is longer.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The text of a file with a secret in it. On Unix, a file that other users can read or write is
/// refused; of one that belongs to root, a group may be able to read, as is usual where secrets are
/// mounted into containers.
///
/// ```no_run
/// let secret = wharf_server::read_private("/run/secrets/client-secret")?;
/// # let _ = secret;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// If the file cannot be read, is longer than 1 MiB, or is open to other users: then run
/// `chmod 600 FILE`.
pub fn read_private(path: impl AsRef<Path>) -> io::Result<String> {
    let path = path.as_ref();
    let file = File::open(path)?;
    check_permissions(&file, path)?;
    let mut text = String::new();
    file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MAX_FILE_BYTES {
        true => Err(io::Error::other("it is too long for a file of secrets")),
        false => Ok(text),
    }
}

/// Looks at the file that is open, and not at a name that may lead elsewhere by now.
#[cfg(unix)]
fn check_permissions(file: &File, path: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let about = file.metadata()?;
    // A pipe, as a shell makes of `<(…)`, is read once, by its reader.
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

/// Windows has no modes; files below a user's own folder are that user's.
#[cfg(not(unix))]
fn check_permissions(_: &File, _: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn modes_are_read_as_the_owner_means_them() {
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
