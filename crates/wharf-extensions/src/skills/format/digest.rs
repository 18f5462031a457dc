//! Digests of files, and the comparison of a file with its manifest entry.

use std::{fmt, fmt::Write as _, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest as _, Sha256};

/// SHA-256 digest of a file's bytes, written as `sha256:` and 64 lower-case hexadecimal digits.
///
/// ```
/// # mod wharf { pub use wharf_extensions::*; }
/// use wharf::skills::FileDigest;
///
/// let digest = FileDigest::of(b"");
/// assert!(digest.to_string().starts_with("sha256:e3b0c44298fc1c14"));
/// assert_eq!(digest.to_string().parse(), Ok(digest));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileDigest([u8; 32]);

/// Error of reading a text that is not a digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidDigest;

/// Difference between a file and its manifest entry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileMismatch {
    /// The file has another size.
    Size {
        /// Size in the entry.
        expected: u64,
        /// Size of the file.
        actual: u64,
    },
    /// The file has another digest.
    Digest {
        /// Digest in the entry.
        expected: FileDigest,
        /// Digest of the file.
        actual: FileDigest,
    },
}

impl FileDigest {
    /// Computes the digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        FileDigest(Sha256::digest(bytes).into())
    }

    /// Creates a digest from its bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        FileDigest(bytes)
    }

    /// Returns the bytes of the digest.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for FileDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::from("sha256:");
        self.0.iter().try_for_each(|byte| write!(text, "{byte:02x}"))?;
        f.write_str(&text)
    }
}

impl FromStr for FileDigest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let hex =
            text.strip_prefix("sha256:").filter(|hex| hex.len() == 64).ok_or(InvalidDigest)?;
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Ok(byte - b'0'),
            b'a'..=b'f' => Ok(byte - b'a' + 10),
            _ => Err(InvalidDigest),
        };
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
            *byte = (digit(pair[0])? << 4) | digit(pair[1])?;
        }
        Ok(FileDigest(bytes))
    }
}

impl Serialize for FileDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FileDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl fmt::Display for InvalidDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a digest is `sha256:` and 64 lower-case hexadecimal digits")
    }
}

impl std::error::Error for InvalidDigest {}

impl fmt::Display for FileMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileMismatch::Size { expected, actual } => {
                write!(f, "it has {actual} bytes, and its entry says {expected}")
            }
            FileMismatch::Digest { expected, actual } => {
                write!(f, "its digest is {actual}, and its entry says {expected}")
            }
        }
    }
}

impl std::error::Error for FileMismatch {}
