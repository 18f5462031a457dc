//! Snapshot of all skills of a server: entries, files and directories of one moment.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use wharf_model::ResourceInfo;
use wharf_server::{AccessCheck, Item};

use super::{
    media_type::media_type,
    skill::{SkillSource, SourceKind},
    source::{FileLocation, SourceFile, SourceListing},
};
use crate::skills::format::{
    DIRECTORY_MIME, FileUri, FrontMatter, ManifestEntry, SKILL_FILE, SkillEntry, SkillProblem,
    SkillResources, SkillUri, name_problem,
};

pub(super) const SKILL_SCHEME: &str = "skill";
const SKILL_MIME: &str = "text/markdown";
/// Prefix of the `_meta` keys of skill resources.
const META_PREFIX: &str = "io.modelcontextprotocol.skills/";

/// All skills of a server.
#[derive(Default)]
pub(super) struct SkillSnapshot {
    /// Skills by the URI of their `SKILL.md`.
    pub(super) skills: BTreeMap<FileUri, ServedSkill>,
    pub(super) files: HashMap<FileUri, ServedFile>,
    pub(super) directories: BTreeMap<FileUri, ServedDirectory>,
}

/// Skill that is served.
pub(super) struct ServedSkill {
    pub(super) uri: SkillUri,
    pub(super) entry: SkillEntry,
    /// Metadata of `SKILL.md`.
    pub(super) info: ResourceInfo,
    /// True if the skill is also a prompt.
    pub(super) has_prompt: bool,
    /// Number of its source, once all of the source is read.
    source: Option<usize>,
}

/// File that is served.
pub(super) struct ServedFile {
    pub(super) info: ResourceInfo,
    /// Entry that reads are checked against, with the place of the bytes; `None` for generated files.
    pub(super) content: Option<(ManifestEntry, FileLocation)>,
    /// Skills that have the file: several if they are nested.
    owners: BTreeSet<FileUri>,
}

/// Directory that is served.
#[derive(Default)]
pub(super) struct ServedDirectory {
    /// Metadata of the direct children by URI, with the skills that have them.
    children: BTreeMap<FileUri, (ResourceInfo, BTreeSet<FileUri>)>,
    owners: BTreeSet<FileUri>,
}

impl SkillSnapshot {
    /// Reads all sources.
    pub(super) fn read(sources: &[SkillSource]) -> (Self, Vec<SkillProblem>) {
        let (mut snapshot, mut problems) = (SkillSnapshot::default(), Vec::new());
        for (number, source) in sources.iter().enumerate() {
            match &source.kind {
                SourceKind::Directory(path) => {
                    let listing = SourceListing::directory(path, &[]);
                    snapshot.add_listing(source, listing, &mut problems);
                }
                SourceKind::OneSkill { path, name } => {
                    let listing = SourceListing::directory(path, std::slice::from_ref(name));
                    snapshot.add_listing(source, listing, &mut problems);
                }
                SourceKind::Embedded(skills) => {
                    snapshot.add_listing(source, SourceListing::embedded(skills), &mut problems);
                }
                SourceKind::Dynamic { front_matter, files } => {
                    snapshot.add_dynamic(source, front_matter, files, &mut problems);
                }
            }
            let added = snapshot.skills.values_mut().filter(|it| it.source.is_none());
            added.for_each(|skill| skill.source = Some(number));
        }
        problems.extend(snapshot.nested_in_other_sources(sources));
        problems.extend(snapshot.repeated_names());
        snapshot.link_directories();
        (snapshot, problems)
    }

    /// Returns whether the caller may see one of the skills.
    fn is_any_visible(&self, owners: &BTreeSet<FileUri>, visibility: &AccessCheck) -> bool {
        let mut infos = owners.iter().filter_map(|owner| self.skills.get(owner));
        !visibility.differs() || infos.any(|skill| visibility.allows(Item::Resource(&skill.info)))
    }

    /// Returns the metadata of the skills that have a file.
    pub(super) fn owners_of(&self, file: &ServedFile) -> impl Iterator<Item = &ResourceInfo> {
        file.owners.iter().filter_map(|owner| self.skills.get(owner)).map(|skill| &skill.info)
    }

    /// Returns the skills that the caller may see, in the order of their URIs.
    pub(super) fn visible_skills(
        &self,
        visibility: &AccessCheck,
    ) -> impl Iterator<Item = &ServedSkill> {
        self.skills.values().filter(|it| visibility.allows(Item::Resource(&it.info)))
    }

    /// Returns a skill that the caller may see.
    pub(super) fn skill(&self, uri: &FileUri, visibility: &AccessCheck) -> Option<&ServedSkill> {
        self.skills.get(uri).filter(|it| visibility.allows(Item::Resource(&it.info)))
    }

    /// Returns a file that the caller may see.
    pub(super) fn file(&self, uri: &FileUri, visibility: &AccessCheck) -> Option<&ServedFile> {
        self.files.get(uri).filter(|it| self.is_any_visible(&it.owners, visibility))
    }

