//! Encryption of the token file: its key, from the keychain.

use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::Value;

use crate::client::token_store::{
    file::{FileTokenStore, TokenFileError},
    file_format::{FileEntry, TokenFile},
    keychain::{EncryptionKey, KeychainError},
};

impl FileTokenStore {
    pub(super) fn open(&self, entry: &FileEntry) -> Result<Value, TokenFileError> {
        let cached_key = self.cached_key();
        if let Some(login) = entry.open(cached_key.as_ref()) {
            return Ok(login);
        }
        // Another process may have created the file again with another key.
        let key = self.fetch_key()?;
        entry.open(key.as_ref()).ok_or_else(|| self.missing_key())
    }

    /// The key that encrypts the file. Another key would lock out the other processes.
    pub(super) fn key_for(&self, token_file: &TokenFile) -> Result<EncryptionKey, TokenFileError> {
        let opens = |key: &EncryptionKey| {
            token_file.logins.iter().any(|entry| entry.open(Some(key)).is_some())
        };
        // The cached key first, so that renewed tokens are saved even if the keychain is locked now.
        if let Some(key) = self.cached_key().filter(opens) {
            return Ok(key);
        }
        // A locked keychain looks like an empty one, so no new key is created here.
        self.fetch_key()?.ok_or_else(|| self.missing_key())
    }

    /// Reads the key from the keychain.
    fn fetch_key(&self) -> Result<Option<EncryptionKey>, TokenFileError> {
        let Some(keychain) = &self.keychain else {
            return Err(
                self.keychain_failed(&KeychainError("no keychain is configured".to_owned()))
            );
        };
        let key = keychain.get(&self.path).map_err(|why| self.keychain_failed(&why))?;
        if key.is_some() {
            self.cache_key(key.clone());
        }
        Ok(key)
    }

    /// Creates a key in the keychain.
    pub(super) fn new_key(&self) -> Result<EncryptionKey, KeychainError> {
        let Some(keychain) = &self.keychain else {
            return Err(KeychainError("there is no keychain".to_owned()));
        };
        let mut bytes = [0; 32];
        let random = SystemRandom::new().fill(&mut bytes);
        random.map_err(|_| KeychainError("the system returned no random bytes".to_owned()))?;
        let key = EncryptionKey(bytes);
        keychain.put(&self.path, &key)?;
        self.cache_key(Some(key.clone()));
        Ok(key)
    }

    fn cached_key(&self) -> Option<EncryptionKey> {
        self.key.lock().clone()
    }

    pub(super) fn cache_key(&self, key: Option<EncryptionKey>) {
        *self.key.lock() = key;
    }

    fn missing_key(&self) -> TokenFileError {
        let what = "the system's keychain has no key that decrypts it: unlock the keychain; if the key is lost, log out and log in again";
        TokenFileError::at(&self.path, &what)
    }

    fn keychain_failed(&self, why: &KeychainError) -> TokenFileError {
        let what = format!(
            "it is encrypted with a key in the system's keychain, which is not available: {}",
            why.0
        );
        TokenFileError::at(&self.path, &what)
    }
}
