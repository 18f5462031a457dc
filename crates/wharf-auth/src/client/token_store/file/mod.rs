//! Token store in a file that only its owner can read, encrypted with a key in the system's keychain if
//! there is one.

mod encryption_key;
#[cfg(test)]
pub(crate) mod tests;

use std::{
    env, fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use wharf_model::{BoxFuture, Error, ErrorKind, Lock};

use crate::client::token_store::file_format::{FileEntry, TokenFile};
use crate::client::token_store::keychain::EncryptionKey;
use crate::client::{Login, LoginKey, StoreLock, TokenStore};

pub use crate::client::token_store::keychain::Keychain;

/// Time limit for the locks of other processes.
const LOCK_TIMEOUT: Duration = Duration::from_secs(90);

/// Token store in a file that only its owner can read.
///
/// The file is replaced atomically, locked against other processes, and rejected if other users could read
/// it. With a [`Keychain`], each login is encrypted with a key from the keychain. If the keychain fails
/// when the file is created, the file stays unencrypted.
///
/// ```
/// use wharf_auth::client::FileTokenStore;
///
/// let folder = std::env::temp_dir().join(format!("wharf-doc-{}", std::process::id()));
/// let token_store = FileTokenStore::at(folder.join("logins.json"));
/// assert!(!token_store.is_encrypted());
/// ```
#[derive(Clone, Debug)]
pub struct FileTokenStore {
    path: Arc<Path>,
    keychain: Option<Keychain>,
    /// Last key from the keychain. It is used for decryption first, and for encryption only if it decrypts
    /// the file.
    key: Arc<Lock<Option<EncryptionKey>>>,
}

impl FileTokenStore {
    /// Uses this file, which need not exist. Its folder is created for the owner only.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        // The keychain entry is named after the path, so it must not depend on the working directory.
        let path = std::path::absolute(&path).unwrap_or(path);
        FileTokenStore { path: path.into(), keychain: None, key: Arc::default() }
    }

    /// Default path for a program called `name`: with its state, and not with its settings, which people
    /// copy and publish.
    ///
    /// None if the home folder is unknown.
    #[must_use]
    pub fn usual(name: &str) -> Option<PathBuf> {
        // The XDG specification requires to ignore relative paths.
        let set = |name| env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
        let folder = if cfg!(windows) {
            set("LOCALAPPDATA")?
        } else if cfg!(target_os = "macos") {
            env::home_dir()?.join("Library/Application Support")
        } else {
            set("XDG_STATE_HOME").or_else(|| Some(env::home_dir()?.join(".local/state")))?
        };
        Some(folder.join(name).join("logins.json"))
    }

    /// Encrypts the file with a key from this keychain, if it is available.
    #[must_use]
    pub fn keychain(mut self, keychain: Keychain) -> Self {
        self.keychain = Some(keychain);
        self
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if the file is encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.token_file().is_ok_and(|token_file| token_file.is_some_and(|it| it.sealed))
    }

    /// Reads the login at `server` from `issuer`. Blocks, as all methods below.
    fn get(&self, server: &str, issuer: &str) -> Result<Option<Value>, TokenFileError> {
        let Some(token_file) = self.token_file()? else { return Ok(None) };
        token_file.entry(server, issuer).map(|entry| self.open(entry)).transpose()
    }

    /// Keys of the stored logins. Needs no decryption.
    fn keys(&self) -> Result<Vec<LoginKey>, TokenFileError> {
        let logins = self.token_file()?.map(|token_file| token_file.logins).unwrap_or_default();
        Ok(logins.into_iter().map(|it| LoginKey::new(it.server, it.issuer)).collect())
    }

    fn put(&self, server: &str, issuer: &str, login: Value) -> Result<(), TokenFileError> {
        crate::client::token_store::owner_only_file::make_folder(&self.path)?;
        let _lock =
            crate::client::token_store::owner_only_file::lock(&self.path, "lock", LOCK_TIMEOUT)?;
        let (mut token_file, key) = match self.token_file()? {
            Some(token_file) if token_file.sealed => {
                let key = self.key_for(&token_file)?;
                (token_file, Some(key))
            }
            Some(token_file) => (token_file, None),
            None => {
                let key = self.new_key().ok();
                (TokenFile::new(key.is_some()), key)
            }
        };
        let entry = match key {
            Some(key) => FileEntry::sealed(server, issuer, &login, &key)
                .ok_or_else(|| TokenFileError::at(&self.path, &"cannot encrypt a login"))?,
            None => FileEntry::plain(server, issuer, login),
        };
        token_file.put(entry);
        self.write(&token_file)
    }

    /// Returns true if the login existed.
    fn remove_entry(&self, server: &str, issuer: &str) -> Result<bool, TokenFileError> {
        if self.token_file()?.is_none() {
            return Ok(false);
        }
        let _lock =
            crate::client::token_store::owner_only_file::lock(&self.path, "lock", LOCK_TIMEOUT)?;
        let Some(mut token_file) = self.token_file()? else { return Ok(false) };
        if !token_file.remove(server, issuer) {
            return Ok(false);
        }
        if !token_file.logins.is_empty() {
            return self.write(&token_file).map(|()| true);
        }
        crate::client::token_store::owner_only_file::remove(&self.path)?;
        if let Some(keychain) = self.keychain.as_ref().filter(|_| token_file.sealed) {
            // A leftover key is harmless.
            let _ = keychain.remove(&self.path);
            self.cache_key(None);
        }
        Ok(true)
    }

    fn token_file(&self) -> Result<Option<TokenFile>, TokenFileError> {
        let Some(text) = crate::client::token_store::owner_only_file::read(&self.path)? else {
            return Ok(None);
        };
        TokenFile::parse(&text).map(Some).map_err(|what| TokenFileError::at(&self.path, &what))
    }

    fn write(&self, token_file: &TokenFile) -> Result<(), TokenFileError> {
        let text = serde_json::to_string(token_file)
            .map_err(|error| TokenFileError::because(&self.path, error))?;
        crate::client::token_store::owner_only_file::write(&self.path, &text)
    }
}

