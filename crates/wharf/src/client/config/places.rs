//! Where programs keep their servers.

use std::path::{Path, PathBuf};

/// A file in which a program keeps its servers. It need not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The program.
    pub program: &'static str,
    /// The file.
    pub path: PathBuf,
}

/// Files in a project's folder.
const PROJECT: [(&str, &str); 4] = [
    ("Claude Code", ".mcp.json"),
    ("Cursor", ".cursor/mcp.json"),
    ("VS Code", ".vscode/mcp.json"),
    ("Wharf", "mcp.json"),
];

/// Files in the home directory.
const HOME: [(&str, &str); 2] = [("Claude Code", ".claude.json"), ("Cursor", ".cursor/mcp.json")];

/// Files in the directory of the user's settings.
const SETTINGS: [(&str, &str); 4] = [
    ("Wharf", "wharf/mcp.json"),
    ("Claude Desktop", "Claude/claude_desktop_config.json"),
    ("VS Code", "Code/User/mcp.json"),
    ("VS Code", "Code/User/settings.json"),
];

/// Every place where servers may be kept, the project's own first.
#[must_use]
pub fn places() -> Vec<Place> {
    let mut places = Vec::new();
    let mut add = |folder: &Path, table: &[(&'static str, &str)]| {
        let each = table.iter().map(|&(program, file)| (program, folder.join(file)));
        places.extend(each.map(|(program, path)| Place { program, path }));
    };
    for folder in projects() {
        add(&folder, &PROJECT);
    }
    if let Some(home) = std::env::home_dir() {
        add(&home, &HOME);
    }
    if let Some(settings) = settings() {
        add(&settings, &SETTINGS);
    }
    let mut seen = Vec::new();
    places.retain(|place| {
        !seen.contains(&place.path) && {
            seen.push(place.path.clone());
            true
        }
    });
    places
}

/// The folder we are in, and the repository that it belongs to.
fn projects() -> Vec<PathBuf> {
    let Ok(here) = std::env::current_dir() else { return Vec::new() };
    let root = here.ancestors().find(|folder| folder.join(".git").exists());
    let root = root.map(Path::to_path_buf);
    std::iter::once(here.clone()).chain(root).collect()
}

fn settings() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    if cfg!(windows) {
        set("APPDATA")
    } else if cfg!(target_os = "macos") {
        Some(std::env::home_dir()?.join("Library/Application Support"))
    } else {
        set("XDG_CONFIG_HOME").or_else(|| Some(std::env::home_dir()?.join(".config")))
    }
}
