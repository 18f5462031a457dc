//! Where logins are kept.

pub(crate) mod file;
pub(crate) mod file_format;
pub(crate) mod keychain;
pub(crate) mod owner_only_file;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use wharf_model::{BoxFuture, Error};

use crate::client::{Login, LoginKey};

/// Keeps logins: in memory, in a file, in the system's keychain. What it keeps are secrets.
pub trait TokenStore: Send + Sync + 'static {
    /// The login that was saved under `key`.
    fn load(&self, key: &LoginKey) -> BoxFuture<Result<Option<Login>, Error>>;

    /// Keeps `login` under its own key, instead of what was there.
    fn save(&self, login: &Login) -> BoxFuture<Result<(), Error>>;

    /// Forgets what was saved under `key`, if anything was.
    fn remove(&self, key: &LoginKey) -> BoxFuture<Result<(), Error>>;

    /// The keys of all logins.
    fn list(&self) -> BoxFuture<Result<Vec<LoginKey>, Error>>;

    /// Keeps everybody else who shares the vault from renewing this login, until what it gives is
    /// dropped: many issuers take a refresh token once, and end the login if it comes again. Whoever
    /// holds it loads the login anew, because somebody else may have renewed it meanwhile.
    ///
    /// A vault that only one client uses need not do anything.
    fn lock(&self, key: &LoginKey) -> BoxFuture<Result<StoreLock, Error>> {
        let _ = key;
        Box::pin(async { Ok(StoreLock::default()) })
    }
}

/// Keeps others out until it is dropped ([`TokenStore::lock`]).
#[derive(Default)]
pub struct StoreLock(Option<Box<dyn Send + Sync>>);

impl StoreLock {
    /// Others are kept out for as long as `lock` lives.
    pub fn new(lock: impl Send + Sync + 'static) -> StoreLock {
        StoreLock(Some(Box::new(lock)))
    }
}

impl fmt::Debug for StoreLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Held").field(&self.0.is_some()).finish()
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

/// Keeps logins for as long as the program runs. Its clones are the same vault.
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
    logins: Mutex<BTreeMap<LoginKey, Login>>,
    /// Who renews a login holds its lock.
    locks: Mutex<BTreeMap<LoginKey, Arc<tokio::sync::Mutex<()>>>>,
}

impl MemoryTokenStore {
    fn logins(&self) -> MutexGuard<'_, BTreeMap<LoginKey, Login>> {
        self.0.logins.lock().unwrap_or_else(PoisonError::into_inner)
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
        let mut locks = self.0.locks.lock().unwrap_or_else(PoisonError::into_inner);
        let lock = locks.entry(key.clone()).or_default().clone();
        Box::pin(async move { Ok(StoreLock::new(lock.lock_owned().await)) })
    }
}
