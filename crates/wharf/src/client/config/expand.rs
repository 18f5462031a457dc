//! Variables in configuration files, in the syntax of the programs that own the files.

use std::path::{Path, PathBuf};

/// Values of `${…}`.
pub(super) struct Variables {
    workspace: PathBuf,
}

impl Variables {
    /// Variables for the file at `path`: its workspace is the folder it belongs to.
    pub(super) fn of(path: &Path) -> Self {
        let folder = path.parent().unwrap_or(Path::new("."));
        let mask_value = folder.file_name().and_then(|name| name.to_str());
        let inside = matches!(mask_value, Some(".vscode" | ".cursor"));
        let workspace = if inside { folder.parent().unwrap_or(folder) } else { folder };
        Variables { workspace: workspace.into() }
    }

    /// Folder that the file belongs to.
    pub(super) fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Replaces every variable in `text`; an unset variable is an error.
    pub(super) fn expand(&self, text: &str) -> Result<String, String> {
        let mut expanded = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let Some(length) = rest[start..].find('}') else { break };
            expanded.push_str(&rest[..start]);
            expanded.push_str(&self.value(&rest[start + 2..start + length])?);
            rest = &rest[start + length + 1..];
        }
        expanded.push_str(rest);
        Ok(expanded)
    }

    fn value(&self, name: &str) -> Result<String, String> {
        let folder = || self.workspace.to_string_lossy().into_owned();
        match name {
            "workspaceFolder" => return Ok(folder()),
            "workspaceFolderBasename" => {
                let name = self.workspace.file_name().unwrap_or_default();
                return Ok(name.to_string_lossy().into_owned());
            }
            "userHome" => return home(),
            "pathSeparator" | "/" => return Ok(std::path::MAIN_SEPARATOR.into()),
            _ => {}
        }
        if let Some(input) = name.strip_prefix("input:") {
            return Err(format!(
                "it needs the input {input:?}, which only its own editor can prompt for; \
                 write the value into an environment variable and use ${{env:NAME}}"
            ));
        }
        let (name, default) = of_environment(name);
        match (std::env::var(name), default) {
            (Ok(value), _) => Ok(value),
            (Err(_), Some(default)) => Ok(default.to_owned()),
            (Err(_), None) => Err(format!("the environment variable {name} is not set")),
        }
    }
}

/// Environment variables that `text` reads.
pub(super) fn names(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let Some(length) = rest[start..].find('}') else { break };
        let name = &rest[start + 2..start + length];
        if !EDITOR_VARIABLES.contains(&name) && !name.starts_with("input:") {
            names.push(of_environment(name).0.to_owned());
        }
        rest = &rest[start + length + 1..];
    }
    names
}

/// Variables that editors define, not the environment.
const EDITOR_VARIABLES: [&str; 5] =
    ["workspaceFolder", "workspaceFolderBasename", "userHome", "pathSeparator", "/"];

/// Name of an environment variable, and its default value.
fn of_environment(name: &str) -> (&str, Option<&str>) {
    let name = name.strip_prefix("env:").unwrap_or(name);
    match name.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (name, None),
    }
}

fn home() -> Result<String, String> {
    let home = std::env::home_dir().ok_or("there is no home directory")?;
    Ok(home.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(text: &str) -> Result<String, String> {
        Variables::of(Path::new("/work/shop/.vscode/mcp.json")).expand(text)
    }

    #[test]
    fn variables_are_replaced_anywhere() {
        for (text, expected) in [
            ("plain", "plain"),
            ("${workspaceFolder}/bin", "/work/shop/bin"),
            ("${workspaceFolderBasename}", "shop"),
            ("a${WHARF_NOT_SET:-b}c", "abc"),
            ("${env:WHARF_NOT_SET:-}", ""),
            ("$PATH ${unclosed", "$PATH ${unclosed"),
        ] {
            assert_eq!(expand(text).as_deref(), Ok(expected), "{text}");
        }
        assert_eq!(expand("${PATH}"), std::env::var("PATH").map_err(|error| error.to_string()));
    }

    #[test]
    fn unset_variables_are_named() {
        assert!(expand("${WHARF_NOT_SET}").is_err_and(|problem| problem.contains("WHARF_NOT_SET")));
        assert!(expand("${input:key}").is_err_and(|problem| problem.contains("\"key\"")));
    }
}
