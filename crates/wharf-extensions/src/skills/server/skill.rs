//! Skills of a server: their sources and options.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use wharf_model::CacheHint;
use wharf_server::{Extract, Handler, IntoContents, RouterBuilder};

use super::{
    dynamic::{self, DynamicParts},
    embedded::EmbeddedSkills,
    register,
    snapshot::{SKILL_SCHEME, SkillSnapshot},
};
use crate::skills::format::{FrontMatter, SkillProblem, SkillUri, SkillUriError};

/// Skills that a server offers: directories of instructions for models.
///
/// A directory has one directory for each skill, also below directories that only group them: `skills/acme/refunds/SKILL.md`
/// is served as `skill://acme/refunds/SKILL.md`. Files and directories whose names begin with `.` are not served.
///
/// ```
/// # mod wharf { pub use wharf_extensions::*; pub mod server { pub use wharf_server::*; } }
/// use wharf::{server::Router, skills::Skills};
///
/// # let directory = std::env::temp_dir().join(format!("wharf-skills-{}", std::process::id()));
/// # std::fs::create_dir_all(directory.join("refunds")).unwrap();
/// # std::fs::write(directory.join("refunds/SKILL.md"), "---\nname: refunds\ndescription: Refunds an order.\n---\n").unwrap();
/// let skills = Skills::dir(&directory).prefix("acme").watch(true);
/// assert!(skills.lint().is_empty());
/// let router = skills.add_to(Router::builder()).build()?;
/// # std::fs::remove_dir_all(directory).unwrap();
/// # let _ = router;
/// # Ok::<(), wharf::server::BuildError>(())
/// ```
#[derive(Debug, Default)]
#[must_use]
pub struct Skills {
    pub(super) sources: Vec<SkillSource>,
    pub(super) dynamic: Vec<DynamicSkill>,
    pub(super) cache: Option<CacheHint>,
}

/// One skill of a server: a directory, or content that a function generates.
///
/// ```
/// # mod wharf { pub use wharf_extensions::*; pub use wharf_server::*; }
/// use wharf::{Uri, skills::{FrontMatter, Skill}};
///
/// let refunds = Skill::dir("docs/refunds").prefix("acme/billing");
/// let front_matter = FrontMatter::new("daily", "Writes the daily report.");
/// let daily = Skill::dynamic(front_matter, async |Uri(uri): Uri| {
///     uri.ends_with("/SKILL.md").then(|| "# Report of today\n".to_owned())
/// });
/// # let _ = (refunds, daily);
/// ```
#[derive(Debug)]
#[must_use]
pub struct Skill(Skills);

/// Source of skills, with its options.
#[derive(Clone, Debug)]
pub(super) struct SkillSource {
    pub(super) kind: SourceKind,
    /// Segments before the paths of the skills.
    pub(super) prefix: Vec<String>,
    pub(super) is_watched: bool,
    pub(super) has_prompts: bool,
}

#[derive(Clone, Debug)]
pub(super) enum SourceKind {
    /// Directory with directories of skills.
    Directory(PathBuf),
    /// Directory of one skill, with its name.
    OneSkill {
        path: PathBuf,
        name: String,
    },
    Embedded(EmbeddedSkills),
    /// Generated content: front matter, and the paths of files besides `SKILL.md`.
    Dynamic {
        front_matter: FrontMatter,
        files: Vec<String>,
    },
}

/// Handler of a dynamic skill, with the position of its source.
pub(super) struct DynamicSkill {
    pub(super) source: usize,
    pub(super) parts: DynamicParts,
}

impl Skills {
    /// Creates skills from a directory that has a directory for each skill. It is read when the server is built, and again
    /// if a file no longer is what it was.
    pub fn dir(path: impl Into<PathBuf>) -> Self {
        Skills::from(SkillSource::new(SourceKind::Directory(path.into())))
    }

    /// Watches the directories for changes, in development: subscribers are notified. Skills with an error keep their
    /// last content, and the error is logged.
    pub fn watch(self, on: bool) -> Self {
        self.each(|source| source.is_watched = on)
    }

    /// Puts path segments before the paths of the skills, such as `acme/billing`.
    pub fn prefix(self, prefix: &str) -> Self {
        let segments = prefix.split('/').filter(|it| !it.is_empty()).map(str::to_owned);
        let prefix: Vec<String> = segments.collect();
        self.each(|source| source.prefix.clone_from(&prefix))
    }

    /// Offers each skill as a prompt too, for clients that do not support skills. Dynamic skills are not among them.
    pub fn as_prompts(self) -> Self {
        self.each(|source| source.has_prompts = true)
    }

    /// Sets the time for which clients may cache lists and files. The default is no caching.
    pub fn cache(self, hint: CacheHint) -> Self {
        Skills { cache: Some(hint), ..self }
    }

