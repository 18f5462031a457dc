//! Encrypted records with expiry, stored under digests of their names.

use std::{fmt, sync::Arc, time::Duration};

use serde::{Serialize, de::DeserializeOwned};
use tokio::time::Instant;
use wharf_model::{Error, Lock, Record, RecordStore, StateCipher};

use crate::jose::{b64, sha256};

/// Interval for reading the store's clock and for removing expired records.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(60);
/// Limit of records that are removed at a time.
const SWEEP_BATCH: usize = 500;
/// Attempts to make room for a record: concurrent requests may take it.
const MAX_INSERT_ATTEMPTS: u32 = 4;

/// A record type.
pub(super) trait StoredRecord: Serialize + DeserializeOwned {
    /// Kind of the record, part of its id and of its encryption context.
    const KIND: &'static str;
}

/// A record with its version, for compare-and-swap.
pub(super) struct VersionedRecord<T> {
    record: Record,
    pub(super) value: T,
}

impl<T: StoredRecord> VersionedRecord<T> {
    /// Returns true if the record expires within `ttl`.
    pub(super) fn expires_within(&self, now: u64, ttl: Duration) -> bool {
        self.record.expires.is_some_and(|expires| expires <= now.saturating_add(millis(ttl)))
    }

    /// Expiry of the record.
    pub(super) fn expires_at(&self) -> u64 {
        self.record.expires.unwrap_or(u64::MAX)
    }

    /// Changes the owner.
    pub(super) fn set_owner(&mut self, owner: &str) {
        self.record.owner = owned_by::<T>(owner);
    }

    pub(super) fn is_owned_by(&self, owner: &str) -> bool {
        self.record.owner == owned_by::<T>(owner)
    }
}

/// Store of encrypted records. Every operation is atomic between processes.
pub(super) struct EncryptedStore {
    records: Arc<dyn RecordStore>,
    seal: Arc<dyn StateCipher>,
    clock: Lock<Option<(u64, Instant)>>,
    swept: Lock<Option<Instant>>,
}

/// Owner of a record, and the limit of its records.
pub(super) struct RecordOwner<'a>(pub(super) &'a str, pub(super) usize);

impl EncryptedStore {
    pub(super) fn new(records: Arc<dyn RecordStore>, seal: Arc<dyn StateCipher>) -> Self {
        EncryptedStore { records, seal, clock: Lock::default(), swept: Lock::default() }
    }

    /// Current time in milliseconds since 1970, by the clock of the store, which is read at intervals.
    pub(super) async fn now(&self) -> Result<u64, Error> {
        let known = *self.clock.lock();
        if let Some((then, at)) = known.filter(|(_, at)| at.elapsed() < MAINTENANCE_INTERVAL) {
            return Ok(then.saturating_add(millis(at.elapsed())));
        }
        let now = self.records.now().await?;
        *self.clock.lock() = Some((now, Instant::now()));
        Ok(now)
    }

    /// Stores a record, unless its owner has too many.
    async fn put<T: StoredRecord>(
        &self,
        name: &str,
        value: &T,
        owner: RecordOwner<'_>,
        ttl: Duration,
    ) -> Result<bool, Error> {
        self.sweep().await?;
        let (id, now) = (id::<T>(name), self.now().await?);
        let body = self.encrypt(&id, value)?;
        let (owned, expires) = (owned_by::<T>(owner.0), now.saturating_add(millis(ttl)));
        let record = Record::new(id).owner(owned).created(now).expires(expires).body(body);
        self.records.insert(record, owner.1).await
    }

    /// Stores a record. If its owner has too many, the oldest is removed.
    pub(super) async fn put_evicting<T: StoredRecord>(
        &self,
        name: &str,
        value: &T,
        RecordOwner(owner, most): RecordOwner<'_>,
        ttl: Duration,
    ) -> Result<(), Error> {
        for _ in 0..MAX_INSERT_ATTEMPTS {
            if self.put(name, value, RecordOwner(owner, most), ttl).await? {
                return Ok(());
            }
            self.drop_oldest::<T>(owner).await?;
        }
        Err(Error::overloaded(Duration::from_secs(1)))
    }

