//! Cache of the revision that each server used last.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::MutexGuard,
};
use wharf_model::Lock;

use wharf_wire::Revision;

/// Maximum number of servers; the cache is cleared when it is full.
const MAX_SERVERS: usize = 4096;

/// Remembers the revision of each server, so that the next connection does not negotiate again.
///
/// Servers are identified by a digest of a key (a URL, a command line), because keys may hold
/// secrets.
///
/// ```
/// use wharf_transport::client::RevisionCache;
///
/// let revision_cache = RevisionCache::in_memory();
/// let revision = "2025-06-18".parse().unwrap();
/// revision_cache.put("https://example.com/mcp", revision);
/// assert_eq!(revision_cache.get("https://example.com/mcp"), Some(revision));
/// revision_cache.remove("https://example.com/mcp");
/// assert_eq!(revision_cache.get("https://example.com/mcp"), None);
/// ```
#[derive(Debug)]
pub struct RevisionCache {
    revisions: Lock<HashMap<u64, Revision>>,
    file: Option<PathBuf>,
}

impl RevisionCache {
    /// Creates a cache in memory.
    #[must_use]
    pub fn in_memory() -> Self {
        RevisionCache { revisions: Lock::default(), file: None }
    }

    /// Creates a cache in a file, with one server per line. An unreadable file counts as empty: an
    /// entry is only a first guess.
    #[must_use]
    pub fn in_file(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        RevisionCache { revisions: Lock::new(read(&path)), file: Some(path) }
    }

    /// The last revision of the server with this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Revision> {
        self.revisions().get(&digest(key)).copied()
    }

    /// Stores the revision of the server with this key.
    pub fn put(&self, key: &str, revision: Revision) {
        let mut revisions = self.revisions();
        if revisions.len() >= MAX_SERVERS {
            revisions.clear();
        }
        if revisions.insert(digest(key), revision) != Some(revision) {
            self.save(&revisions);
        }
    }

    /// Removes the server with this key.
    pub fn remove(&self, key: &str) {
        let mut revisions = self.revisions();
        if revisions.remove(&digest(key)).is_some() {
            self.save(&revisions);
        }
    }

    fn revisions(&self) -> MutexGuard<'_, HashMap<u64, Revision>> {
        self.revisions.lock()
    }

    /// If the file cannot be written, the next handshake needs a probe. That is not a reason to
    /// fail a call.
    fn save(&self, revisions: &HashMap<u64, Revision>) {
        if let Some(path) = &self.file {
            let _ = write(path, revisions);
        }
    }
}

fn read(path: &Path) -> HashMap<u64, Revision> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let pair = |line: &str| {
        let (server, date) = line.split_once(' ')?;
        Some((u64::from_str_radix(server, 16).ok()?, date.trim().parse().ok()?))
    };
    text.lines().filter_map(pair).take(MAX_SERVERS).collect()
}

/// Writes a temporary file and renames it, so that other processes never read a partial one.
fn write(path: &Path, revisions: &HashMap<u64, Revision>) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut lines: Vec<String> =
        revisions.iter().map(|(server, revision)| format!("{server:016x} {revision}\n")).collect();
    lines.sort_unstable();
    let beside = path.with_extension(format!("{}.tmp", std::process::id()));
    fs::write(&beside, lines.concat())?;
    fs::rename(&beside, path)
}

/// FNV-1a: short, and the same in every process. A collision costs one wrong first guess.
fn digest(key: &str) -> u64 {
    key.bytes().fold(0xcbf2_9ce4_8422_2325, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_shares_revisions_between_processes_without_keys() {
        let path = std::env::temp_dir().join(format!("wharf-verdicts-{}", std::process::id()));
        let revision = Revision::ALL[2];
        RevisionCache::in_file(&path).put("https://example.com/?token=hunter2", revision);
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("hunter2") && text.contains(revision.as_str()), "{text}");
        let again = RevisionCache::in_file(&path);
        assert_eq!(again.get("https://example.com/?token=hunter2"), Some(revision));
        again.remove("https://example.com/?token=hunter2");
        assert_eq!(RevisionCache::in_file(&path).get("https://example.com/?token=hunter2"), None);
        fs::write(&path, "garbage\n\u{0} \nzz 2025-06-18\n").unwrap();
        assert_eq!(RevisionCache::in_file(&path).revisions().len(), 0);
        fs::remove_file(&path).unwrap();
    }
}
