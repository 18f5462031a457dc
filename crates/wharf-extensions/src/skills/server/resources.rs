//! Resources and prompts of the skills, and the notifications of their changes.

use std::sync::Arc;

use wharf_model::{CompletionRequest, Error, ErrorKind};
use wharf_server::{AccessCheck, Part, Prompt, Registry, Resource, Uri};

use super::{
    catalog::SkillCatalog,
    dynamic::describe,
    snapshot::{SKILL_SCHEME, ServedSkill, SkillSnapshot},
};
use crate::skills::format::{FileUri, SkillResources};

const PATH: &str = "path";

/// Returns the resource of a `SKILL.md`, and the prompt of the skill if it has one.
pub(super) fn skill_parts(catalog: &Arc<SkillCatalog>, skill: &ServedSkill) -> Vec<Part> {
    let mut parts = Vec::new();
    if skill.entry.resources != SkillResources::Dynamic {
        let reader = catalog.clone();
        let resource = Resource::blocking(
            skill.uri.as_str(),
            move |Uri(uri): Uri, visibility: AccessCheck| reader.read(&uri, &visibility),
        );
        parts.push(describe(resource, &skill.info).into());
    }
    if skill.has_prompt {
        parts.push(prompt(catalog, skill).into());
    }
    parts
}

/// Returns the template of all files.
pub(super) fn file_template(catalog: &Arc<SkillCatalog>) -> Resource {
    let (reader, completer) = (catalog.clone(), catalog.clone());
    let template = format!("{SKILL_SCHEME}://{{+{PATH}}}");
    Resource::blocking(template, move |Uri(uri): Uri, visibility: AccessCheck| {
        reader.read(&uri, &visibility)
    })
    .name("Files of skills")
    .complete(PATH, move |request: CompletionRequest, visibility: AccessCheck| {
        let snapshot = completer.snapshot();
        let visible = snapshot.files.keys().filter(|uri| snapshot.file(uri, &visibility).is_some());
        let path = |uri: &FileUri| uri.as_str().split_once("://").map(|(_, path)| path.to_owned());
        let mut paths: Vec<String> = visible.filter_map(path).collect();
        paths.sort_unstable();
        request.matching(paths)
    })
}

/// Returns the prompt of a skill: the body of its `SKILL.md`, with the URI of its directory.
fn prompt(catalog: &Arc<SkillCatalog>, skill: &ServedSkill) -> Prompt {
    let (catalog, uri, name) = (catalog.clone(), skill.uri.clone(), prompt_name(skill));
    let read = move |visibility: AccessCheck| {
        let result = catalog.read(uri.as_str(), &visibility).map_err(|error| match error.kind {
            ErrorKind::ResourceNotFound => Error::prompt_not_found(&name),
            _ => error,
        })?;
        let text = result.contents.iter().find_map(|part| match &part.body {
            wharf_model::Body::Text(text) => Some(text.as_str()),
            wharf_model::Body::Blob(_) => None,
        });
        let text = text.ok_or_else(|| Error::new(ErrorKind::InternalError))?;
        Ok::<_, Error>(format!(
            "The files that this skill names are resources below {}/\n\n{}",
            uri.root(),
            body(text)
        ))
    };
    let prompt = Prompt::blocking(prompt_name(skill), read);
    prompt.description(skill.entry.description()).shown_with(skill.info.clone())
}

/// Returns the name of a skill's prompt: its path, because names are not unique.
fn prompt_name(skill: &ServedSkill) -> String {
    skill.uri.path().to_owned()
}

/// Returns the text after the front matter.
fn body(file: &str) -> &str {
    let mut fences = 0;
    let mut rest = file;
    while fences < 2 {
        let Some((line, after)) = rest.split_once('\n') else { return rest };
        fences += usize::from(line.trim_start_matches('\u{feff}').trim_end() == "---");
        rest = after;
    }
    rest.trim_start_matches(['\r', '\n'])
}

/// Changes the resources and prompts of a running server, and notifies subscribers.
pub(super) fn publish_changes(
    catalog: &Arc<SkillCatalog>,
    registry: &Registry,
    old: &SkillSnapshot,
    new: &SkillSnapshot,
) {
    let mut list_changed = false;
    for (uri, skill) in &old.skills {
        let same = new.skills.get(uri).filter(|it| it.info == skill.info);
        if same.is_none() {
            let mut not_added = catalog.not_added.lock();
            if !not_added.remove(skill.uri.as_str()) {
                registry.remove_resource(skill.uri.as_str());
            }
            if skill.has_prompt && !not_added.remove(&prompt_name(skill)) {
                registry.remove_prompt(&prompt_name(skill));
            }
        }
    }
    for (uri, skill) in &new.skills {
        let before = old.skills.get(uri);
        if before.is_none_or(|before| before.info != skill.info) {
            for part in skill_parts(catalog, skill) {
                let key = match &part {
                    Part::Prompt(prompt) => prompt.info().name.clone(),
                    _ => skill.uri.as_str().to_owned(),
                };
                if let Err(problem) = registry.add(part) {
                    tracing::error!(%problem, "cannot add skill");
                    catalog.not_added.lock().insert(key);
                }
            }
        } else if before.is_some_and(|before| before.entry != skill.entry) {
            list_changed = true;
        }
    }
    for (uri, file) in &old.files {
        let is_same = new.files.get(uri).is_some_and(|it| it.content == file.content);
        if !is_same {
            registry.resource_updated_with(uri.as_str(), old.owners_of(file));
        }
    }
    if list_changed {
        registry.resources_changed();
    }
}
