//! Current skills of a running server: reads files, and reads the sources again when they change.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use wharf_model::{CacheHint, Error, ErrorKind, Lock, ReadResult, ResourceContents};
use wharf_server::{AccessCheck, Registry, WeakRegistry};

use super::{
    media_type::default_media_type,
    resources,
    skill::{SkillSource, SourceKind},
    snapshot::{ServedFile, SkillSnapshot},
};
use crate::skills::format::FileUri;

/// Minimum time between two attempts to read the sources for readers of changed files.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// Skills of a running server.
pub(super) struct SkillCatalog {
    sources: Vec<SkillSource>,
    pub(super) cache: CacheHint,
    snapshot: Lock<Arc<SkillSnapshot>>,
    /// Held while the sources are read again; has the time of the last attempt.
    refreshing: Lock<Option<Instant>>,
    registry: OnceLock<WeakRegistry>,
    /// URIs and names of resources and prompts that could not be added, because the application has others.
    pub(super) not_added: Lock<BTreeSet<String>>,
}

/// Reason why a file was not read.
enum ReadFailure {
    /// There is no such file, or the caller may not see it.
    NotFound,
    /// The file is not what its entry says.
    Changed(String),
}

impl SkillCatalog {
    pub(super) fn new(
        sources: Vec<SkillSource>,
        cache: CacheHint,
        snapshot: SkillSnapshot,
    ) -> Self {
        SkillCatalog {
            sources,
            cache,
            snapshot: Lock::new(Arc::new(snapshot)),
            refreshing: Lock::new(None),
            registry: OnceLock::new(),
            not_added: Lock::default(),
        }
    }

    /// Sets the registry of the built server, which receives changes.
    pub(super) fn set_registry(&self, registry: &Registry) {
        // A catalog belongs to one server.
        let _ = self.registry.set(registry.downgrade());
    }

    pub(super) fn snapshot(&self) -> Arc<SkillSnapshot> {
        self.snapshot.lock().clone()
    }

    /// Returns the directories that are watched.
    pub(super) fn watched(&self) -> Vec<PathBuf> {
        let on_disk = |source: &SkillSource| match &source.kind {
            SourceKind::Directory(path) | SourceKind::OneSkill { path, .. } => Some(path.clone()),
            SourceKind::Embedded(_) | SourceKind::Dynamic { .. } => None,
        };
        self.sources.iter().filter(|source| source.is_watched).filter_map(on_disk).collect()
    }

    /// Returns the cache hint of results.
    pub(super) fn cache_hint(&self, visibility: &AccessCheck) -> CacheHint {
        cache_hint(self.cache, visibility)
    }

    /// Reads a file. If it is no longer what its entry says, the sources are read again, once.
    pub(super) fn read(
        self: &Arc<Self>,
        uri: &str,
        visibility: &AccessCheck,
    ) -> Result<ReadResult, Error> {
        let not_found = || Error::resource_not_found(uri);
        let file = FileUri::parse(uri).map_err(|_| not_found())?;
        let snapshot = self.snapshot();
        let result = match read_file(&snapshot, &file, visibility) {
            Err(ReadFailure::Changed(_)) => {
                self.refresh_for_reader(&snapshot);
                read_file(&self.snapshot(), &file, visibility)
            }
            result => result,
        };
        match result {
            Ok((bytes, mime)) => {
                let contents = contents(uri, bytes, mime.as_deref());
                Ok(ReadResult::new([contents]).cache(self.cache_hint(visibility)))
            }
            Err(ReadFailure::NotFound) => Err(not_found()),
            Err(ReadFailure::Changed(problem)) => {
                tracing::error!(uri, problem, "cannot read file of skill");
                Err(Error::new(ErrorKind::InternalError))
            }
        }
    }

    /// Reads the sources again, and replaces the snapshot if they have no errors.
    pub(super) fn refresh(self: &Arc<Self>) {
        let mut attempted_at = self.refreshing.lock();
        self.read_sources();
        *attempted_at = Some(Instant::now());
    }

    /// Reads the sources again for a client that read a file with the snapshot `seen`, unless they were read since, or a
    /// moment ago: clients cannot make the server read them all the time, not even with a file that changes all the time.
    fn refresh_for_reader(self: &Arc<Self>, seen: &Arc<SkillSnapshot>) {
        let mut attempted_at = self.refreshing.lock();
        let is_recent = attempted_at.is_some_and(|at| at.elapsed() < REFRESH_INTERVAL);
        if !is_recent && Arc::ptr_eq(seen, &self.snapshot()) {
            self.read_sources();
            *attempted_at = Some(Instant::now());
        }
    }

    /// Reads the sources, and replaces the snapshot, unless they have an error, which is logged.
    fn read_sources(self: &Arc<Self>) {
        let (new, problems) = SkillSnapshot::read(&self.sources);
        let mut errors = problems.iter().filter(|it| it.is_error()).peekable();
        if errors.peek().is_some() {
            errors.for_each(
                |problem| tracing::error!(%problem, "keeping the last version of the skills"),
            );
            return;
        }
        let new = Arc::new(new);
        let old = std::mem::replace(&mut *self.snapshot.lock(), new.clone());
        if let Some(registry) = self.registry.get().and_then(WeakRegistry::upgrade) {
            resources::publish_changes(self, &registry, &old, &new);
        }
    }
}

/// Returns the cache hint of results, which are private where callers see different skills.
pub(super) fn cache_hint(hint: CacheHint, visibility: &AccessCheck) -> CacheHint {
    match visibility.differs() {
        true => CacheHint::private(hint.ttl_ms),
        false => hint,
    }
}

/// Reads a file, and compares it with its entry.
fn read_file(
    snapshot: &SkillSnapshot,
    uri: &FileUri,
    visibility: &AccessCheck,
) -> Result<(Vec<u8>, Option<String>), ReadFailure> {
    let file = snapshot.file(uri, visibility).ok_or(ReadFailure::NotFound)?;
    let ServedFile { content: Some((entry, location)), info, .. } = file else {
        return Err(ReadFailure::NotFound);
    };
    let changed = |problem: &dyn std::fmt::Display| ReadFailure::Changed(problem.to_string());
    let bytes = location.read(entry.size).map_err(|error| changed(&error))?;
    entry.verify(&bytes).map_err(|mismatch| changed(&mismatch))?;
    Ok((bytes, info.mime_type.clone()))
}

/// Returns contents as text if they are UTF-8, otherwise as bytes.
fn contents(uri: &str, bytes: Vec<u8>, mime: Option<&str>) -> ResourceContents {
    let with_type = |contents: ResourceContents, is_text| {
        contents.mime_type(mime.unwrap_or_else(|| default_media_type(is_text)))
    };
    match String::from_utf8(bytes) {
        Ok(text) => with_type(ResourceContents::text(uri, text), true),
        Err(error) => with_type(ResourceContents::blob(uri, error.into_bytes()), false),
    }
}
