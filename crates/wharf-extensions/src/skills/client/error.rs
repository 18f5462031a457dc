//! Errors of reading skills.

use std::{error::Error as StdError, fmt};

use wharf_model::{CallError, Error, ErrorKind, FailureOrigin};

use crate::skills::format::{
    FileDigest, FileMismatch, MAX_SKILL_BYTES, MAX_SKILL_RESOURCES, SKILLS_EXTENSION,
};

/// Error of reading a skill: a call failed, or the skill is refused.
///
/// ```
/// # mod wharf { pub mod skills { pub use wharf_extensions::skills::*; } }
/// use wharf::skills::{SkillError, SkillRefused};
///
/// fn advice(error: &SkillError) -> &'static str {
///     match error {
///         SkillError::Refused(SkillRefused::Unlisted { .. }) => "the skill has no such file",
///         SkillError::Refused(_) => "get the entry again, and ask the user again",
///         SkillError::Call(_) => "try again",
///         _ => "report a bug",
///     }
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SkillError {
    /// The call failed.
    Call(CallError),
    /// The skill or the file is not used.
    Refused(SkillRefused),
}

/// Reason why a skill or one of its files is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkillRefused {
    /// The entry has no `resources`: it has no manifest, and does not say that its files are generated.
    #[non_exhaustive]
    NoResources {
        /// URI of the skill.
        skill: String,
    },
    /// The entry violates a rule.
    #[non_exhaustive]
    Invalid {
        /// URI of the skill, as it was sent.
        skill: String,
        /// Violated rule.
        problem: String,
    },
    /// The server returned the entry of another skill.
    #[non_exhaustive]
    OtherSkill {
        /// URI of the skill that was requested.
        skill: String,
        /// URI of the entry.
        returned: String,
    },
    /// The skill, or a file of a skill with generated files, is larger than 512 files or 16 MiB.
    #[non_exhaustive]
    TooLarge {
        /// URI of the skill.
        skill: String,
        /// Number of its files.
        files: usize,
        /// Number of bytes.
        bytes: u64,
    },
    /// The files of the skill are generated, so that it has no digests, and its directories are not known.
    #[non_exhaustive]
    Dynamic {
        /// URI of the skill.
        skill: String,
        /// Action that needs a manifest.
        action: &'static str,
    },
    /// The file or directory is not in the entry of the skill.
    #[non_exhaustive]
    Unlisted {
        /// URI of the skill.
        skill: String,
        /// Path or URI of the file.
        file: String,
    },
    /// The file has another size than its entry says.
    #[non_exhaustive]
    Size {
        /// URI of the file.
        file: String,
        /// Size in the entry.
        expected: u64,
        /// Size of the file.
        actual: u64,
    },
    /// The file has another digest than its entry says.
    #[non_exhaustive]
    Digest {
        /// URI of the file.
        file: String,
        /// Digest in the entry.
        expected: FileDigest,
        /// Digest of the file.
        actual: FileDigest,
    },
    /// The front matter of `SKILL.md` cannot be read, or is not that of the entry.
    #[non_exhaustive]
    FrontMatter {
        /// URI of the skill.
        skill: String,
        /// First field that differs; `None` if the front matter cannot be read.
        field: Option<String>,
        /// Difference, or the reason why it cannot be read.
        problem: String,
    },
    /// The server returned no contents for the file, or contents that are not valid base64.
    #[non_exhaustive]
    NoContents {
        /// URI of the file.
        file: String,
        /// Flaw of the contents.
        problem: String,
    },
}

