//! Digests that stand for session ids and principals in the stores.

use sha2::{Digest, Sha256};

/// Hashes a session id for the stores, which must not contain the id itself.
pub(crate) fn digest(name: &[u8]) -> [u8; 32] {
    Sha256::digest(name).into()
}

/// Encodes a digest as hexadecimal digits.
pub(crate) fn hex(digest: &[u8]) -> String {
    use std::fmt::Write as _;
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
