//! Keys of skills, for everything that a host keeps about them.

use std::fmt;

use crate::skills::format::SkillUri;

/// Key of a skill: the host's own label for the server, and the URI of the skill. Servers may offer different skills with the
/// same URI and choose their own names, so that a URI alone, or the name that a server gives itself, is no key.
///
/// ```
/// # mod wharf { pub mod skills { pub use wharf_extensions::skills::*; } }
/// use wharf::skills::{SkillKey, SkillUri};
///
/// let uri = SkillUri::parse("skill://refunds/SKILL.md")?;
/// let shop = SkillKey::new("shop", uri.clone());
/// assert_ne!(shop, SkillKey::new("bank", uri));
/// assert_eq!(shop.to_string(), "skill://refunds/SKILL.md of shop");
/// # Ok::<(), wharf::skills::SkillUriError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SkillKey {
    server: String,
    uri: SkillUri,
}

impl SkillKey {
    /// Creates a key. `server` is the label under which the host's user knows the server.
    #[must_use]
    pub fn new(server: impl Into<String>, uri: SkillUri) -> Self {
        SkillKey { server: server.into(), uri }
    }

    /// Returns the label of the server.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Returns the URI of the skill.
    #[must_use]
    pub fn uri(&self) -> &SkillUri {
        &self.uri
    }
}

impl fmt::Display for SkillKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.uri, self.server)
    }
}
