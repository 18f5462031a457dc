//! Skill that a server lists or returns, before it is loaded.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};
use wharf_client::ClientHandle;
use wharf_model::{LazyJson, Meta};

use super::{LoadedSkill, SkillError, SkillKey, SkillRefused};
use crate::skills::format::{
    FileDigest, GET_METHOD, MAX_SKILL_BYTES, MAX_SKILL_RESOURCES, ManifestEntry, SKILLS_EXTENSION,
    SkillEntry, SkillUri,
};

/// Skill of a server that is not loaded: its entry, or the reason why the entry is refused.
///
/// ```
/// # mod wharf { pub mod skills { pub use wharf_extensions::skills::*; } }
/// use wharf::skills::{ListedSkill, SkillError};
///
/// async fn show(skill: ListedSkill) -> Result<(), SkillError> {
///     println!("{}: {}", skill.name(), skill.description());
///     let skill = skill.load().await?; // reads and checks SKILL.md
///     println!("{}", skill.instructions());
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug)]
pub struct ListedSkill {
    client: ClientHandle,
    uri: String,
    entry: Result<Arc<HeldEntry>, SkillRefused>,
}

/// Entry without violated rules, with its parsed URI.
#[derive(Debug)]
pub(super) struct HeldEntry {
    pub(super) entry: SkillEntry,
    pub(super) uri: SkillUri,
}

#[derive(Deserialize)]
struct ReturnedSkill {
    skill: Box<RawValue>,
}

impl ListedSkill {
    /// Gets the entry of the skill at this URI, listed or not (`skills/get`). Reads no file.
    ///
    /// # Errors
    /// If the URI is not that of a skill, if the server does not declare the extension, does not have the skill, or
    /// returns the entry of another one. An entry that violates a rule is not an error here, but of
    /// [`entry`](Self::entry).
    pub async fn get(client: &ClientHandle, uri: impl Into<String>) -> Result<Self, SkillError> {
        let uri = uri.into();
        let asked = SkillUri::parse(&uri).map_err(|error| SkillRefused::invalid(&uri, error))?;
        if !client.capabilities().extensions.contains_key(SKILLS_EXTENSION) {
            return Err(SkillError::undeclared("the methods"));
        }
        let result: ReturnedSkill = client.request_as(GET_METHOD, json!({"uri": uri})).await?;
        let skill = ListedSkill::read(client, &result.skill);
        match SkillUri::parse(&skill.uri) {
            Ok(returned) if returned == asked => Ok(skill),
            _ => Err(SkillRefused::OtherSkill { skill: uri, returned: skill.uri }.into()),
        }
    }

    pub(super) fn read(client: &ClientHandle, json: &RawValue) -> Self {
        // No tree is built of an entry with very many values: it reads as empty.
        let lazy: Option<LazyJson<Meta>> = serde_json::from_str(json.get()).ok();
        let members = lazy.map(|it| it.read()).unwrap_or_default();
        let uri = members.get("uri").and_then(Value::as_str).unwrap_or_default().to_owned();
        let entry = HeldEntry::of(&uri, members).map(Arc::new);
        ListedSkill { client: client.clone(), uri, entry }
    }

    /// Returns the URI of the skill, as the server wrote it; it may be invalid if the entry is refused.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Returns the name of the skill; an empty string if its entry is refused.
    #[must_use]
    pub fn name(&self) -> &str {
        self.entry.as_ref().map(|it| it.entry.name()).unwrap_or_default()
    }

    /// Returns the description of the skill; an empty string if its entry is refused.
    #[must_use]
    pub fn description(&self) -> &str {
        self.entry.as_ref().map(|it| it.entry.description()).unwrap_or_default()
    }

    /// Returns the entry.
    ///
    /// # Errors
    /// If it violates a rule, so that the skill cannot be loaded.
    pub fn entry(&self) -> Result<&SkillEntry, SkillRefused> {
        self.held().map(|it| &it.entry)
    }

    /// Returns the key under which a host keeps what it knows about the skill. `server` is the host's own label for the
    /// server.
    ///
    /// # Errors
    /// If the entry is refused.
    pub fn key(&self, server: impl Into<String>) -> Result<SkillKey, SkillRefused> {
        self.held().map(|it| SkillKey::new(server, it.uri.clone()))
    }

    /// Returns the digest of the set of all files with their digests. A host that keeps the approval of a user keeps this
    /// digest with the [`key`](Self::key), and asks again if one of them is different.
    ///
    /// # Errors
    /// If the files are generated, so that an approval cannot be bound to them, or if the entry is refused.
    pub fn approval_digest(&self) -> Result<FileDigest, SkillRefused> {
        approval_digest(self.held()?)
    }

    /// Reads `SKILL.md`, checks it, and returns the skill with this entry. No other file is read.
    ///
    /// # Errors
    /// If the entry is refused, or `SKILL.md` is not that of the entry.
    pub async fn load(&self) -> Result<LoadedSkill, SkillError> {
        LoadedSkill::load(&self.client, self.held()?.clone()).await
    }

    /// Gets the entry again, for a skill that has changed. The user has to approve the new one.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub async fn refresh(&self) -> Result<Self, SkillError> {
        ListedSkill::get(&self.client, &*self.uri).await
    }

    fn held(&self) -> Result<&Arc<HeldEntry>, SkillRefused> {
        self.entry.as_ref().map_err(SkillRefused::clone)
    }
}

impl HeldEntry {
    fn of(uri: &str, members: Map<String, Value>) -> Result<Self, SkillRefused> {
        let invalid = |problem: &dyn std::fmt::Display| SkillRefused::invalid(uri, problem);
        let parsed = SkillUri::parse(uri).map_err(|error| invalid(&error))?;
        if !members.contains_key("resources") {
            return Err(SkillRefused::NoResources { skill: uri.to_owned() });
        }
        let entry: SkillEntry =
            serde_json::from_value(members.into()).map_err(|error| invalid(&error))?;
        let (files, bytes) = (entry.manifest().map_or(0, <[_]>::len), entry.total_size());
        if files > MAX_SKILL_RESOURCES || bytes > MAX_SKILL_BYTES {
            return Err(SkillRefused::TooLarge { skill: uri.to_owned(), files, bytes });
        }
        match entry.problems().into_iter().find(|it| it.is_error()) {
            Some(problem) => Err(invalid(&problem.text)),
            None => Ok(HeldEntry { entry, uri: parsed }),
        }
    }

    /// Returns the manifest, for an action that needs one.
    pub(super) fn manifest(&self, action: &'static str) -> Result<&[ManifestEntry], SkillRefused> {
        let dynamic = || SkillRefused::Dynamic { skill: self.entry.uri.clone(), action };
        self.entry.manifest().ok_or_else(dynamic)
    }
}

/// Returns the digest of the sorted pairs of URI and digest.
pub(super) fn approval_digest(held: &HeldEntry) -> Result<FileDigest, SkillRefused> {
    let files = held.manifest("bind an approval to them")?;
    let mut pairs: Vec<_> = files.iter().map(|it| (&it.uri, it.digest)).collect();
    pairs.sort_unstable();
    Ok(FileDigest::of(json!(pairs).to_string().as_bytes()))
}
