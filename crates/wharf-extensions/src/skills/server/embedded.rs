//! Files of skills that are embedded in the program.

/// Directory of skills that `include_skills!` embeds in the program, with digests computed at compile time.
///
/// ```
/// # mod wharf { pub use wharf_extensions::*; }
/// use wharf::skills::{EmbeddedFile, EmbeddedSkills, FileDigest, Skills};
///
/// static SKILL: &[u8] = b"---\nname: refunds\ndescription: Refunds an order.\n---\n";
/// let digest = *FileDigest::of(SKILL).as_bytes();
/// let files = vec![EmbeddedFile { path: "refunds/SKILL.md", bytes: SKILL, digest }];
/// let skills = Skills::from(EmbeddedSkills { directory: "skills", files: files.leak() });
/// assert!(skills.lint().is_empty());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct EmbeddedSkills {
    /// Name of the directory, for messages.
    pub directory: &'static str,
    /// All files below the directory.
    pub files: &'static [EmbeddedFile],
}

/// File of [`EmbeddedSkills`].
#[derive(Clone, Copy, Debug)]
pub struct EmbeddedFile {
    /// Path below the directory, with `/`.
    pub path: &'static str,
    /// Bytes of the file.
    pub bytes: &'static [u8],
    /// SHA-256 digest of the bytes.
    pub digest: [u8; 32],
}