    /// Loads a record, unless it has expired.
    pub(super) async fn get<T: StoredRecord>(
        &self,
        name: &str,
    ) -> Result<Option<VersionedRecord<T>>, Error> {
        let Some(record) = self.records.load(&id::<T>(name)).await? else { return Ok(None) };
        let now = self.now().await?;
        Ok(self.decrypt(record, now))
    }

    /// Loads the oldest records of an owner.
    pub(super) async fn list<T: StoredRecord>(
        &self,
        owner: &str,
        most: usize,
    ) -> Result<Vec<VersionedRecord<T>>, Error> {
        let records = self.records.list(&owned_by::<T>(owner), None, most).await?;
        let now = self.now().await?;
        Ok(records.into_iter().filter_map(|record| self.decrypt(record, now)).collect())
    }

    /// Decrypts a record, unless it has expired.
    fn decrypt<T: StoredRecord>(&self, record: Record, now: u64) -> Option<VersionedRecord<T>> {
        record.expires.filter(|expires| *expires > now)?;
        let plain = self.seal.open_bytes(&context::<T>(&record.id), &record.body)?;
        let value = serde_json::from_slice(&plain).ok()?;
        Some(VersionedRecord { record, value })
    }

    /// Replaces a record (compare-and-swap); returns false if another process changed it first. `ttl` sets
    /// a new expiry.
    pub(super) async fn swap<T: StoredRecord>(
        &self,
        kept: VersionedRecord<T>,
        ttl: Option<Duration>,
    ) -> Result<bool, Error> {
        let VersionedRecord { mut record, value } = kept;
        record.body = self.encrypt(&record.id, &value)?;
        if let Some(ttl) = ttl {
            record.expires = Some(self.now().await?.saturating_add(millis(ttl)));
        }
        self.records.swap(record).await
    }

    /// Removes a record. Returns true for one caller only.
    pub(super) async fn remove<T: StoredRecord>(&self, name: &str) -> Result<bool, Error> {
        self.records.remove(&id::<T>(name)).await
    }

    /// Removes the oldest record of an owner.
    async fn drop_oldest<T: StoredRecord>(&self, owner: &str) -> Result<(), Error> {
        let oldest = self.records.list(&owned_by::<T>(owner), None, 1).await?;
        for record in oldest {
            self.records.remove(&record.id).await?;
        }
        Ok(())
    }

    fn encrypt<T: StoredRecord>(&self, id: &str, value: &T) -> Result<Vec<u8>, Error> {
        let plain = serde_json::to_vec(value).map_err(Error::internal)?;
        Ok(self.seal.seal_bytes(&context::<T>(id), &plain))
    }

    async fn sweep(&self) -> Result<(), Error> {
        let is_due = {
            let mut swept = self.swept.lock();
            let is_due = swept.is_none_or(|at| at.elapsed() >= MAINTENANCE_INTERVAL);
            if is_due {
                *swept = Some(Instant::now());
            }
            is_due
        };
        if is_due {
            self.records.sweep(SWEEP_BATCH).await?;
        }
        Ok(())
    }
}

impl fmt::Debug for EncryptedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncryptedStore").finish_non_exhaustive()
    }
}

/// Digest of a secret, stored in its place.
pub(super) fn digest(secret: &str) -> String {
    b64(sha256(secret.as_bytes()))
}

fn id<T: StoredRecord>(name: &str) -> String {
    format!("{}.{}", T::KIND, digest(&format!("{}\0{name}", T::KIND)))
}

fn owned_by<T: StoredRecord>(owner: &str) -> String {
    format!("{}.{owner}", T::KIND)
}

fn context<T: StoredRecord>(id: &str) -> Vec<u8> {
    format!("wharf oauth\0{}\0{id}", T::KIND).into_bytes()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
