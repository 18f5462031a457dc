//! Files of the repository, read once for all rules.

use std::fs;
use std::path::{Path, PathBuf};

use super::source::SourceFile;
use crate::files::read;

/// Files of the repository. All paths are relative to its root.
pub(super) struct Repository {
    /// All files, without build output and hidden files.
    pub(super) files: Vec<String>,
    /// Rust files.
    pub(super) sources: Vec<SourceFile>,
    /// Scripts that the crates embed.
    pub(super) scripts: Vec<TextFile>,
    /// Markdown files.
    pub(super) documents: Vec<TextFile>,
    /// Files named `Cargo.toml`.
    pub(super) manifests: Vec<TextFile>,
}

/// File with its text.
pub(super) struct TextFile {
    pub(super) path: String,
    pub(super) text: String,
}

impl Repository {
    pub(super) fn read(root: &Path) -> Result<Repository, String> {
        let mut files = Vec::new();
        collect(root, root, &mut files)?;
        let read_all = |ending: &str| -> Result<Vec<TextFile>, String> {
            let matching = files.iter().filter(|path| path.ends_with(ending));
            matching
                .map(|path| Ok(TextFile { path: path.clone(), text: read(&root.join(path))? }))
                .collect()
        };
        let sources = read_all(".rs")?;
        let sources = sources.into_iter().map(|file| SourceFile::new(&file.path, file.text));
        Ok(Repository {
            sources: sources.collect(),
            scripts: read_all(".js")?,
            documents: read_all(".md")?,
            manifests: read_all("Cargo.toml")?,
            files,
        })
    }

    /// Returns the sources below `src` folders that are not tests.
    pub(super) fn shipped_sources(&self) -> impl Iterator<Item = &SourceFile> {
        self.sources.iter().filter(|file| file.path.contains("/src/") && !file.is_test())
    }

    #[cfg(test)]
    pub(super) fn of_sources(sources: &[(&str, &str)]) -> Repository {
        Repository {
            files: sources.iter().map(|(path, _)| (*path).to_owned()).collect(),
            sources: sources
                .iter()
                .map(|(path, text)| SourceFile::new(path, (*text).to_owned()))
                .collect(),
            scripts: Vec::new(),
            documents: Vec::new(),
            manifests: Vec::new(),
        }
    }
}

/// Collects the paths of all files below `directory`, relative to `root`.
fn collect(root: &Path, directory: &Path, files: &mut Vec<String>) -> Result<(), String> {
    let cannot = |e: std::io::Error| format!("cannot read {}: {e}", directory.display());
    for entry in fs::read_dir(directory).map_err(cannot)? {
        let path: PathBuf = entry.map_err(cannot)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') || name == "target" || name == "node_modules" {
            continue;
        }
        if path.is_dir() {
            collect(root, &path, files)?;
        } else if let Ok(relative) = path.strip_prefix(root) {
            files.push(relative.to_string_lossy().replace('\\', "/"));
        }
    }
    files.sort();
    Ok(())
}
