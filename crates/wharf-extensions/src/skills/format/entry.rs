//! Entries of skills: front matter and manifest, as `skills/list` and `skills/get` return them.

use std::collections::HashSet;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value};

use super::{
    FrontMatter, MAX_SKILL_BYTES, MAX_SKILL_RESOURCES,
    digest::{FileDigest, FileMismatch},
    problem::SkillProblem,
    uri::{FileUri, SkillUri},
};

const DYNAMIC: &str = "dynamic";
const SKILL_SCHEME: &str = "skill";

/// Entry of one skill: the URI of its `SKILL.md`, its front matter, and the manifest of its files.
///
/// ```
/// # mod wharf { pub use wharf_extensions::*; }
/// use serde_json::json;
/// use wharf::skills::{SkillEntry, SkillResources};
///
/// let entry: SkillEntry = serde_json::from_value(json!({
///     "uri": "skill://daily/SKILL.md",
///     "frontmatter": {"name": "daily", "description": "Writes the daily report."},
///     "resources": "dynamic",
/// }))?;
/// assert_eq!(entry.resources, SkillResources::Dynamic);
/// assert!(entry.problems().is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SkillEntry {
    /// URI of `SKILL.md`.
    pub uri: String,
    /// All fields of the front matter.
    pub frontmatter: Map<String, Value>,
    /// Files of the skill.
    pub resources: SkillResources,
    /// Members that a later version of the extension defines.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Files of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkillResources {
    /// Manifest of all files, with `SKILL.md`.
    Listed(Vec<ManifestEntry>),
    /// The files are generated, and have no stable digests.
    Dynamic,
}

/// Manifest entry of a file: its URI, its digest and its size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ManifestEntry {
    /// URI of the file.
    pub uri: String,
    /// Digest of its bytes.
    pub digest: FileDigest,
    /// Number of its bytes.
    pub size: u64,
}

impl SkillEntry {
    /// Creates an entry.
    #[must_use]
    pub fn new(uri: &SkillUri, front_matter: FrontMatter, resources: SkillResources) -> Self {
        let (uri, frontmatter) = (uri.as_str().to_owned(), front_matter.into_fields());
        SkillEntry { uri, frontmatter, resources, extra: Map::new() }
    }

