//! Loaded skill: the entry that the client holds, and its files.

use std::sync::Arc;

use wharf_client::ClientHandle;

use super::{
    SkillChild, SkillContent, SkillError, SkillKey, SkillRefused, files,
    listed::{HeldEntry, approval_digest},
    read::{ReadTarget, read},
};
use crate::skills::format::{FileDigest, SkillEntry};

/// Loaded skill. It reads only files of the entry with which it was loaded, and compares each with it.
///
/// ```
/// # mod wharf { pub mod skills { pub use wharf_extensions::skills::*; } }
/// use wharf::skills::{LoadedSkill, SkillError};
///
/// async fn forms(skill: &LoadedSkill) -> Result<String, SkillError> {
///     let forms = skill.read("references/FORMS.md").await?;
///     Ok(forms.text().unwrap_or_default().to_owned())
/// }
/// ```
#[derive(Clone, Debug)]
pub struct LoadedSkill {
    client: ClientHandle,
    held: Arc<HeldEntry>,
    instructions: Arc<str>,
}

impl LoadedSkill {
    pub(super) async fn load(
        client: &ClientHandle,
        held: Arc<HeldEntry>,
    ) -> Result<Self, SkillError> {
        let content = read(client, &held, &ReadTarget::instructions(&held)).await?;
        let instructions = content.text().unwrap_or_default().into();
        Ok(LoadedSkill { client: client.clone(), held, instructions })
    }

    /// Returns the entry.
    #[must_use]
    pub fn entry(&self) -> &SkillEntry {
        &self.held.entry
    }

    /// Returns the text of `SKILL.md`, with its front matter.
    #[must_use]
    pub fn instructions(&self) -> &str {
        &self.instructions
    }

    /// Returns the key under which a host keeps what it knows about the skill. `server` is the host's own label for the
    /// server.
    #[must_use]
    pub fn key(&self, server: impl Into<String>) -> SkillKey {
        SkillKey::new(server, self.held.uri.clone())
    }

    /// Returns the digest of the set of all files with their digests, to which an approval is bound.
    ///
    /// # Errors
    /// If the files are generated.
    pub fn approval_digest(&self) -> Result<FileDigest, SkillRefused> {
        approval_digest(&self.held)
    }

    /// Reads a file, by its path in the skill or by its URI, and checks it. A file with another spelling of its URI
    /// is found, and read by the spelling of the entry.
    ///
    /// Generated files (`"dynamic"`) have no size and no digest to check.
    ///
    /// # Errors
    /// If the entry does not list the file, if the call fails, or if the file is not that of the entry. A file from
    /// the cache of the client that fails a check is requested once more.
    pub async fn read(&self, file: &str) -> Result<SkillContent, SkillError> {
        let target = ReadTarget::of(&self.held, file)?;
        read(&self.client, &self.held, &target).await
    }

    /// Lists the children of a directory, by its path in the skill: `""` is the directory of `SKILL.md`.
    ///
    /// The manifest of the entry says it without a request. For generated files (`"dynamic"`), the server is asked if
    /// it declares that it lists directories; a child is listed for information only, as the entry decides what may be read.
    ///
    /// # Errors
    /// If the skill has no such directory, if the call fails, or if the files are generated and the server does not
    /// declare that it lists directories.
    pub async fn dir(&self, directory: &str) -> Result<Vec<SkillChild>, SkillError> {
        match self.held.entry.manifest() {
            Some(manifest) => Ok(files::listed_children(&self.held, manifest, directory)?),
            None => files::requested_children(&self.client, &self.held, directory).await,
        }
    }
}
