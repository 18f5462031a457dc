//! Paths from clients below a directory.

use std::path::{Component, Path, PathBuf};

use wharf_model::{Error, ErrorKind};

/// Joins a path from a client to a base directory that it must not leave (protection against path
/// traversal).
///
/// Variables of a resource template arrive decoded. Those of `{name}` and the items of `{/path*}`
/// contain no slash, encoded or not; those of `{+path}` and `{?query}` may. Any of them may be `..`
/// or contain a NUL. Pass every value through this function before using it as a path.
///
/// Rejects absolute paths, `..`, NUL, drive letters and other prefixes, and symbolic links that
/// lead out of `base`. The existing part of the result is free of symbolic links. The function
/// accesses the file system, so call it where blocking is allowed. A process that can write below
/// `base` could still create a link between this check and the use of the path.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod server { pub use super::*; } }
/// # let base = std::env::temp_dir();
/// assert!(wharf::server::safe_join(&base, "notes/today.txt").is_ok());
/// assert!(wharf::server::safe_join(&base, "../etc/passwd").is_err());
/// assert!(wharf::server::safe_join(&base, "/etc/passwd").is_err());
/// ```
///
/// # Errors
/// [`ErrorKind::ResourceAccessDenied`] if the path would leave `base`, and an internal error if
/// `base` itself cannot be read.
pub fn safe_join(base: impl AsRef<Path>, path: &str) -> Result<PathBuf, Error> {
    let base = base.as_ref().canonicalize()?;
    let denied = || Error::new(ErrorKind::ResourceAccessDenied);
    // Windows treats `\` as a separator, and `:` as a drive or a stream.
    let foreign = |c: char| c == '\0' || cfg!(windows) && (c == '\\' || c == ':');
    if path.contains(foreign) {
        return Err(denied());
    }
    let mut real = base.clone();
    for component in Path::new(path).components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) => real.push(name),
            _ => return Err(denied()),
        }
        match real.canonicalize() {
            Ok(followed) if followed.starts_with(&base) => real = followed,
            Ok(_) => return Err(denied()),
            // A dangling link could lead out of `base` once its target exists.
            Err(_) if real.is_symlink() => return Err(denied()),
            Err(_) => {}
        }
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::fs;

    use super::*;

    /// CVE-2025-53109 and CVE-2025-53110: links, and sibling folders with the same name prefix, led out
    /// of the folder.
    #[test]
    fn joined_paths_stay_inside() {
        let base = std::env::temp_dir().join(format!("wharf-safe-join-{}", std::process::id()));
        fs::create_dir_all(base.join("in/deep")).unwrap();
        let real = base.join("in").canonicalize().unwrap();
        assert_eq!(safe_join(&real, "deep/new.txt").unwrap(), real.join("deep/new.txt"));
        assert_eq!(safe_join(&real, "./deep").unwrap(), real.join("deep"));
        assert_eq!(safe_join(&real, "").unwrap(), real);
        for path in ["..", "deep/../..", "/etc", "a\0b", "deep/../../x"] {
            let error = safe_join(&real, path).unwrap_err();
            assert_eq!(error.kind, ErrorKind::ResourceAccessDenied, "{path}");
        }
        #[cfg(unix)]
        {
            let link = |to: &Path, name: &str| {
                let _ = std::os::unix::fs::symlink(to, real.join(name));
            };
            link(&base, "out");
            link(&base.join("not yet"), "dangling");
            fs::create_dir_all(base.join("in-secret")).unwrap();
            link(&base.join("in-secret"), "neighbour");
            link(&real.join("deep"), "fine");
            assert!(safe_join(&real, "out").is_err() && safe_join(&real, "out/file").is_err());
            assert!(safe_join(&real, "dangling").is_err());
            assert!(
                safe_join(&real, "neighbour").is_err() && safe_join(&real, "neighbour/x").is_err()
            );
            assert!(safe_join(&real, "../in-secret").is_err());
            assert!(safe_join(&real, &format!("{}-secret", real.display())).is_err());
            assert_eq!(safe_join(&real, "fine/file").unwrap(), real.join("deep/file"));
        }
        fs::remove_dir_all(base).unwrap();
    }
}
