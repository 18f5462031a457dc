//! Format of the token file, and encryption (AEAD) of its entries.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    rand::{SecureRandom as _, SystemRandom},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::client::token_store::keychain::EncryptionKey;

/// Version of the file format.
const VERSION: u32 = 1;

/// Content of the file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TokenFile {
    version: u32,
    /// The entries are encrypted with a key from the system's keychain.
    #[serde(default)]
    pub(crate) sealed: bool,
    #[serde(default)]
    pub(crate) logins: Vec<FileEntry>,
}

/// One login. Server and issuer are readable without the key, so that listing needs no keychain prompt.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct FileEntry {
    pub(crate) server: String,
    pub(crate) issuer: String,
    pub(crate) login: EntryContent,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EntryContent {
    Plain(Value),
    Sealed(String),
}

/// Omits the content, which is secret.
impl std::fmt::Debug for FileEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileEntry")
            .field("server", &self.server)
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}

impl TokenFile {
    pub(crate) fn new(sealed: bool) -> Self {
        TokenFile { version: VERSION, sealed, logins: Vec::new() }
    }

    /// Parses a file. The error never contains the content.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let token_file: TokenFile = serde_json::from_str(text)
            .map_err(|_| "it is not a token file: move it away and log in again")?;
        if token_file.version != VERSION {
            return Err("another version of Wharf wrote it: update this one, or move it away");
        }
        Ok(token_file)
    }

    pub(crate) fn entry(&self, server: &str, issuer: &str) -> Option<&FileEntry> {
        self.logins.iter().find(|it| it.server == server && it.issuer == issuer)
    }

    /// Replaces the entry of the same server and issuer.
    pub(crate) fn put(&mut self, entry: FileEntry) {
        self.remove(&entry.server, &entry.issuer);
        self.logins.push(entry);
    }

    /// Returns true if the entry existed.
    pub(crate) fn remove(&mut self, server: &str, issuer: &str) -> bool {
        let before = self.logins.len();
        self.logins.retain(|it| it.server != server || it.issuer != issuer);
        self.logins.len() != before
    }
}

impl FileEntry {
    /// Creates an unencrypted entry.
    pub(crate) fn plain(server: &str, issuer: &str, login: Value) -> Self {
        let login = EntryContent::Plain(login);
        FileEntry { server: server.to_owned(), issuer: issuer.to_owned(), login }
    }

    /// Creates an encrypted entry.
    pub(crate) fn sealed(
        server: &str,
        issuer: &str,
        login: &Value,
        key: &EncryptionKey,
    ) -> Option<Self> {
        let mut bytes = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut bytes).ok()?;
        let mut sealed = serde_json::to_vec(login).ok()?;
        let nonce = Nonce::assume_unique_for_key(bytes);
        let bound = Aad::from(associated_data(server, issuer));
        aead(key)?.seal_in_place_append_tag(nonce, bound, &mut sealed).ok()?;
        let all = [&bytes[..], &sealed].concat();
        let login = EntryContent::Sealed(URL_SAFE_NO_PAD.encode(all));
        Some(FileEntry { server: server.to_owned(), issuer: issuer.to_owned(), login })
    }

    /// Decrypts the content; none if the key is wrong or the entry was modified.
    pub(crate) fn open(&self, key: Option<&EncryptionKey>) -> Option<Value> {
        let text = match &self.login {
            EntryContent::Plain(login) => return Some(login.clone()),
            EntryContent::Sealed(text) => text,
        };
        let mut all = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (nonce, sealed) = all.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let bound = Aad::from(associated_data(&self.server, &self.issuer));
        let open = aead(key?)?.open_in_place(nonce, bound, sealed).ok()?;
        serde_json::from_slice(open).ok()
    }
}

/// Associated data: an entry copied to another server or issuer does not decrypt.
fn associated_data(server: &str, issuer: &str) -> Vec<u8> {
    format!("{}:{server}{issuer}", server.len()).into_bytes()
}

fn aead(key: &EncryptionKey) -> Option<LessSafeKey> {
    UnboundKey::new(&CHACHA20_POLY1305, &key.0).ok().map(LessSafeKey::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_encrypted_login_is_bound_to_its_key() {
        let (key, login) = (EncryptionKey([7; 32]), json!({"token": "hunter2"}));
        let entry = FileEntry::sealed("https://a", "https://as", &login, &key).unwrap();
        let text = serde_json::to_string(&entry).unwrap();
        assert!(!text.contains("hunter2") && text.contains("https://as"), "{text}");
        assert_eq!(entry.open(Some(&key)), Some(login));
        assert_eq!(entry.open(Some(&EncryptionKey([8; 32]))), None);
        assert_eq!(entry.open(None), None);
        let moved = FileEntry { server: "https://b".to_owned(), ..entry.clone() };
        assert_eq!(moved.open(Some(&key)), None);
        let (server, issuer) = ("https://ahttps:/".to_owned(), "/as".to_owned());
        assert_eq!(FileEntry { server, issuer, ..entry }.open(Some(&key)), None);
    }

    #[test]
    fn parse_errors_do_not_quote_the_file() {
        for text in
            ["", "hunter2", "{\"version\": \"hunter2\"}", "{\"version\": 9, \"logins\": []}"]
        {
            assert!(!TokenFile::parse(text).unwrap_err().contains("hunter2"));
        }
    }
}