impl FileTokenStore {
    /// Runs `work` in a blocking thread: files, locks and keychains block.
    fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&FileTokenStore) -> Result<T, TokenFileError> + Send + 'static,
    ) -> BoxFuture<Result<T, Error>> {
        let token_store = self.clone();
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || work(&token_store)).await;
            let done = done.map_err(|_| Error::new(ErrorKind::InternalError))?;
            done.map_err(Error::from)
        })
    }
}

impl TokenStore for FileTokenStore {
    fn load(&self, key: &LoginKey) -> BoxFuture<Result<Option<Login>, Error>> {
        let key = key.clone();
        self.run_blocking(move |token_store| {
            let Some(login) = token_store.get(&key.server, &key.issuer)? else { return Ok(None) };
            let login: Option<Login> = serde_json::from_value(login).ok();
            // The decrypted key counts, because the outer one is not protected.
            let login = login.filter(|login| login.key == key);
            login.map(Some).ok_or_else(|| {
                TokenFileError::at(
                    &token_store.path,
                    &"cannot read a login in it: log out and log in again",
                )
            })
        })
    }

    fn save(&self, login: &Login) -> BoxFuture<Result<(), Error>> {
        let (key, login) = (login.key.clone(), serde_json::to_value(login));
        self.run_blocking(move |token_store| {
            let login = login
                .map_err(|_| TokenFileError::at(&token_store.path, &"cannot serialize a login"))?;
            token_store.put(&key.server, &key.issuer, login)
        })
    }

    fn remove(&self, key: &LoginKey) -> BoxFuture<Result<(), Error>> {
        let key = key.clone();
        self.run_blocking(move |token_store| {
            token_store.remove_entry(&key.server, &key.issuer).map(drop)
        })
    }

    fn list(&self) -> BoxFuture<Result<Vec<LoginKey>, Error>> {
        self.run_blocking(FileTokenStore::keys)
    }

    /// One lock for all logins: a renewal is short.
    fn lock(&self, _: &LoginKey) -> BoxFuture<Result<StoreLock, Error>> {
        self.run_blocking(|token_store| {
            crate::client::token_store::owner_only_file::make_folder(&token_store.path)?;
            crate::client::token_store::owner_only_file::lock(
                &token_store.path,
                "renewal",
                LOCK_TIMEOUT,
            )
            .map(StoreLock::new)
        })
    }
}

/// Error of the token file, with the remedy.
#[derive(Debug)]
pub(crate) struct TokenFileError {
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl TokenFileError {
    pub(crate) fn at(path: &Path, what: &dyn fmt::Display) -> Self {
        TokenFileError { message: format!("{}: {what}", path.display()), source: None }
    }

    /// Error with another one as its source.
    pub(crate) fn because(
        path: &Path,
        error: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        let problem = TokenFileError::at(path, &error);
        TokenFileError { source: Some(Box::new(error)), ..problem }
    }
}

impl From<TokenFileError> for Error {
    fn from(problem: TokenFileError) -> Self {
        let error = Error::new(ErrorKind::AuthenticationFailed).with_message(problem.message);
        match problem.source {
            Some(source) => error.with_source(source),
            None => error,
        }
    }
}
