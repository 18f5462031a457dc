//! Binds each encrypted value to its location (store, id and owner; stream; topic), so that values cannot be swapped.

use std::sync::Arc;

use wharf_model::StateCipher;

/// Cipher bound to one kind of data.
#[derive(Clone)]
pub(super) struct BoundCipher {
    pub(super) seal: Arc<dyn StateCipher>,
    pub(super) kind: &'static str,
}

impl BoundCipher {
    /// Encrypts the value at this location.
    pub(super) fn encrypt(&self, context: [&str; 2], plain: &[u8]) -> Vec<u8> {
        self.seal.seal_bytes(&self.context(context), plain)
    }

    /// Decrypts the value at this location.
    pub(super) fn decrypt(&self, context: [&str; 2], sealed: &[u8]) -> Option<Vec<u8>> {
        self.seal.open_bytes(&self.context(context), sealed)
    }

    /// Authenticated context of a location. It differs between any two locations.
    fn context(&self, [first, second]: [&str; 2]) -> Vec<u8> {
        format!("wharf store\0{}\0{}\0{first}\0{second}", self.kind, first.len()).into_bytes()
    }
}