    /// Returns the children of a directory, as far as the caller may see them; `None` if there is no such directory.
    pub(super) fn children(
        &self,
        uri: &FileUri,
        visibility: &AccessCheck,
    ) -> Option<impl Iterator<Item = (&FileUri, &ResourceInfo)>> {
        let directory = self.directories.get(uri)?;
        let directory = self.is_any_visible(&directory.owners, visibility).then_some(directory)?;
        let visibility = visibility.clone();
        let children = directory.children.iter();
        let visible = children.filter(move |(_, it)| self.is_any_visible(&it.1, &visibility));
        Some(visible.map(|(uri, (info, _))| (uri, info)))
    }

    fn add_listing(
        &mut self,
        source: &SkillSource,
        mut listing: SourceListing,
        problems: &mut Vec<SkillProblem>,
    ) {
        problems.append(&mut listing.problems);
        let files = &listing.files;
        let (skill_files, others): (Vec<_>, Vec<_>) =
            files.iter().partition(|file| file.skill_file.is_some());
        for file in &others {
            let name = file.path.last().map(String::as_str).unwrap_or_default();
            if name.eq_ignore_ascii_case(SKILL_FILE) {
                let text =
                    format!("its name is `{name}`, which is not read: rename it to `{SKILL_FILE}`");
                problems.push(SkillProblem::warning(text).in_file(&file.shown));
            }
        }
        if skill_files.is_empty() && problems.iter().all(|it| !it.is_error()) {
            let text = format!("it has no skill: a skill is a directory with a `{SKILL_FILE}`");
            problems.push(SkillProblem::warning(text).in_file(source.label()));
        }
        for file in skill_files {
            self.add_skill(source, file, &listing, problems);
        }
    }

    /// Adds the skill of a `SKILL.md`.
    fn add_skill(
        &mut self,
        source: &SkillSource,
        skill_file: &SourceFile,
        listing: &SourceListing,
        problems: &mut Vec<SkillProblem>,
    ) {
        let mut add = |problem: SkillProblem| problems.push(problem.in_file(&skill_file.shown));
        let directory = &skill_file.path[..skill_file.path.len() - 1];
        let path = source.prefix.iter().chain(directory).map(String::as_str);
        if directory.is_empty() {
            let text =
                "it is not in a directory of its own: move it into one with the name of the skill";
            return add(SkillProblem::error(text));
        }
        let uri = match SkillUri::from_path(SKILL_SCHEME, path) {
            Ok(uri) => uri,
            Err(error) => return add(SkillProblem::error(error.to_string())),
        };
        let bytes = skill_file.skill_file.as_deref().unwrap_or_default();
        let front_matter = match FrontMatter::parse(bytes) {
            Ok(front_matter) => front_matter,
            Err(error) => return add(error.into()),
        };
        front_matter.problems().into_iter().for_each(&mut add);
        name_problem(&uri, &front_matter).into_iter().for_each(&mut add);
        let mut files = Vec::new();
        for file in listing.files.iter().filter(|file| file.path.starts_with(directory)) {
            match uri.file(&file.path[directory.len()..].join("/")) {
                Ok(file_uri) => files.push((file_uri, file)),
                Err(error) => add(SkillProblem::error(error.to_string())),
            }
        }
        files.sort_by(|one, other| one.0.cmp(&other.0));
        let manifest: Vec<_> = files
            .iter()
            .map(|(uri, file)| ManifestEntry::new(uri.as_str(), file.digest, file.size))
            .collect();
        let entries = manifest.clone();
        let entry = SkillEntry::new(&uri, front_matter, SkillResources::Listed(manifest));
        entry.structure_problems(&uri).into_iter().for_each(&mut add);
        if self.skills.contains_key(uri.as_file()) {
            let text = format!(
                "another skill has the URI `{uri}`: rename one, or give one source a prefix"
            );
            return add(SkillProblem::error(text));
        }
        for ((file_uri, file), entry) in files.into_iter().zip(entries) {
            let content = Some((entry, file.location.clone()));
            self.add_file(file_uri, content, uri.as_file());
        }
        for nested in listing.directories.iter().filter(|it| it.starts_with(directory)) {
            let path = source.prefix.iter().chain(nested).map(String::as_str);
            if let Ok(directory) = FileUri::from_segments(SKILL_SCHEME, path) {
                self.directories.entry(directory).or_default().owners.insert(uri.as_file().clone());
            }
        }
        self.insert(uri, entry, source.has_prompts);
    }

    fn add_dynamic(
        &mut self,
        source: &SkillSource,
        front_matter: &FrontMatter,
        files: &[String],
        problems: &mut Vec<SkillProblem>,
    ) {
        let label = source.label();
        let mut add = |problem: SkillProblem| problems.push(problem.in_file(&label));
        front_matter.problems().into_iter().for_each(&mut add);
        let uri = match source.dynamic_uri() {
            Ok(uri) => uri,
            Err(error) => return add(SkillProblem::error(error.to_string())),
        };
        if self.skills.contains_key(uri.as_file()) {
            let text =
                format!("another skill has the URI `{uri}`: rename one, or give one a prefix");
            return add(SkillProblem::error(text));
        }
        let entry = SkillEntry::new(&uri, front_matter.clone(), SkillResources::Dynamic);
        entry.structure_problems(&uri).into_iter().for_each(&mut add);
        for file in files.iter().map(String::as_str).chain([SKILL_FILE]) {
            match uri.file(file) {
                Ok(file) => self.add_file(file, None, uri.as_file()),
                Err(error) => add(SkillProblem::error(error.to_string())),
            }
        }
        self.insert(uri, entry, false);
    }

