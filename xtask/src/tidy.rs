//! `cargo xtask tidy`: rules of the repository that the compiler does not check.

use std::fs;
use std::path::{Path, PathBuf};

use crate::files::read;
use crate::workspace::Workspace;

/// Directories with source files, each of which begins with a `//!` line.
const SOURCES: [&str; 5] = ["bench", "conformance", "crates", "examples", "xtask"];
/// Endings of the file names that documents mention.
const ENDINGS: [&str; 4] = [".rs", ".md", ".mjs", ".txt"];
/// Crates of the workspace, each with those that it may depend on outside of tests. A crate that is not listed may
/// depend on all of them.
const DEPENDENCIES: [(&str, &[&str]); 7] = [
    ("wharf-model", &[]),
    ("wharf-schema", &["wharf-model"]),
    ("wharf-wire", &["wharf-model"]),
    ("wharf-store", &["wharf-model"]),
    ("wharf-client", &["wharf-model", "wharf-schema"]),
    ("wharf-server", &["wharf-model", "wharf-schema", "wharf-store"]),
    ("wharf-transport", &["wharf-model", "wharf-wire", "wharf-client"]),
];

pub(crate) fn run(workspace: &Workspace) -> Result<(), String> {
    let mut files = Vec::new();
    collect(&workspace.root, &workspace.root, &mut files)?;
    let mut problems = missing_headers(&workspace.root, &files)?;
    let map = read(&workspace.root.join("ARCHITECTURE.md"))?;
    let missing = missing_paths(&map, &files);
    problems.extend(
        missing.iter().map(|path| format!("ARCHITECTURE.md names {path}, which does not exist")),
    );
    for (package, allowed) in DEPENDENCIES {
        let manifest = read(&workspace.root.join("crates").join(package).join("Cargo.toml"))?;
        let extra = forbidden_dependencies(&manifest, allowed);
        problems.extend(extra.iter().map(|it| format!("{package} must not depend on {it}")));
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n  ")) }
}

/// Collects the paths of all files below `directory`, relative to `root`, without build output and hidden files.
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
    Ok(())
}

fn missing_headers(root: &Path, files: &[String]) -> Result<Vec<String>, String> {
    let is_source = |file: &&String| {
        let mut parts = file.split('/');
        parts.next().is_some_and(|first| SOURCES.contains(&first))
            && file.contains("/src/")
            && file.ends_with(".rs")
    };
    let mut problems = Vec::new();
    for file in files.iter().filter(is_source) {
        if !read(&root.join(file))?.starts_with("//!") {
            problems
                .push(format!("{file} does not begin with a //! line that says what it contains"));
        }
    }
    Ok(problems)
}

/// Returns the paths that a document names and that no file or folder has: as a whole, or as the end of its path.
fn missing_paths(document: &str, files: &[String]) -> Vec<String> {
    let outside_blocks: String = document.split("```").step_by(2).collect();
    let quoted = outside_blocks.split('`').skip(1).step_by(2);
    let paths = quoted.filter(|text| is_path(text)).flat_map(alternatives);
    paths.filter(|path| !files.iter().any(|file| has_part(file, path))).collect()
}

fn is_path(text: &str) -> bool {
    let plain = text.chars().all(|it| it.is_ascii_alphanumeric() || "_-./{},".contains(it));
    plain
        && (ENDINGS.iter().any(|ending| text.ends_with(ending))
            || text.contains("/src/")
            || text.ends_with('/'))
}

/// Expands `a/{b,c}.rs` to `a/b.rs` and `a/c.rs`.
fn alternatives(text: &str) -> Vec<String> {
    let Some((before, rest)) = text.split_once('{') else { return vec![text.to_owned()] };
    let Some((names, after)) = rest.split_once('}') else { return vec![text.to_owned()] };
    names.split(',').map(|name| format!("{before}{name}{after}")).collect()
}

/// Returns true if `part` is the path of the file, of one of its folders, or the end of either.
fn has_part(file: &str, part: &str) -> bool {
    let (file, part) = (format!("/{file}/"), format!("/{}/", part.trim_matches('/')));
    file.contains(&part)
}

/// Returns the crates of this workspace that the manifest depends on and that are not allowed.
fn forbidden_dependencies(manifest: &str, allowed: &[&str]) -> Vec<String> {
    let mut section = "";
    let mut found = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line.trim();
        }
        let name = line.split([' ', '=', '.']).next().unwrap_or_default();
        if section == "[dependencies]" && name.starts_with("wharf") && !allowed.contains(&name) {
            found.push(name.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_does_not_exist_is_found() {
        let files = ["crates/a/src/b.rs", "crates/a/src/c/mod.rs"].map(str::to_owned);
        let document = "`a/src/{b,d}.rs`, `c/mod.rs`, `crates/a/src/c/`, `Some::Type`, `x y.rs`\n```\n`e.rs`\n```\n`f.rs`";
        assert_eq!(missing_paths(document, &files), ["a/src/d.rs", "f.rs"]);
    }

    #[test]
    fn a_dependency_that_is_not_allowed_is_found() {
        let manifest = "[dependencies]\nwharf-model = {}\nwharf-wire.workspace = true\nserde = \"1\"\n[dev-dependencies]\nwharf-server = {}";
        assert_eq!(forbidden_dependencies(manifest, &["wharf-model"]), ["wharf-wire"]);
    }
}
