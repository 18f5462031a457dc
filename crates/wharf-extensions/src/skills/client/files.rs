//! Directories of a skill.

use std::collections::BTreeMap;

use serde_json::json;
use wharf_client::ClientHandle;
use wharf_model::ResourceInfo;

use super::{SkillError, SkillRefused, listed::HeldEntry};
use crate::skills::format::{
    DIRECTORY_METHOD, DIRECTORY_MIME, DIRECTORY_SETTING, FileDigest, FileUri, ManifestEntry,
    SKILLS_EXTENSION,
};

/// Child of a directory of a skill: a file or a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillChild {
    /// Path in the skill, with `/` between its parts.
    pub path: String,
    /// True for a directory.
    pub is_directory: bool,
    /// Size in the entry.
    pub size: Option<u64>,
    /// Digest in the entry.
    pub digest: Option<FileDigest>,
}

/// Returns the children of a directory by the manifest, sorted by path.
pub(super) fn listed_children(
    held: &HeldEntry,
    manifest: &[ManifestEntry],
    directory: &str,
) -> Result<Vec<SkillChild>, SkillRefused> {
    let mut children = BTreeMap::new();
    let prefix = prefix(directory);
    for file in manifest {
        let path = FileUri::parse(&file.uri).ok().and_then(|uri| held.uri.relative(&uri));
        let path = path.unwrap_or_default();
        let Some(below) = path.strip_prefix(&prefix).filter(|it| !it.is_empty()) else { continue };
        let child = match below.split_once('/') {
            Some((name, _)) => SkillChild {
                path: format!("{prefix}{name}"),
                is_directory: true,
                size: None,
                digest: None,
            },
            None => SkillChild {
                path,
                is_directory: false,
                size: Some(file.size),
                digest: Some(file.digest),
            },
        };
        children.insert(child.path.clone(), child);
    }
    if children.is_empty() {
        return Err(SkillRefused::unlisted(&held.entry.uri, directory));
    }
    Ok(children.into_values().collect())
}

/// Requests the children of a directory of a skill with generated files.
pub(super) async fn requested_children(
    client: &ClientHandle,
    held: &HeldEntry,
    directory: &str,
) -> Result<Vec<SkillChild>, SkillError> {
    let capabilities = client.capabilities();
    let settings = capabilities.extensions.get(SKILLS_EXTENSION);
    if settings.is_none_or(|it| it[DIRECTORY_SETTING] != true) {
        return Err(SkillError::undeclared("the setting `directoryRead`"));
    }
    let prefix = prefix(directory);
    let unlisted = |file: &str| SkillRefused::unlisted(&held.entry.uri, file);
    let uri = match prefix.trim_end_matches('/') {
        "" => held.uri.root().to_owned(),
        path => held.uri.file(path).map_err(|_| unlisted(directory))?.as_str().to_owned(),
    };
    let mut list =
        client.request_list::<ResourceInfo>(DIRECTORY_METHOD, json!({"uri": uri}), "resources");
    let mut children = Vec::new();
    while let Some(child) = list.next().await {
        let child = child?;
        let path = FileUri::parse(&child.uri).ok().and_then(|uri| held.uri.relative(&uri));
        let name = path.as_deref().and_then(|path| path.strip_prefix(&prefix));
        let Some(path) = path.as_ref().filter(|_| name.is_some_and(|it| !it.contains('/'))) else {
            return Err(unlisted(&child.uri).into());
        };
        let is_directory = child.mime_type.as_deref() == Some(DIRECTORY_MIME);
        children.push(SkillChild {
            path: path.clone(),
            is_directory,
            size: child.size,
            digest: None,
        });
    }
    Ok(children)
}

/// Returns what the paths of the children begin with.
fn prefix(directory: &str) -> String {
    let path = directory.strip_prefix("./").unwrap_or(directory).trim_matches('/');
    if path.is_empty() || path == "." { String::new() } else { format!("{path}/") }
}
