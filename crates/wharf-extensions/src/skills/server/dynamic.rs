//! Skills whose content a function generates.

use std::sync::Arc;

use wharf_model::{Body, CacheHint, Error, ReadResult, ResourceInfo};
use wharf_server::{AccessCheck, Extract, Handler, IntoContents, Item, Resource, Uri};

use crate::skills::format::{FileUri, FrontMatter, SkillUri};

/// Makes the resources of a dynamic skill: its `SKILL.md`, and the template of its other files.
pub(super) type DynamicParts =
    Box<dyn FnOnce(&SkillUri, &ResourceInfo, CacheHint) -> [Resource; 2] + Send + Sync>;

/// Contents, to which the front matter is added if they are those of `SKILL.md`.
struct WithFrontMatter<R> {
    contents: R,
    front_matter: Option<Arc<FrontMatter>>,
}

impl<R: IntoContents> IntoContents for WithFrontMatter<R> {
    fn into_contents(self, uri: &str, mime: Option<&str>) -> Result<ReadResult, Error> {
        let mut result = self.contents.into_contents(uri, mime)?;
        let Some(front_matter) = self.front_matter else { return Ok(result) };
        for part in result.contents.iter_mut().filter(|part| part.uri == uri) {
            if let Body::Text(body) = &mut part.body {
                *body = front_matter.to_file(body);
            }
        }
        Ok(result)
    }
}

/// Returns the function that makes the resources.
pub(super) fn parts<A, F>(front_matter: FrontMatter, handler: F) -> DynamicParts
where
    F: Handler<A>,
    F::Output: IntoContents,
    A: Extract + 'static,
{
    let (front_matter, handler) = (Arc::new(front_matter), Arc::new(handler));
    Box::new(move |skill, info, cache| {
        let read = {
            let (skill, info) = (skill.clone(), info.clone());
            move |Uri(uri): Uri, visibility: AccessCheck, parameters: A| {
                // Before the function runs: it may use the URI as a path.
                let checked = check(&uri, &skill, &info, &visibility);
                let is_skill_file = checked.as_ref().is_ok_and(|file| file == skill.as_file());
                let front_matter = is_skill_file.then(|| front_matter.clone());
                let contents = checked.map(|_| handler.call(parameters));
                async move {
                    Ok::<_, Error>(WithFrontMatter { contents: contents?.await, front_matter })
                }
            }
        };
        let read = Arc::new(read);
        let other = read.clone();
        let skill_file = Resource::new(
            skill.as_str(),
            move |uri: Uri, visibility: AccessCheck, parameters: A| {
                read(uri, visibility, parameters)
            },
        );
        let template = format!("{}/{{+path}}", skill.root());
        let files =
            Resource::new(template, move |uri: Uri, visibility: AccessCheck, parameters: A| {
                other(uri, visibility, parameters)
            });
        let files = files.name(format!("Files of the skill {}", skill.name()));
        [describe(skill_file, info).cache(cache), files.cache(cache)]
    })
}

/// Copies the metadata of a `SKILL.md` to its resource.
pub(super) fn describe(resource: Resource, info: &ResourceInfo) -> Resource {
    let mut resource = resource.name(info.name.as_str());
    if let Some(description) = &info.description {
        resource = resource.description(description.as_str());
    }
    if let Some(mime) = &info.mime_type {
        resource = resource.mime(mime.as_str());
    }
    if let Some(size) = info.size {
        resource = resource.size(size);
    }
    let meta = info.meta.iter().flat_map(|meta| meta.read());
    meta.fold(resource, |resource, (key, value)| resource.meta(key, value))
}

/// Checks that the URI is one of a file of the skill, and that the caller may see the skill.
fn check(
    uri: &str,
    skill: &SkillUri,
    info: &ResourceInfo,
    visibility: &AccessCheck,
) -> Result<FileUri, Error> {
    let file = FileUri::parse(uri).ok().filter(|file| skill.relative(file).is_some());
    let file = file.filter(|_| visibility.allows(Item::Resource(info)));
    file.ok_or_else(|| Error::resource_not_found(uri))
}
