//! Locations of configuration files.

use std::path::{Path, PathBuf};

use crate::client::config::expand::Variables;

/// Configuration file of a program. It need not exist.
///
/// ```
/// use wharf::client::config::config_locations;
///
/// for location in config_locations().into_iter().filter(|it| it.path.exists()) {
///     println!("{}: {}", location.program, location.path.display());
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigLocation {
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

/// All locations of configuration files, the project's own first.
///
/// ```
/// use wharf::client::config::config_locations;
///
/// assert!(config_locations().iter().any(|it| it.path.ends_with(".mcp.json")));
/// ```
#[must_use]
pub fn config_locations() -> Vec<ConfigLocation> {
    let mut locations: Vec<ConfigLocation> =
        projects().iter().flat_map(|folder| within(folder, &PROJECT)).collect();
    locations.extend(user_locations());
    let mut seen = Vec::new();
    locations.retain(|place| {
        !seen.contains(&place.path) && {
            seen.push(place.path.clone());
            true
        }
    });
    locations
}

/// True if the file is one of the user's own settings, which no project can write to. A link to one
/// from a project is not: `${workspaceFolder}` would be the project there.
pub(super) fn is_user_file(path: &Path) -> bool {
    let real = |path: &Path| (real(path), workspace(path));
    let path = real(path);
    user_locations().any(|place| real(&place.path) == path)
}

/// Canonical folder that the file belongs to.
pub(super) fn workspace(path: &Path) -> PathBuf {
    match Variables::of(path).workspace() {
        empty if empty.as_os_str().is_empty() => real(Path::new(".")),
        folder => real(folder),
    }
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.into())
}

/// Locations of the user's own settings.
fn user_locations() -> impl Iterator<Item = ConfigLocation> {
    let home = std::env::home_dir().into_iter().flat_map(|folder| within(&folder, &HOME));
    home.chain(settings().into_iter().flat_map(|folder| within(&folder, &SETTINGS)))
}

fn within(folder: &Path, table: &[(&'static str, &str)]) -> Vec<ConfigLocation> {
    let place = |&(program, file): &(&'static str, &str)| ConfigLocation {
        program,
        path: folder.join(file),
    };
    table.iter().map(place).collect()
}

/// Current directory, and the repository that it belongs to.
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
