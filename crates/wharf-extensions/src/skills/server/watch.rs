//! Watch of directories for changes, in development.
//!
//! Names, sizes and times are compared twice a second. This needs no interface of the operating system, works on network file
//! systems and in containers, and costs little for the few hundred files of skills.

use std::{
    collections::hash_map::DefaultHasher,
    fs,
    hash::{Hash as _, Hasher as _},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use wharf_server::Registry;

use super::catalog::SkillCatalog;

/// Time between two looks at the directories.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// Starts a thread that reads watched directories again when they change, while the server exists.
pub(super) fn start(catalog: &Arc<SkillCatalog>, registry: &Registry) {
    let directories = catalog.watched();
    if directories.is_empty() {
        return;
    }
    let (catalog, registry) = (Arc::downgrade(catalog), registry.downgrade());
    // The first look reads the sources again: they may have changed since the server was built.
    let mut seen = None;
    let run = move || {
        loop {
            let (Some(server), Some(catalog)) = (registry.upgrade(), catalog.upgrade()) else {
                return;
            };
            let now = Some(fingerprint(&directories));
            if now != seen {
                seen = now;
                catalog.refresh();
            }
            drop((server, catalog));
            thread::sleep(WATCH_INTERVAL);
        }
    };
    if let Err(error) = thread::Builder::new().name("wharf-skills".into()).spawn(run) {
        tracing::error!(%error, "cannot watch the directories of skills");
    }
}

/// Returns a hash of the names, sizes and times of all files and directories.
fn fingerprint(directories: &[PathBuf]) -> u64 {
    let mut hasher = DefaultHasher::new();
    directories.iter().for_each(|directory| add_directory(directory, &mut hasher));
    hasher.finish()
}

fn add_directory(directory: &Path, hasher: &mut DefaultHasher) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let mut entries: Vec<_> = entries.flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    // Hidden files are not served, and Git changes its own all the time.
    entries.retain(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
    for entry in entries {
        entry.path().hash(hasher);
        let Ok(metadata) = entry.metadata() else { continue };
        (metadata.len(), metadata.modified().ok(), metadata.is_dir()).hash(hasher);
        // `metadata` of an entry does not follow links.
        if metadata.is_dir() {
            add_directory(&entry.path(), hasher);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_files_are_not_looked_at() {
        let directory = std::env::temp_dir().join(format!("wharf-watch-{}", std::process::id()));
        fs::create_dir_all(directory.join(".git")).unwrap();
        let seen = || fingerprint(std::slice::from_ref(&directory));
        let before = seen();
        fs::write(directory.join(".git/index"), "x").unwrap();
        fs::write(directory.join(".swap"), "x").unwrap();
        let hidden = seen();
        fs::write(directory.join("shown"), "x").unwrap();
        let shown = seen();
        fs::remove_dir_all(&directory).unwrap();
        assert_eq!(before, hidden);
        assert_ne!(before, shown);
    }
}