    /// Returns the name in the front matter, or an empty string.
    #[must_use]
    pub fn name(&self) -> &str {
        self.frontmatter.get("name").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the description in the front matter, or an empty string.
    #[must_use]
    pub fn description(&self) -> &str {
        self.frontmatter.get("description").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the manifest; `None` if the content is dynamic.
    #[must_use]
    pub fn manifest(&self) -> Option<&[ManifestEntry]> {
        match &self.resources {
            SkillResources::Listed(files) => Some(files),
            SkillResources::Dynamic => None,
        }
    }

    /// Returns the manifest entry of a file. Spellings of its URI are equal that differ only in percent-encoding.
    #[must_use]
    pub fn file(&self, uri: &FileUri) -> Option<&ManifestEntry> {
        let is_it = |file: &&ManifestEntry| FileUri::parse(&file.uri).is_ok_and(|it| it == *uri);
        self.manifest()?.iter().find(is_it)
    }

    /// Returns the size of all files together, in bytes.
    #[must_use]
    pub fn total_size(&self) -> u64 {
        self.manifest().unwrap_or_default().iter().fold(0, |sum, it| sum.saturating_add(it.size))
    }

    /// Returns the violated rules of the entry, which need no files to be read.
    #[must_use]
    pub fn problems(&self) -> Vec<SkillProblem> {
        let front_matter = FrontMatter::from_fields(self.frontmatter.clone());
        let mut problems = front_matter.problems();
        match SkillUri::parse(&self.uri) {
            Ok(uri) => {
                problems.extend(name_problem(&uri, &front_matter));
                problems.extend(self.structure_problems(&uri));
            }
            Err(error) => problems.push(SkillProblem::error(error.to_string())),
        }
        problems.into_iter().map(|it| it.in_file(&self.uri)).collect()
    }

    /// Returns the violated rules of the URI and the manifest.
    pub(crate) fn structure_problems(&self, uri: &SkillUri) -> Vec<SkillProblem> {
        let mut problems = Vec::new();
        let file = uri.as_file();
        if file.scheme() != SKILL_SCHEME {
            let text =
                format!("its scheme is `{}`: `{SKILL_SCHEME}` is recommended", file.scheme());
            problems.push(SkillProblem::warning(text));
        }
        if !file.has_registered_name() {
            let text =
                "the first segment of its URI is not a registered name: use letters and digits";
            problems.push(SkillProblem::warning(text));
        }
        if let Some(files) = self.manifest() {
            check_manifest(uri, files, &mut problems);
            check_limits(files.len(), self.total_size(), &mut problems);
        }
        problems
    }
}

/// Returns the problem of a name that is not that of the skill's directory.
pub(crate) fn name_problem(uri: &SkillUri, front_matter: &FrontMatter) -> Option<SkillProblem> {
    let (name, directory) = (front_matter.name(), uri.name());
    if name == directory || name.is_empty() {
        return None;
    }
    let text = format!(
        "its name is `{name}`, and its directory is `{directory}`: rename one of them, they must be equal"
    );
    Some(SkillProblem { line: front_matter.line_of("name"), ..SkillProblem::error(text) })
}

impl ManifestEntry {
    /// Creates the manifest entry of a file with these bytes.
    #[must_use]
    pub fn of(uri: impl Into<String>, bytes: &[u8]) -> Self {
        ManifestEntry::new(uri, FileDigest::of(bytes), bytes.len() as u64)
    }

    /// Creates a manifest entry.
    #[must_use]
    pub fn new(uri: impl Into<String>, digest: FileDigest, size: u64) -> Self {
        ManifestEntry { uri: uri.into(), digest, size }
    }

    /// Compares the bytes of a file with the entry.
    ///
    /// # Errors
    /// If the size or the digest differs.
    pub fn verify(&self, bytes: &[u8]) -> Result<(), FileMismatch> {
        let (expected, actual) = (self.size, bytes.len() as u64);
        if expected != actual {
            return Err(FileMismatch::Size { expected, actual });
        }
        let (expected, actual) = (self.digest, FileDigest::of(bytes));
        if expected != actual {
            return Err(FileMismatch::Digest { expected, actual });
        }
        Ok(())
    }
}

fn check_manifest(uri: &SkillUri, files: &[ManifestEntry], problems: &mut Vec<SkillProblem>) {
    let mut seen = HashSet::new();
    for file in files {
        let problem = match FileUri::parse(&file.uri) {
            Err(error) => error.to_string(),
            Ok(file) if uri.relative(&file).is_none() => {
                format!("its file `{file}` is not below `{}`", uri.root())
            }
            Ok(file) if seen.contains(&file) => format!("its file `{file}` is listed twice"),
            Ok(file) => {
                seen.insert(file);
                continue;
            }
        };
        problems.push(SkillProblem::error(problem));
    }
    if !seen.contains(uri.as_file()) {
        problems.push(SkillProblem::error(format!("its manifest does not list `{uri}`")));
    }
}

fn check_limits(files: usize, bytes: u64, problems: &mut Vec<SkillProblem>) {
    if files > MAX_SKILL_RESOURCES {
        problems.push(SkillProblem::warning(format!(
            "it has {files} files, and hosts accept {MAX_SKILL_RESOURCES}: split it"
        )));
    }
    if bytes > MAX_SKILL_BYTES {
        problems.push(SkillProblem::warning(format!(
            "its files have {bytes} bytes, and hosts accept {MAX_SKILL_BYTES}: split it"
        )));
    }
}

impl Serialize for SkillResources {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            SkillResources::Listed(files) => files.serialize(serializer),
            SkillResources::Dynamic => serializer.serialize_str(DYNAMIC),
        }
    }
}

impl<'de> Deserialize<'de> for SkillResources {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Wire {
            Files(Vec<ManifestEntry>),
            Word(String),
        }
        match Wire::deserialize(deserializer) {
            Ok(Wire::Files(files)) => Ok(SkillResources::Listed(files)),
            Ok(Wire::Word(word)) if word == DYNAMIC => Ok(SkillResources::Dynamic),
            _ => Err(de::Error::custom(
                "`resources` is neither a list of files with `uri`, `digest` and `size` nor \"dynamic\"",
            )),
        }
    }
}
