//! Storage of logins.

pub(crate) mod file;
pub(crate) mod file_format;
pub(crate) mod keychain;
pub(crate) mod owner_only_file;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, MutexGuard},
};

use wharf_model::{BoxFuture, Error, Lock};

use crate::client::{Login, LoginKey};

/// Stores logins: in memory, in a file, in the system's keychain. They contain secrets.
pub trait TokenStore: Send + Sync + 'static {
    /// Loads the login with this key.
    fn load(&self, key: &LoginKey) -> BoxFuture<Result<Option<Login>, Error>>;

    /// Saves `login`, replacing the one with the same key.
    fn save(&self, login: &Login) -> BoxFuture<Result<(), Error>>;

    /// Removes the login with this key, if it exists.
    fn remove(&self, key: &LoginKey) -> BoxFuture<Result<(), Error>>;

    /// Lists the keys of all logins.
    fn list(&self) -> BoxFuture<Result<Vec<LoginKey>, Error>>;

    /// Locks this login for renewal until the lock is dropped. With refresh token rotation, an issuer
    /// accepts a refresh token once and revokes the login on reuse. Load the login again after locking,
    /// because another process may have renewed it.
    ///
    /// A store that only one client uses need not lock.
    fn lock(&self, key: &LoginKey) -> BoxFuture<Result<StoreLock, Error>> {
        let _ = key;
        Box::pin(async { Ok(StoreLock::default()) })
    }
}

/// Lock of a login, released on drop ([`TokenStore::lock`]).
#[derive(Default)]
pub struct StoreLock(Option<Box<dyn Send + Sync>>);

impl StoreLock {
    /// Creates a lock that is held as long as `lock` lives.
    pub fn new(lock: impl Send + Sync + 'static) -> StoreLock {
        StoreLock(Some(Box::new(lock)))
    }
}

impl fmt::Debug for StoreLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreLock").field(&self.0.is_some()).finish()
    }
}

impl<V: TokenStore + ?Sized> TokenStore for Arc<V> {
    fn load(&self, key: &LoginKey) -> BoxFuture<Result<Option<Login>, Error>> {
        (**self).load(key)
    }

    fn save(&self, login: &Login) -> BoxFuture<Result<(), Error>> {
        (**self).save(login)
    }

    fn remove(&self, key: &LoginKey) -> BoxFuture<Result<(), Error>> {
        (**self).remove(key)
    }

    fn list(&self) -> BoxFuture<Result<Vec<LoginKey>, Error>> {
        (**self).list()
    }

    fn lock(&self, key: &LoginKey) -> BoxFuture<Result<StoreLock, Error>> {
        (**self).lock(key)
    }
}

/// Token store in memory. Clones share the content.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), wharf_model::Error> {
/// use wharf_auth::client::{Login, LoginKey, MemoryTokenStore, TokenStore};
///
/// let token_store = MemoryTokenStore::default();
/// let key = LoginKey::new("https://mcp.example/mcp", "https://id.example");
/// token_store.save(&Login::new(key.clone())).await?;
/// assert_eq!(token_store.list().await?, [key]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemoryTokenStore(Arc<MemoryState>);

#[derive(Debug, Default)]
struct MemoryState {
    logins: Lock<BTreeMap<LoginKey, Login>>,
    /// Renewal locks by login.
    locks: Lock<BTreeMap<LoginKey, Arc<tokio::sync::Mutex<()>>>>,
}

impl MemoryTokenStore {
    fn logins(&self) -> MutexGuard<'_, BTreeMap<LoginKey, Login>> {
        self.0.logins.lock()
    }
}

impl TokenStore for MemoryTokenStore {
    fn load(&self, key: &LoginKey) -> BoxFuture<Result<Option<Login>, Error>> {
        let found = self.logins().get(key).cloned();
        Box::pin(async move { Ok(found) })
    }

    fn save(&self, login: &Login) -> BoxFuture<Result<(), Error>> {
        self.logins().insert(login.key.clone(), login.clone());
        Box::pin(async { Ok(()) })
    }

    fn remove(&self, key: &LoginKey) -> BoxFuture<Result<(), Error>> {
        self.logins().remove(key);
        Box::pin(async { Ok(()) })
    }

    fn list(&self) -> BoxFuture<Result<Vec<LoginKey>, Error>> {
        let keys = self.logins().keys().cloned().collect();
        Box::pin(async move { Ok(keys) })
    }

    fn lock(&self, key: &LoginKey) -> BoxFuture<Result<StoreLock, Error>> {
        let mut locks = self.0.locks.lock();
        let lock = locks.entry(key.clone()).or_default().clone();
        Box::pin(async move { Ok(StoreLock::new(lock.lock_owned().await)) })
    }
}
