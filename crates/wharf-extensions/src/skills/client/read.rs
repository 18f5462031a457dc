//! Reading of a file of a skill, and its checks.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use wharf_client::ClientHandle;
use wharf_model::{Body, ReadResult};

use super::{SkillError, SkillRefused, listed::HeldEntry};
use crate::skills::format::{
    FileUri, FrontMatter, MAX_SKILL_BYTES, ManifestEntry, differing_field,
};

/// Content of a file of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillContent {
    /// URI of the file.
    pub uri: String,
    /// Media type.
    pub mime_type: Option<String>,
    /// Bytes of the file.
    pub bytes: Vec<u8>,
    /// True if size and digest are those of the entry; false for generated files, which have none.
    pub is_verified: bool,
}

impl SkillContent {
    /// Returns the content as text; `None` if it is not UTF-8.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok()
    }
}

/// File to read.
pub(super) struct ReadTarget {
    /// Spelling of the entry, which the request has.
    uri: String,
    file: FileUri,
    /// `None` for generated files.
    listed: Option<ManifestEntry>,
}

impl ReadTarget {
    /// Returns the `SKILL.md` of a skill.
    pub(super) fn instructions(held: &HeldEntry) -> Self {
        let file = held.uri.as_file().clone();
        let listed = held.entry.file(&file).cloned();
        let uri = listed.as_ref().map_or(&held.entry.uri, |it| &it.uri).clone();
        ReadTarget { uri, file, listed }
    }

    /// Finds a file by its path or its URI.
    pub(super) fn of(held: &HeldEntry, file: &str) -> Result<Self, SkillRefused> {
        let of_skill = |uri: &FileUri| held.uri.relative(uri).is_some();
        let mut candidates = spellings(held, file).into_iter().filter(of_skill);
        let target = match held.entry.manifest() {
            Some(_) => candidates.find_map(|file| {
                let listed = held.entry.file(&file)?.clone();
                Some(ReadTarget { uri: listed.uri.clone(), file, listed: Some(listed) })
            }),
            None => candidates.next().map(|file| ReadTarget {
                uri: file.as_str().to_owned(),
                file,
                listed: None,
            }),
        };
        target.ok_or_else(|| SkillRefused::unlisted(&held.entry.uri, file))
    }
}

/// Returns the URIs that a text may mean: a URI, a path, or a relative reference as in Markdown.
fn spellings(held: &HeldEntry, file: &str) -> Vec<FileUri> {
    if file.contains("://") {
        return FileUri::parse(file).into_iter().collect();
    }
    let file = file.strip_prefix("./").unwrap_or(file);
    let (without_fragment, _) = file.split_once('#').unwrap_or((file, ""));
    let reference = format!("{}/{without_fragment}", held.uri.root());
    [held.uri.file(file), FileUri::parse(&reference)].into_iter().flatten().collect()
}

/// Reads a file and checks it. An outdated result in the cache of the client is requested once more.
pub(super) async fn read(
    client: &ClientHandle,
    held: &HeldEntry,
    target: &ReadTarget,
) -> Result<SkillContent, SkillError> {
    let result = client.read(&*target.uri).await?;
    let may_be_cached = result.cache.is_some_and(|hint| hint.ttl_ms > 0);
    match check(held, target, result) {
        Err(_) if may_be_cached => {
            let fresh = client.read(&*target.uri).no_cache().await?;
            Ok(check(held, target, fresh)?)
        }
        checked => Ok(checked?),
    }
}

fn check(
    held: &HeldEntry,
    target: &ReadTarget,
    result: ReadResult,
) -> Result<SkillContent, SkillRefused> {
    let no_contents = |problem: String| {
        let file = target.uri.clone();
        SkillRefused::NoContents { file, problem }
    };
    let is_it = |uri: &str| FileUri::parse(uri).is_ok_and(|it| it == target.file);
    let contents = result.contents.into_iter().find(|it| is_it(&it.uri));
    let contents = contents
        .ok_or_else(|| no_contents("the server returned no contents with its URI".to_owned()))?;
    let bytes = match contents.body {
        Body::Text(text) => text.into_bytes(),
        Body::Blob(blob) => STANDARD
            .decode(blob)
            .map_err(|error| no_contents(format!("the server sent invalid base64: {error}")))?,
    };
    match &target.listed {
        Some(listed) => listed
            .verify(&bytes)
            .map_err(|mismatch| SkillRefused::mismatch(&target.uri, mismatch))?,
        None if bytes.len() as u64 > MAX_SKILL_BYTES => {
            let (skill, bytes) = (held.entry.uri.clone(), bytes.len() as u64);
            return Err(SkillRefused::TooLarge { skill, files: 1, bytes });
        }
        None => {}
    }
    if target.file == *held.uri.as_file() {
        check_front_matter(held, &bytes)?;
    }
    let is_verified = target.listed.is_some();
    Ok(SkillContent { uri: target.uri.clone(), mime_type: contents.mime_type, bytes, is_verified })
}

/// Compares the front matter of `SKILL.md` with that of the entry.
fn check_front_matter(held: &HeldEntry, file: &[u8]) -> Result<(), SkillRefused> {
    let refused = |field: Option<&str>, problem: String| {
        let skill = held.entry.uri.clone();
        SkillRefused::FrontMatter { skill, field: field.map(str::to_owned), problem }
    };
    let front_matter = FrontMatter::parse(file).map_err(|error| {
        refused(None, format!("the front matter of its file is invalid: {error}"))
    })?;
    match differing_field(&held.entry.frontmatter, front_matter.fields()) {
        None => Ok(()),
        Some(field) => {
            let problem = format!("the field `{field}` of its file is not that of its entry");
            Err(refused(Some(field), problem))
        }
    }
}
