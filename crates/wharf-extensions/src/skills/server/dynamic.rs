//! Skills whose content a function generates.

use std::sync::Arc;

use wharf_model::{Body, CacheHint, Error, ReadResult, ResourceInfo};
use wharf_server::{AccessCheck, Extract, Handler, Incoming, IntoContents, Item, Resource, Uri};

use super::catalog::cache_hint;
use crate::skills::format::{FileUri, FrontMatter, SkillUri};

/// Makes the resources of a dynamic skill: its `SKILL.md`, and the template of its other files.
pub(super) type DynamicParts =
    Box<dyn FnOnce(&SkillUri, &ResourceInfo, CacheHint) -> [Resource; 2] + Send + Sync>;

/// Contents of a file. The front matter is added to those of `SKILL.md`.
struct GeneratedFile<R> {
    contents: R,
    front_matter: Option<Arc<FrontMatter>>,
    cache: Option<CacheHint>,
}

/// True for a call that may be cached: results of one with input responses depend on them.
struct IsCacheable(bool);

impl Extract for IsCacheable {
    fn extract(call: &Incoming<'_>) -> Result<Self, Error> {
        let request = call.request();
        let is_plain = request.input_responses().is_none() && request.request_state().is_none();
        Ok(IsCacheable(is_plain))
    }
}

impl<R: IntoContents> IntoContents for GeneratedFile<R> {
    fn into_contents(self, uri: &str, mime: Option<&str>) -> Result<ReadResult, Error> {
        let mut result = self.contents.into_contents(uri, mime)?;
        result.cache = result.cache.or(self.cache);
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
            move |Uri(uri): Uri,
                  visibility: AccessCheck,
                  IsCacheable(is_cacheable): IsCacheable,
                  parameters: A| {
                // Before the function runs: it may use the URI as a path.
                let checked = check(&uri, &skill, &info, &visibility);
                let is_skill_file = checked.as_ref().is_ok_and(|file| file == skill.as_file());
                let front_matter = is_skill_file.then(|| front_matter.clone());
                let contents = checked.map(|_| handler.call(parameters));
                let cache = is_cacheable.then(|| cache_hint(cache, &visibility));
                async move {
                    let contents = contents?.await;
                    Ok::<_, Error>(GeneratedFile { contents, front_matter, cache })
                }
            }
        };
        let read = Arc::new(read);
        let other = read.clone();
        let skill_file = Resource::new(
            skill.as_str(),
            move |uri: Uri, visibility: AccessCheck, call: IsCacheable, parameters: A| {
                read(uri, visibility, call, parameters)
            },
        );
        let template = format!("{}/{{+path}}", skill.root());
        let files = Resource::new(
            template,
            move |uri: Uri, visibility: AccessCheck, call: IsCacheable, parameters: A| {
                other(uri, visibility, call, parameters)
            },
        );
        let files = files.name(format!("Files of the skill {}", skill.name()));
        [describe(skill_file, info), files]
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