    /// Adds other skills, which keep their options.
    pub fn and(mut self, other: impl Into<Skills>) -> Self {
        let Skills { sources, dynamic, cache } = other.into();
        let before = self.sources.len();
        self.sources.extend(sources);
        let moved = |it: DynamicSkill| DynamicSkill { source: it.source + before, ..it };
        self.dynamic.extend(dynamic.into_iter().map(moved));
        Skills { cache: cache.or(self.cache), ..self }
    }

    /// Returns all violated rules. Errors keep the server from being built, warnings are logged.
    #[must_use]
    pub fn lint(&self) -> Vec<SkillProblem> {
        SkillSnapshot::read(&self.sources).1
    }

    /// Adds the extension to a server: its methods, the resources of the skills, and their prompts.
    pub fn add_to(self, router: RouterBuilder) -> RouterBuilder {
        register::add_to(self, router)
    }

    fn each(mut self, set: impl FnMut(&mut SkillSource)) -> Self {
        self.sources.iter_mut().for_each(set);
        self
    }
}

impl Skill {
    /// Creates a skill from its directory, whose name is the name of the skill.
    pub fn dir(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let name = directory_name(&path);
        Skill(SkillSource::new(SourceKind::OneSkill { path, name }).into())
    }

    /// Creates a skill whose content a function generates: an async function of the extractors of a resource, which is
    /// called for `SKILL.md` and for every other URI below the skill's directory, and takes the [`Uri`](wharf_server::Uri).
    /// It returns `None` for files that do not exist.
    ///
    /// The front matter is put before the text of `SKILL.md`, so the function returns only its body. Hosts cannot verify
    /// the content, and may decline the skill.
    pub fn dynamic<A, F>(front_matter: FrontMatter, handler: F) -> Self
    where
        F: Handler<A>,
        F::Output: IntoContents,
        A: Extract + 'static,
    {
        let parts = dynamic::parts(front_matter.clone(), handler);
        let kind = SourceKind::Dynamic { front_matter, files: Vec::new() };
        let dynamic = vec![DynamicSkill { source: 0, parts }];
        Skill(Skills { dynamic, ..SkillSource::new(kind).into() })
    }

    /// Names a file of a dynamic skill, for clients that list its directories.
    pub fn file(self, path: impl Into<String>) -> Self {
        let path = path.into();
        Skill(self.0.each(|source| {
            if let SourceKind::Dynamic { files, .. } = &mut source.kind {
                files.push(path.clone());
            }
        }))
    }

    /// Puts path segments before the name of the skill, such as `acme/billing`.
    pub fn prefix(self, prefix: &str) -> Self {
        Skill(self.0.prefix(prefix))
    }

    /// Watches the directory for changes, as [`Skills::watch`] does.
    pub fn watch(self, on: bool) -> Self {
        Skill(self.0.watch(on))
    }

    /// Offers the skill as a prompt too, as [`Skills::as_prompts`] does.
    pub fn as_prompts(self) -> Self {
        Skill(self.0.as_prompts())
    }
}

impl SkillSource {
    fn new(kind: SourceKind) -> Self {
        SkillSource { kind, prefix: Vec::new(), is_watched: false, has_prompts: false }
    }

    /// Returns the name of the source for messages.
    pub(super) fn label(&self) -> String {
        match &self.kind {
            SourceKind::Directory(path) | SourceKind::OneSkill { path, .. } => {
                path.display().to_string()
            }
            SourceKind::Embedded(skills) => skills.directory.to_owned(),
            SourceKind::Dynamic { front_matter, .. } => {
                format!("dynamic skill `{}`", front_matter.name())
            }
        }
    }

    /// Returns the URI of a dynamic skill.
    pub(super) fn dynamic_uri(&self) -> Result<SkillUri, SkillUriError> {
        let name = match &self.kind {
            SourceKind::Dynamic { front_matter, .. } => front_matter.name(),
            _ => "",
        };
        SkillUri::from_path(SKILL_SCHEME, self.prefix.iter().map(String::as_str).chain([name]))
    }
}

impl From<SkillSource> for Skills {
    fn from(source: SkillSource) -> Self {
        Skills { sources: vec![source], ..Skills::default() }
    }
}

impl From<Skill> for Skills {
    fn from(skill: Skill) -> Self {
        skill.0
    }
}

impl From<EmbeddedSkills> for Skills {
    fn from(skills: EmbeddedSkills) -> Self {
        SkillSource::new(SourceKind::Embedded(skills)).into()
    }
}

macro_rules! from_path {
    ($($Path:ty)*) => {
        $(impl From<$Path> for Skills {
            fn from(path: $Path) -> Self {
                Skills::dir(path)
            }
        })*
    };
}

from_path! { &str String &Path PathBuf }

impl fmt::Debug for DynamicSkill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamicSkill").field("source", &self.source).finish_non_exhaustive()
    }
}

/// Returns the name of a directory, also of one such as `.`.
fn directory_name(path: &Path) -> String {
    let resolved = || path.canonicalize().ok()?.file_name().map(|name| name.to_os_string());
    let name = path.file_name().map(|name| name.to_os_string()).or_else(resolved);
    name.unwrap_or_default().to_string_lossy().into_owned()
}