    fn add_file(
        &mut self,
        uri: FileUri,
        content: Option<(ManifestEntry, FileLocation)>,
        owner: &FileUri,
    ) {
        let name = uri.segments().next_back().unwrap_or_default().to_owned();
        let mut info = ResourceInfo::new(uri.as_str(), name.as_str());
        info.mime_type = media_type(&name).map(str::to_owned);
        info.size = content.as_ref().map(|(entry, _)| entry.size);
        let file =
            self.files.entry(uri).or_insert(ServedFile { info, content, owners: BTreeSet::new() });
        file.owners.insert(owner.clone());
    }

    fn insert(&mut self, uri: SkillUri, entry: SkillEntry, has_prompt: bool) {
        let mut info = ResourceInfo::new(uri.as_str(), entry.name())
            .description(entry.description())
            .mime_type(SKILL_MIME);
        for (field, value) in &entry.frontmatter {
            if !matches!(field.as_str(), "name" | "description") {
                info = info.with_meta(format!("{META_PREFIX}{field}"), value.clone());
            }
        }
        if let Some(file) = self.files.get_mut(uri.as_file()) {
            info.size = file.info.size;
            file.info = info.clone();
        }
        let file = uri.as_file().clone();
        self.skills.insert(file, ServedSkill { uri, entry, info, has_prompt, source: None });
    }

    /// Returns errors for skills in the directory of a skill of another source: its manifest does not list their files.
    fn nested_in_other_sources(&self, sources: &[SkillSource]) -> Vec<SkillProblem> {
        let mut problems = Vec::new();
        for skill in self.skills.values() {
            let path = skill.uri.path();
            let parents = path.match_indices('/').map(|(end, _)| path[..end].split('/'));
            let parents = parents.filter_map(|it| SkillUri::from_path(SKILL_SCHEME, it).ok());
            let outer = parents.filter_map(|it| self.skills.get(it.as_file()));
            for outer in outer.filter(|it| it.source != skill.source) {
                let problem = SkillProblem::error(format!(
                    "`{}` is in the directory of `{}`, a skill of another source, whose manifest does not list it: \
                     give one of the sources another prefix",
                    skill.uri, outer.uri
                ));
                let source = skill.source.and_then(|number| sources.get(number));
                let label = source.map(SkillSource::label).unwrap_or_default();
                problems.push(problem.in_file(label));
            }
        }
        problems
    }

    /// Returns warnings for names that several skills have.
    fn repeated_names(&self) -> Vec<SkillProblem> {
        let mut by_name: BTreeMap<&str, Vec<&SkillUri>> = BTreeMap::new();
        for skill in self.skills.values() {
            by_name.entry(skill.entry.name()).or_default().push(&skill.uri);
        }
        let repeated = by_name.into_iter().filter(|(_, uris)| uris.len() > 1);
        let warn = |(name, uris): (&str, Vec<&SkillUri>)| {
            let uris: Vec<_> = uris.iter().map(|uri| format!("`{uri}`")).collect();
            SkillProblem::warning(format!(
                "several skills have the name `{name}`: {}. Hosts show the same name twice: rename one",
                uris.join(", ")
            ))
        };
        repeated.map(warn).collect()
    }

    /// Adds the directories above all files, and enters files and directories into their parents.
    fn link_directories(&mut self) {
        let files = self.files.iter().map(|(uri, file)| (uri.clone(), file.owners.clone()));
        let directories = self.directories.iter().map(|(uri, it)| (uri.clone(), it.owners.clone()));
        let children: Vec<_> = files.chain(directories).collect();
        for (child, owners) in children {
            let mut child = child;
            while let Some(parent) = parent_of(&child) {
                let info = self.child_info(&child);
                let directory = self.directories.entry(parent.clone()).or_default();
                directory.owners.extend(owners.iter().cloned());
                let entry = directory.children.entry(child).or_insert((info, BTreeSet::new()));
                entry.1.extend(owners.iter().cloned());
                child = parent;
            }
        }
    }

    fn child_info(&self, child: &FileUri) -> ResourceInfo {
        let directory = || {
            let name = child.segments().next_back().unwrap_or_default();
            ResourceInfo::new(child.as_str(), name).mime_type(DIRECTORY_MIME)
        };
        self.files.get(child).map_or_else(directory, |file| file.info.clone())
    }
}

/// Returns the directory of a file or directory; `None` for one at the top.
fn parent_of(child: &FileUri) -> Option<FileUri> {
    let mut segments = child.segments();
    segments.next_back();
    FileUri::from_segments(child.scheme(), segments).ok()
}
