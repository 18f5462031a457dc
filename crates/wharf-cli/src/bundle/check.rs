//! `wharf pack --check`: checks a bundle without unpacking it.

use std::{fs, path::Path};

use serde_json::{Map, Value, json};

use crate::{
    bundle::{
        archive::{MANIFEST, MAX_MANIFEST, read_bundle},
        manifest, sha256_of,
    },
    context::Context,
    error::CliError,
    terminal::{bytes, clean, clean_line},
};

/// Checks a bundle, prints its contents, and fails if there are problems.
pub(super) fn check_bundle(file: &Path, context: &Context) -> Result<(), CliError> {
    let cannot = |why: String| CliError::invalid_file(format!("{}: {why}", file.display()));
    let content = fs::read(file).map_err(|error| cannot(error.to_string()))?;
    let mut bundle = read_bundle(&content).map_err(cannot)?;
    let found = bundle.files.iter().find(|it| it.name == MANIFEST);
    let manifest = match found {
        None => Err(format!("the bundle has no {MANIFEST}")),
        Some(it) if it.size > MAX_MANIFEST => Err(format!("{MANIFEST} is larger than 1 MiB")),
        Some(it) => serde_json::from_slice::<Map<String, Value>>(&it.content)
            .map_err(|error| format!("{MANIFEST}: {error}")),
    };
    let manifest = match manifest {
        Ok(manifest) => {
            bundle.problems.extend(manifest::problems(&manifest, &bundle.files));
            manifest
        }
        Err(problem) => {
            bundle.problems.push(problem);
            Map::new()
        }
    };
    let sha256 = sha256_of(&content);
    let out = context.out;
    if out.is_json() {
        let files = bundle
            .files
            .iter()
            .map(|it| json!({"name": it.name, "bytes": it.size, "executable": it.is_executable}));
        out.json(&json!({
            "file": file.to_string_lossy(), "bytes": content.len(), "sha256": sha256,
            "signed": bundle.is_signed, "files": files.collect::<Vec<_>>(), "manifest": manifest,
            "problems": bundle.problems,
        }))?;
    } else {
        let text = |key: &str| manifest.get(key).and_then(Value::as_str).unwrap_or("?");
        let mut lines =
            vec![format!("{} {}", clean_line(text("name")), clean_line(text("version")))];
        lines.extend(bundle.files.iter().map(|it| {
            let mode = if it.is_executable { "0755" } else { "0644" };
            format!(
                "  {mode}  {}  {}",
                clean_line(&it.name),
                bytes(usize::try_from(it.size).unwrap_or(usize::MAX))
            )
        }));
        lines.push(format!("sha256 {sha256}"));
        lines.extend(bundle.problems.iter().map(|it| format!("problem: {}", clean(it))));
        out.lines(&lines)?;
    }
    match bundle.problems.len() {
        0 => Ok(()),
        count => Err(cannot(format!("the bundle has {count} problems"))),
    }
}
