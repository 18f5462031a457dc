//! Methods of the extension: `skills/list`, `skills/get`, `resources/directory/read`.

use std::sync::Arc;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use wharf_model::{CacheHint, Error, ErrorKind, ResourceInfo, excerpt};
use wharf_server::{AccessCheck, Json, ProtocolExtension, RawArgs};

use super::catalog::SkillCatalog;
use crate::skills::format::{
    DIRECTORY_METHOD, DIRECTORY_SETTING, FileUri, GET_METHOD, LIST_METHOD, SKILLS_EXTENSION,
    SkillEntry, SkillUri,
};

/// Maximum number of entries of a page.
const PAGE_SIZE: usize = 100;
const CURSOR_PREFIX: &str = "after:";

#[derive(Deserialize)]
struct ListParams {
    #[serde(default)]
    cursor: Option<String>,
}

#[derive(Deserialize)]
struct GetParams {
    uri: String,
}

#[derive(Deserialize)]
struct DirectoryParams {
    uri: String,
    #[serde(default)]
    cursor: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListResult {
    skills: Vec<SkillEntry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    #[serde(flatten)]
    cache: CacheHint,
}

#[derive(Serialize)]
struct GetResult {
    skill: SkillEntry,
    #[serde(flatten)]
    cache: CacheHint,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DirectoryResult {
    resources: Vec<ResourceInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// Not in the specification, but the TypeScript SDK 2.4 requires it.
    #[serde(flatten)]
    cache: CacheHint,
}

/// Returns the extension with its methods.
pub(super) fn extension(catalog: &Arc<SkillCatalog>) -> ProtocolExtension {
    let (lists, gets, directories) = (catalog.clone(), catalog.clone(), catalog.clone());
    ProtocolExtension::new(SKILLS_EXTENSION)
        .setting(DIRECTORY_SETTING, true)
        .method(LIST_METHOD, move |params: RawArgs, visibility: AccessCheck| {
            let result = list(&lists, &params, &visibility);
            async move { result.map(Json) }
        })
        .method(GET_METHOD, move |params: RawArgs, visibility: AccessCheck| {
            let result = get(&gets, &params, &visibility);
            async move { result.map(Json) }
        })
        .method(DIRECTORY_METHOD, move |params: RawArgs, visibility: AccessCheck| {
            let result = read_directory(&directories, &params, &visibility);
            async move { result.map(Json) }
        })
}

fn list(
    catalog: &SkillCatalog,
    params: &RawArgs,
    visibility: &AccessCheck,
) -> Result<ListResult, Error> {
    let ListParams { cursor } = read_params(params)?;
    let snapshot = catalog.snapshot();
    let skills = snapshot.visible_skills(visibility).map(|skill| (skill.uri.as_file(), skill));
    let (page, next_cursor) = page(skills, cursor.as_deref())?;
    let skills = page.into_iter().map(|skill| skill.entry.clone()).collect();
    Ok(ListResult { skills, next_cursor, cache: catalog.cache_hint(visibility) })
}

fn get(
    catalog: &SkillCatalog,
    params: &RawArgs,
    visibility: &AccessCheck,
) -> Result<GetResult, Error> {
    let GetParams { uri } = read_params(params)?;
    let unknown =
        || Error::invalid_params(format_args!("no skill is served at `{}`", excerpt(&uri)));
    let skill_uri = SkillUri::parse(&uri).map_err(Error::invalid_params)?;
    let snapshot = catalog.snapshot();
    let skill = snapshot.skill(skill_uri.as_file(), visibility).ok_or_else(unknown)?;
    // Clients compare the URI with the one that they sent.
    let skill = SkillEntry { uri, ..skill.entry.clone() };
    Ok(GetResult { skill, cache: catalog.cache_hint(visibility) })
}

fn read_directory(
    catalog: &SkillCatalog,
    params: &RawArgs,
    visibility: &AccessCheck,
) -> Result<DirectoryResult, Error> {
    let DirectoryParams { uri, cursor } = read_params(params)?;
    let directory = FileUri::parse(&uri).map_err(Error::invalid_params)?;
    let snapshot = catalog.snapshot();
    let Some(children) = snapshot.children(&directory, visibility) else {
        let is_file = snapshot.file(&directory, visibility).is_some();
        let problem = if is_file { "is not a directory" } else { "does not exist" };
        return Err(Error::invalid_params(format_args!("`{}` {problem}", excerpt(&uri))));
    };
    let (page, next_cursor) = page(children, cursor.as_deref())?;
    let resources = page.into_iter().cloned().collect();
    Ok(DirectoryResult { resources, next_cursor, cache: catalog.cache_hint(visibility) })
}

fn read_params<T: DeserializeOwned>(params: &RawArgs) -> Result<T, Error> {
    serde_json::from_str(params.0.get()).map_err(Error::invalid_params)
}

/// Returns the entries after the one that the cursor names, and the cursor of the next page.
fn page<'a, T>(
    entries: impl Iterator<Item = (&'a FileUri, T)>,
    cursor: Option<&str>,
) -> Result<(Vec<T>, Option<String>), Error> {
    let mut entries = entries.peekable();
    if let Some(cursor) = cursor {
        let invalid = || Error::new(ErrorKind::InvalidCursor);
        let last = cursor.strip_prefix(CURSOR_PREFIX).ok_or_else(invalid)?;
        entries.by_ref().find(|(uri, _)| uri.as_str() == last).ok_or_else(invalid)?;
    }
    let mut last = None;
    let page = entries.by_ref().take(PAGE_SIZE).map(|(uri, entry)| {
        last = Some(uri);
        entry
    });
    let page = page.collect();
    let next = last.filter(|_| entries.peek().is_some());
    Ok((page, next.map(|uri| format!("{CURSOR_PREFIX}{uri}"))))
}
