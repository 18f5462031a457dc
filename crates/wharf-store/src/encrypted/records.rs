//! Records with encryption.

use std::{collections::BTreeMap, sync::Arc};

use wharf_model::{AttachResult, Error, ErrorKind, Record, RecordStore, Stored};

use crate::encrypted::bound_cipher::BoundCipher;

/// Delay until a due record that does not decrypt here is due again, in milliseconds: another
/// process may have its key.
const UNREADABLE_RETRY_MS: u64 = 30_000;

/// Records whose bodies and kept values are encrypted.
#[derive(Clone)]
pub(super) struct EncryptedRecords {
    store: Arc<dyn RecordStore>,
    cipher: BoundCipher,
}

impl EncryptedRecords {
    pub(super) fn new(store: Arc<dyn RecordStore>, cipher: BoundCipher) -> Self {
        EncryptedRecords { store, cipher }
    }

    fn encrypt(&self, record: Record) -> Record {
        let body = self.cipher.encrypt([&record.id, &record.owner], &record.body);
        record.body(body)
    }

    fn decrypt(&self, record: Record) -> Option<Record> {
        let body = self.cipher.decrypt([&record.id, &record.owner], &record.body)?;
        Some(record.body(body))
    }

    fn decrypt_kept(&self, id: &str, name: &str, value: &[u8]) -> Option<Vec<u8>> {
        self.cipher.decrypt([id, &kept_context(name)], value)
    }

    /// Returns whether a due record decrypts here. If not, it is postponed, so that it does not
    /// block the records that do.
    async fn is_readable(&self, id: &str) -> Result<bool, Error> {
        let Some(record) = self.store.load(id).await? else { return Ok(true) };
        if self.decrypt(record.clone()).is_some() {
            return Ok(true);
        }
        tracing::warn!("postponed a due record that does not decrypt with the keys of the store");
        let due = Some(self.store.now().await?.saturating_add(UNREADABLE_RETRY_MS));
        self.store.swap(record.due(due)).await?;
        Ok(false)
    }
}

impl RecordStore for EncryptedRecords {
    fn now(&self) -> Stored<u64> {
        self.store.now()
    }

    fn insert(&self, record: Record, most: usize) -> Stored<bool> {
        self.store.insert(self.encrypt(record), most)
    }

    fn load(&self, id: &str) -> Stored<Option<Record>> {
        let (this, loading) = (self.clone(), self.store.load(id));
        Box::pin(async move { Ok(loading.await?.and_then(|record| this.decrypt(record))) })
    }

    fn swap(&self, record: Record) -> Stored<bool> {
        self.store.swap(self.encrypt(record))
    }

    fn remove(&self, id: &str) -> Stored<bool> {
        self.store.remove(id)
    }

    fn list(&self, owner: &str, after: Option<&str>, limit: usize) -> Stored<Vec<Record>> {
        let (this, owner) = (self.clone(), owner.to_owned());
        let mut after = after.map(str::to_owned);
        Box::pin(async move {
            let mut decrypted = Vec::new();
            // A short page is the last page, so records that do not decrypt are replaced by later
            // ones.
            while decrypted.len() < limit {
                let wanted = limit - decrypted.len();
                let listed = this.store.list(&owner, after.as_deref(), wanted).await?;
                let more = listed.len() == wanted;
                after = listed.last().map(|record| record.id.clone());
                decrypted.extend(listed.into_iter().filter_map(|record| this.decrypt(record)));
                if !more {
                    break;
                }
            }
            Ok(decrypted)
        })
    }

    fn due(&self, limit: usize) -> Stored<Vec<String>> {
        let this = self.clone();
        Box::pin(async move {
            loop {
                let due = this.store.due(limit).await?;
                let found = due.len();
                let mut readable = Vec::with_capacity(found);
                for id in due {
                    if this.is_readable(&id).await? {
                        readable.push(id);
                    }
                }
                if !readable.is_empty() || found < limit.max(1) {
                    return Ok(readable);
                }
            }
        })
    }

    fn attach(&self, id: &str, fence: u64, name: &str, value: Vec<u8>) -> Stored<AttachResult> {
        let value = self.cipher.encrypt([id, &kept_context(name)], &value);
        let keeping = self.store.attach(id, fence, name, value);
        let (this, id, name) = (self.clone(), id.to_owned(), name.to_owned());
        Box::pin(async move {
            Ok(match keeping.await? {
                AttachResult::Exists(value) => {
                    // The holder that kept it has other keys, so the record is not ours.
                    this.decrypt_kept(&id, &name, &value)
                        .map_or(AttachResult::Lost, AttachResult::Exists)
                }
                other => other,
            })
        })
    }

    fn attachments(&self, id: &str) -> Stored<BTreeMap<String, Vec<u8>>> {
        let (this, id, kept) = (self.clone(), id.to_owned(), self.store.attachments(id));
        Box::pin(async move {
            let decrypt = |(name, value): (String, Vec<u8>)| {
                let decrypted = this.decrypt_kept(&id, &name, &value);
                decrypted.map(|value| (name, value)).ok_or_else(unreadable)
            };
            kept.await?.into_iter().map(decrypt).collect()
        })
    }

    fn sweep(&self, limit: usize) -> Stored<usize> {
        self.store.sweep(limit)
    }
}

/// Location of a kept value, distinct from the location of every record.
fn kept_context(name: &str) -> String {
    format!("kept\0{name}")
}

/// Error for a kept value that does not decrypt. It must not look like a missing value, or a
/// completed step would run again.
fn unreadable() -> Error {
    tracing::error!("cannot decrypt a kept value with the keys of the store");
    Error::new(ErrorKind::InternalError)
}
