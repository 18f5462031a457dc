//! Format of skills: front matter, entries with their manifests, URIs, and the rules for all of them.
//!
//! Shared by the server and the client side.

mod digest;
mod entry;
mod front_matter;
mod names;
mod problem;
mod scalar;
mod uri;
mod yaml;

#[cfg(feature = "server")]
pub(crate) use self::entry::name_problem;
pub use self::{
    digest::{FileDigest, FileMismatch, InvalidDigest},
    entry::{ManifestEntry, SkillEntry, SkillResources},
    front_matter::{FrontMatter, FrontMatterError, differing_field},
    names::check_skill_name,
    problem::{ProblemLevel, SkillProblem},
    uri::{FileUri, SkillUri, SkillUriError},
};

/// Identifier of the extension.
pub const SKILLS_EXTENSION: &str = "io.modelcontextprotocol/skills";
/// Setting that declares [`DIRECTORY_METHOD`].
pub const DIRECTORY_SETTING: &str = "directoryRead";
/// Method that lists the entries of all skills.
pub const LIST_METHOD: &str = "skills/list";
/// Method that returns the entry of one skill.
pub const GET_METHOD: &str = "skills/get";
/// Method that lists the children of a directory.
pub const DIRECTORY_METHOD: &str = "resources/directory/read";
/// Media type of directories.
pub const DIRECTORY_MIME: &str = "inode/directory";
/// Name of the file that every skill has in its root directory.
pub const SKILL_FILE: &str = "SKILL.md";
/// Maximum number of files of a skill that every host accepts.
pub const MAX_SKILL_RESOURCES: usize = 512;
/// Maximum size of all files of a skill together, in bytes, that every host accepts.
pub const MAX_SKILL_BYTES: u64 = 16 * 1024 * 1024;
