//! `cargo xtask tidy`: rules of the repository that the compiler does not check.

mod crate_dependencies;
mod document_items;
mod document_paths;
mod facade_root;
mod headers;
mod locks;
mod markdown;
mod package_names;
mod prose;
mod repository;
mod revisions;
mod sizes;
mod source;
mod type_names;
mod vocabulary;

use crate::workspace::Workspace;
use repository::Repository;

/// Rules, each of which returns its problems.
const RULES: [fn(&Repository) -> Vec<String>; 11] = [
    headers::check,
    sizes::check,
    type_names::check,
    revisions::check,
    locks::check,
    crate_dependencies::check,
    document_paths::check,
    document_items::check,
    facade_root::check,
    prose::check,
    package_names::check,
];

pub(crate) fn run(workspace: &Workspace) -> Result<(), String> {
    let repository = Repository::read(&workspace.root)?;
    let problems: Vec<String> = RULES.iter().flat_map(|check| check(&repository)).collect();
    if problems.is_empty() { Ok(()) } else { Err(format!("\n  {}\n", problems.join("\n  "))) }
}
