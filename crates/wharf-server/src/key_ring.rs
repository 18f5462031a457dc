//! Encrypts state that leaves the server: request state that travels through clients, and values in
//! stores.

use std::{
    env,
    env::VarError,
    fmt, io,
    path::Path,
    str::FromStr,
    sync::{Arc, OnceLock},
};

use base64::{
    Engine,
    alphabet::{STANDARD, URL_SAFE},
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
    prelude::BASE64_URL_SAFE_NO_PAD,
};
use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use serde_json::Value;
use sha2::{Digest, Sha256};
use wharf_model::{Error, ErrorKind, StateCipher};

use crate::{random, secret_file::read_private};

const FORMAT_VERSION: u8 = 1;
const KEY_BYTES: usize = 32;
const KEY_ID_BYTES: usize = 4;
const HEADER_BYTES: usize = 1 + KEY_ID_BYTES;
const NONCE_BYTES: usize = 24;

/// Environment variables that a server reads its keys from by default.
const KEY_VARIABLE: &str = "WHARF_STATE_KEY";
const FILE_VARIABLE: &str = "WHARF_STATE_KEY_FILE";

/// Keys that encrypt request state or stored values. The first key encrypts, and every key can
/// decrypt.
///
/// A key is 32 random bytes, written in hex or base64 (`openssl rand -base64 32`). To rotate keys,
/// put the new key first and keep the old one until the state that it encrypted has expired.
/// Servers behind one load balancer need the same keys; a single server can use
/// [`KeyRing::random`].
///
/// The cipher is XChaCha20-Poly1305 with a fresh nonce for each message. The string form is
/// base64url over a version byte, the key's id, the nonce and the ciphertext.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod server { pub use super::*; } pub mod store { pub use super::*; } }
/// use wharf::{server::KeyRing, store::StateCipher};
///
/// let keys = KeyRing::random();
/// let sealed = keys.seal(b"for alice", b"state");
/// assert_eq!(keys.open(b"for alice", &sealed).as_deref(), Some(&b"state"[..]));
/// assert_eq!(keys.open(b"for mallory", &sealed), None);
/// ```
#[derive(Clone)]
pub struct KeyRing {
    keys: Arc<[KeyBytes]>,
    /// True if the keys were configured, so that other processes can have them too.
    given: bool,
}

struct CipherKey {
    id: [u8; KEY_ID_BYTES],
    cipher: XChaCha20Poly1305,
    /// Mixed into nonces, so that they stay unpredictable even if the system's randomness fails.
    salt: [u8; KEY_BYTES],
}

/// Key whose parts are derived on first use: most servers never encrypt anything, and should not
/// start more slowly for it.
struct KeyBytes {
    bytes: [u8; KEY_BYTES],
    key: OnceLock<CipherKey>,
}

impl KeyBytes {
    fn new(bytes: [u8; KEY_BYTES]) -> Self {
        KeyBytes { bytes, key: OnceLock::new() }
    }

    fn key(&self) -> &CipherKey {
        self.key.get_or_init(|| CipherKey::new(&self.bytes))
    }
}

impl CipherKey {
    fn new(bytes: &[u8; KEY_BYTES]) -> Self {
        let derive = |purpose: &[u8]| {
            Sha256::new().chain_update(purpose).chain_update(bytes).finalize().into()
        };
        let [a, b, c, d, ..]: [u8; KEY_BYTES] = derive(b"wharf key id\0");
        let cipher = XChaCha20Poly1305::new(bytes.into());
        CipherKey { id: [a, b, c, d], cipher, salt: derive(b"wharf nonce salt\0") }
    }

    fn nonce(&self, context: &[u8], plain: &[u8]) -> [u8; NONCE_BYTES] {
        let mut fresh = [0; KEY_BYTES];
        // Without fresh bytes the nonce is a hash of the message, so it is still not reused for a
        // different one.
        let _ = getrandom::fill(&mut fresh);
        let hash = Sha256::new()
            .chain_update(self.salt)
            .chain_update(fresh)
            .chain_update((context.len() as u64).to_le_bytes())
            .chain_update(context)
            .chain_update(plain)
            .finalize();
        let mut nonce = [0; NONCE_BYTES];
        nonce.copy_from_slice(&hash[..NONCE_BYTES]);
        nonce
    }
}

impl KeyRing {
    /// Creates one random key, valid for the life of this process.
    ///
    /// # Panics
    /// If the operating system provides no randomness.
    #[must_use]
    pub fn random() -> Self {
        let mut key = [0; KEY_BYTES];
        if let Err(error) = getrandom::fill(&mut key) {
            panic!(
                "cannot create a random key: the operating system provides no randomness: {error}"
            );
        }
        KeyRing { keys: Arc::new([KeyBytes::new(key)]), given: false }
    }

