//! What is in a file of logins, and how one of them is sealed.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    rand::{SecureRandom as _, SystemRandom},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::client::token_store::keychain::Key;

/// What every file says of itself.
const VERSION: u32 = 1;

/// All logins of a file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Shelf {
    version: u32,
    /// Whether a key in the system's keychain seals what is here.
    #[serde(default)]
    pub(crate) sealed: bool,
    #[serde(default)]
    pub(crate) logins: Vec<Entry>,
}

/// One login. Whose it is can be read without the key, so that nobody is asked for one in vain.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) server: String,
    pub(crate) issuer: String,
    pub(crate) login: Content,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Content {
    Plain(Value),
    Sealed(String),
}

/// What is inside is secret.
impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry")
            .field("server", &self.server)
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}

impl Shelf {
    pub(crate) fn new(sealed: bool) -> Self {
        Shelf { version: VERSION, sealed, logins: Vec::new() }
    }

    /// Reads a file; the text of a problem never has what is in it.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let shelf: Shelf = serde_json::from_str(text)
            .map_err(|_| "it is no file of logins: move it away, and log in anew")?;
        if shelf.version != VERSION {
            return Err("another version of Wharf wrote it: update this one, or move it away");
        }
        Ok(shelf)
    }

    pub(crate) fn entry(&self, server: &str, issuer: &str) -> Option<&Entry> {
        self.logins.iter().find(|it| it.server == server && it.issuer == issuer)
    }

    /// Puts the entry in the place of the one for the same server and issuer.
    pub(crate) fn put(&mut self, entry: Entry) {
        self.remove(&entry.server, &entry.issuer);
        self.logins.push(entry);
    }

    /// Whether there was one.
    pub(crate) fn remove(&mut self, server: &str, issuer: &str) -> bool {
        let before = self.logins.len();
        self.logins.retain(|it| it.server != server || it.issuer != issuer);
        self.logins.len() != before
    }
}

impl Entry {
    /// With what is in it open to whoever can read the file.
    pub(crate) fn plain(server: &str, issuer: &str, login: Value) -> Self {
        let login = Content::Plain(login);
        Entry { server: server.to_owned(), issuer: issuer.to_owned(), login }
    }

    /// With what is in it sealed.
    pub(crate) fn sealed(server: &str, issuer: &str, login: &Value, key: &Key) -> Option<Self> {
        let mut bytes = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut bytes).ok()?;
        let mut sealed = serde_json::to_vec(login).ok()?;
        let nonce = Nonce::assume_unique_for_key(bytes);
        let bound = Aad::from(bound_to(server, issuer));
        aead(key)?.seal_in_place_append_tag(nonce, bound, &mut sealed).ok()?;
        let all = [&bytes[..], &sealed].concat();
        let login = Content::Sealed(URL_SAFE_NO_PAD.encode(all));
        Some(Entry { server: server.to_owned(), issuer: issuer.to_owned(), login })
    }

    /// What is in it, if the key is right and nobody changed anything.
    pub(crate) fn open(&self, key: Option<&Key>) -> Option<Value> {
        let text = match &self.login {
            Content::Plain(login) => return Some(login.clone()),
            Content::Sealed(text) => text,
        };
        let mut all = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (nonce, sealed) = all.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let bound = Aad::from(bound_to(&self.server, &self.issuer));
        let open = aead(key?)?.open_in_place(nonce, bound, sealed).ok()?;
        serde_json::from_slice(open).ok()
    }
}

/// A login that is moved to another server's place does not open there.
fn bound_to(server: &str, issuer: &str) -> Vec<u8> {
    format!("{}:{server}{issuer}", server.len()).into_bytes()
}

fn aead(key: &Key) -> Option<LessSafeKey> {
    UnboundKey::new(&CHACHA20_POLY1305, &key.0).ok().map(LessSafeKey::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_sealed_login_opens_in_its_own_place_only() {
        let (key, login) = (Key([7; 32]), json!({"token": "hunter2"}));
        let entry = Entry::sealed("https://a", "https://as", &login, &key).unwrap();
        let text = serde_json::to_string(&entry).unwrap();
        assert!(!text.contains("hunter2") && text.contains("https://as"), "{text}");
        assert_eq!(entry.open(Some(&key)), Some(login));
        assert_eq!(entry.open(Some(&Key([8; 32]))), None);
        assert_eq!(entry.open(None), None);
        let moved = Entry { server: "https://b".to_owned(), ..entry.clone() };
        assert_eq!(moved.open(Some(&key)), None);
        let (server, issuer) = ("https://ahttps:/".to_owned(), "/as".to_owned());
        assert_eq!(Entry { server, issuer, ..entry }.open(Some(&key)), None);
    }

    #[test]
    fn what_cannot_be_read_is_not_told() {
        for text in
            ["", "hunter2", "{\"version\": \"hunter2\"}", "{\"version\": 9, \"logins\": []}"]
        {
            assert!(!Shelf::parse(text).unwrap_err().contains("hunter2"));
        }
    }
}