impl SkillRefused {
    /// Returns the word for the refusal, for programs: `size`, `digest`, `front_matter` and so on.
    ///
    /// ```
    /// # mod wharf { pub mod skills { pub use wharf_extensions::skills::*; } }
    /// use wharf::skills::SkillRefused;
    ///
    /// fn is_stale(refused: &SkillRefused) -> bool {
    ///     matches!(refused.kind(), "size" | "digest" | "front_matter")
    /// }
    /// ```
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            SkillRefused::NoResources { .. } => "no_resources",
            SkillRefused::Invalid { .. } => "invalid",
            SkillRefused::OtherSkill { .. } => "other_skill",
            SkillRefused::TooLarge { .. } => "too_large",
            SkillRefused::Dynamic { .. } => "dynamic",
            SkillRefused::Unlisted { .. } => "unlisted",
            SkillRefused::Size { .. } => "size",
            SkillRefused::Digest { .. } => "digest",
            SkillRefused::FrontMatter { .. } => "front_matter",
            SkillRefused::NoContents { .. } => "no_contents",
        }
    }

    pub(super) fn mismatch(file: &str, mismatch: FileMismatch) -> Self {
        let file = file.to_owned();
        match mismatch {
            FileMismatch::Size { expected, actual } => {
                SkillRefused::Size { file, expected, actual }
            }
            FileMismatch::Digest { expected, actual } => {
                SkillRefused::Digest { file, expected, actual }
            }
        }
    }

    pub(super) fn unlisted(skill: &str, file: &str) -> Self {
        SkillRefused::Unlisted { skill: skill.to_owned(), file: file.to_owned() }
    }

    pub(super) fn invalid(skill: &str, problem: impl fmt::Display) -> Self {
        SkillRefused::Invalid { skill: skill.to_owned(), problem: problem.to_string() }
    }
}

impl fmt::Display for SkillRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SkillRefused::NoResources { skill } => write!(
                f,
                "the skill `{skill}` is refused: its entry has no `resources`, neither a list of files nor \"dynamic\""
            ),
            SkillRefused::Invalid { skill, problem } => {
                write!(f, "the skill `{skill}` is refused: {problem}")
            }
            SkillRefused::OtherSkill { skill, returned } => write!(
                f,
                "the skill `{skill}` is refused: the server returned the entry of `{returned}`"
            ),
            SkillRefused::TooLarge { skill, files, bytes } => write!(
                f,
                "the skill `{skill}` is refused: it has {files} files and {bytes} bytes, and the limits are \
                 {MAX_SKILL_RESOURCES} files and {MAX_SKILL_BYTES} bytes"
            ),
            SkillRefused::Dynamic { skill, action } => write!(
                f,
                "the skill `{skill}` has generated files without digests, so that the client cannot {action}"
            ),
            SkillRefused::Unlisted { skill, file } => write!(
                f,
                "the file `{file}` is refused: the entry of the skill `{skill}` does not list it"
            ),
            SkillRefused::Size { file, expected, actual } => write!(
                f,
                "the file `{file}` is refused: {}",
                FileMismatch::Size { expected: *expected, actual: *actual }
            ),
            SkillRefused::Digest { file, expected, actual } => write!(
                f,
                "the file `{file}` is refused: {}",
                FileMismatch::Digest { expected: *expected, actual: *actual }
            ),
            SkillRefused::FrontMatter { skill, problem, .. } => {
                write!(f, "the skill `{skill}` is refused: {problem}")
            }
            SkillRefused::NoContents { file, problem } => {
                write!(f, "the file `{file}` is refused: {problem}")
            }
        }
    }
}

impl StdError for SkillRefused {}

impl SkillError {
    /// Returns the refusal, if the call did not fail.
    #[must_use]
    pub fn refused(&self) -> Option<&SkillRefused> {
        match self {
            SkillError::Call(_) => None,
            SkillError::Refused(refused) => Some(refused),
        }
    }

    /// Error for a server that does not declare the extension, or a setting of it.
    pub(super) fn undeclared(feature: &str) -> Self {
        let message = format!(
            "The server does not declare {feature} of the extension `{SKILLS_EXTENSION}`: the request was not sent"
        );
        let error = Error::new(ErrorKind::CapabilityNotSupported).with_message(message);
        SkillError::Call(CallError::of_outcome(error.from_client(FailureOrigin::Usage)))
    }
}

impl From<CallError> for SkillError {
    fn from(error: CallError) -> Self {
        SkillError::Call(error)
    }
}

impl From<SkillRefused> for SkillError {
    fn from(refused: SkillRefused) -> Self {
        SkillError::Refused(refused)
    }
}

impl fmt::Display for SkillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SkillError::Call(error) => error.fmt(f),
            SkillError::Refused(refused) => refused.fmt(f),
        }
    }
}

impl StdError for SkillError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            SkillError::Call(error) => error.source(),
            SkillError::Refused(_) => None,
        }
    }
}

/// For `?` in a handler: a failure to read a skill is not the fault of the handler's caller.
impl From<SkillError> for Error {
    fn from(error: SkillError) -> Self {
        Error::internal(error)
    }
}