    /// Reads the keys from the environment: from `WHARF_STATE_KEY`, or from the file that
    /// `WHARF_STATE_KEY_FILE` names. Creates a random key if neither is set. This is the default of
    /// a server.
    ///
    /// # Errors
    /// If both are set, or the keys cannot be read: state must never be encrypted with a key other
    /// than the configured one.
    pub fn from_env_or_file() -> Result<Self, KeyError> {
        match (env::var_os(KEY_VARIABLE), env::var_os(FILE_VARIABLE)) {
            (None, None) => Ok(KeyRing::random()),
            (Some(_), None) => KeyRing::from_env(KEY_VARIABLE),
            (None, Some(path)) => KeyRing::from_file(path),
            (Some(_), Some(_)) => Err(KeyError::new(format!(
                "{KEY_VARIABLE} and {FILE_VARIABLE} are both set: unset one"
            ))),
        }
    }

    /// Reads the keys in the environment variable `name`, separated by commas or white space.
    ///
    /// # Errors
    /// If the variable is not set, or one of the keys is not 32 bytes in hex or base64.
    pub fn from_env(name: &str) -> Result<Self, KeyError> {
        let text = env::var(name).map_err(|error| match error {
            VarError::NotPresent => KeyError::new(format!("{name}: the variable is not set")),
            // The error would quote the value.
            VarError::NotUnicode(_) => KeyError::new(format!("{name}: the value is not UTF-8")),
        })?;
        text.parse().map_err(|error| KeyError::new(format!("{name}: {error}")))
    }

    /// Reads the keys in a file, separated by commas or white space.
    ///
    /// # Errors
    /// If the file cannot be read, other users can read it too (see
    /// [`read_private`](crate::read_private)), or one of the keys is not 32 bytes in hex or base64.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, KeyError> {
        let name = path.as_ref().display();
        let text = read_private(&path).map_err(|error| KeyError {
            message: format!("{name}: {error}"),
            source: Some(Arc::new(error)),
        })?;
        text.parse().map_err(|error| KeyError::new(format!("{name}: {error}")))
    }
}

impl FromStr for KeyRing {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let keys = text
            .split(|c: char| c == ',' || c.is_whitespace())
            .filter(|key| !key.is_empty())
            .enumerate()
            .map(|(index, key)| read_key(index + 1, key))
            .collect::<Result<Vec<_>, KeyError>>()?;
        if keys.is_empty() {
            return Err(KeyError::new("no key found: create one with `openssl rand -base64 32`"));
        }
        Ok(KeyRing { keys: keys.into(), given: true })
    }
}

impl StateCipher for KeyRing {
    fn seal(&self, context: &[u8], plain: &[u8]) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.seal_bytes(context, plain))
    }

    fn open(&self, context: &[u8], sealed: &str) -> Option<Vec<u8>> {
        self.open_bytes(context, &BASE64_URL_SAFE_NO_PAD.decode(sealed).ok()?)
    }

    fn seal_bytes(&self, context: &[u8], plain: &[u8]) -> Vec<u8> {
        let key = self.keys[0].key();
        let nonce = key.nonce(context, plain);
        let mut sealed = Vec::with_capacity(HEADER_BYTES + NONCE_BYTES + plain.len() + 16);
        sealed.push(FORMAT_VERSION);
        sealed.extend(key.id);
        let aad = authenticated(&sealed, context);
        sealed.extend(nonce);
        let payload = Payload { msg: plain, aad: &aad };
        // Encryption fails only for messages of hundreds of gigabytes; then nothing decrypts them.
        sealed.extend(key.cipher.encrypt(&XNonce::from(nonce), payload).unwrap_or_default());
        sealed
    }

    fn open_bytes(&self, context: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (head, rest) = sealed.split_at_checked(HEADER_BYTES)?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_BYTES>()?;
        let (&version, id) = head.split_first()?;
        if version != FORMAT_VERSION {
            return None;
        }
        let aad = authenticated(head, context);
        let nonce = XNonce::from(*nonce);
        // Two keys may have the same short id.
        self.keys
            .iter()
            .map(KeyBytes::key)
            .filter(|key| key.id == id)
            .find_map(|key| key.cipher.decrypt(&nonce, Payload { msg: sealed, aad: &aad }).ok())
    }

    fn is_shared(&self) -> bool {
        self.given
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

/// Error of reading keys. It never contains a key.
#[derive(Clone, Debug)]
pub struct KeyError {
    message: String,
    /// Error of the file.
    source: Option<Arc<io::Error>>,
}

impl KeyError {
    fn new(message: impl Into<String>) -> Self {
        KeyError { message: message.into(), source: None }
    }
}

/// Compares the message: the source is ignored.
impl PartialEq for KeyError {
    fn eq(&self, other: &Self) -> bool {
        self.message == other.message
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for KeyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// Creates a random, unguessable id.
pub(crate) fn random_name() -> Result<String, Error> {
    let mut bytes = [0; 16];
    random::fill(&mut bytes).map_err(|_| Error::new(ErrorKind::InternalError))?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

/// Hashes a JSON value independently of the order of object members.
pub(crate) fn fingerprint(value: &Value) -> String {
    let mut hash = Sha256::new();
    feed(&mut hash, value);
    BASE64_URL_SAFE_NO_PAD.encode(hash.finalize())
}

fn feed(hash: &mut Sha256, value: &Value) {
    match value {
        Value::Array(items) => {
            hash.update(format!("[{}", items.len()));
            items.iter().for_each(|item| feed(hash, item));
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            hash.update(format!("{{{}", fields.len()));
            for (name, field) in fields {
                feed(hash, &Value::String(name.clone()));
                feed(hash, field);
            }
        }
        // The comma separates values; strings are quoted, so they cannot contain an ambiguous one.
        leaf => hash.update(format!("{leaf},")),
    }
}

fn authenticated(head: &[u8], context: &[u8]) -> Vec<u8> {
    [head, context].concat()
}

fn read_key(number: usize, text: &str) -> Result<KeyBytes, KeyError> {
    let hex = text.len() == 2 * KEY_BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let bytes = if hex { from_hex(text) } else { from_base64(text) };
    let bytes =
        bytes.ok_or_else(|| KeyError::new(format!("key {number} is neither hex nor base64")))?;
    let key: [u8; KEY_BYTES] = bytes.as_slice().try_into().map_err(|_| {
        KeyError::new(format!("key {number} has {} bytes instead of {KEY_BYTES}", bytes.len()))
    })?;
    Ok(KeyBytes::new(key))
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    text.as_bytes().chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    let config =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    [STANDARD, URL_SAFE]
        .iter()
        .find_map(|alphabet| GeneralPurpose::new(alphabet, config).decode(text).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    const B: &str = "//////////////////////////////////////////8=";

    fn ring(text: &str) -> KeyRing {
        text.parse().unwrap()
    }

    #[test]
    fn the_first_key_encrypts_and_all_keys_decrypt() {
        let (old, both, new) = (ring(A), ring(&format!("{B},\n {A}\n")), ring(B));
        let sealed_before = old.seal(b"c", b"old");
        let sealed_now = both.seal(b"c", b"new");
        assert_eq!(both.open(b"c", &sealed_before).unwrap(), b"old");
        assert_eq!(both.open(b"c", &sealed_now).unwrap(), b"new");
        assert_eq!(new.open(b"c", &sealed_now).unwrap(), b"new");
        assert_eq!(new.open(b"c", &sealed_before), None);
        assert_eq!(old.open(b"c", &sealed_now), None);
    }

    #[test]
    fn all_encodings_of_a_key_are_equal() {
        let url = B.replace('/', "_");
        let sealed = ring(B).seal(b"", b"x");
        for spelling in [&url, url.trim_end_matches('='), &"ff".repeat(32), &"FF".repeat(32)] {
            assert!(ring(spelling).open(b"", &sealed).is_some(), "{spelling}");
        }
    }

    #[test]
    fn errors_of_invalid_keys_differ_and_never_contain_a_key() {
        let error = |text: &str| text.parse::<KeyRing>().unwrap_err().to_string();
        assert!(error(" ,\n").contains("openssl rand"));
        assert_eq!(error("c2VjcmV0"), "key 1 has 6 bytes instead of 32");
        assert_eq!(error(&format!("{A},!!secret!!")), "key 2 is neither hex nor base64");
        assert!(
            KeyRing::from_env("WHARF_NO_SUCH_KEY")
                .unwrap_err()
                .message
                .contains("WHARF_NO_SUCH_KEY")
        );
        let unread = KeyRing::from_file("/no/such/file").unwrap_err();
        assert!(unread.message.contains("/no/such/file"));
        assert!(std::error::Error::source(&unread).is_some());
        assert_eq!(format!("{:?}", ring(A)), "KeyRing { keys: 1, .. }");
    }

    #[test]
    fn a_fingerprint_does_not_depend_on_the_order_of_members() {
        let of = |json: &str| fingerprint(&serde_json::from_str(json).unwrap());
        assert_eq!(of(r#"{"a":1,"b":[2,{"c":3,"d":4}]}"#), of(r#"{"b":[2,{"d":4,"c":3}], "a":1}"#));
        for other in
            [r#"{"a":[1]}"#, r#"{"a":"1"}"#, r#"{"a":12}"#, r#"[{"a":1}]"#, r#"{"a":1,"b":2}"#]
        {
            assert_ne!(of(r#"{"a":1}"#), of(other), "{other}");
        }
        assert_ne!(of("[[1],2]"), of("[[1,2]]"));
    }

    #[test]
    fn equal_messages_have_different_ciphertexts() {
        let keys = KeyRing::random();
        assert_ne!(keys.seal(b"c", b"x"), keys.seal(b"c", b"x"));
    }
}
