//! Stores with encryption at rest: they see only what they index, the rest is encrypted before it
//! reaches them.
//!
//! Each value is bound to its location (store, id and owner; stream; topic), so that it decrypts
//! there and nowhere else. A value that does not decrypt is treated as missing.

mod bound_cipher;
pub(crate) mod bus;
pub(crate) mod events;
pub(crate) mod records;

use std::sync::Arc;

use wharf_model::{StateCipher, Stores};

use crate::encrypted::{
    bound_cipher::BoundCipher, bus::EncryptedBus, events::EncryptedEvents,
    records::EncryptedRecords,
};

/// Wraps stores so that everything they need not read is encrypted: the bodies of records, the
/// values kept beside them, the events of streams and the messages of the bus.
///
/// Ids, owners (digests, as servers write them), times and the names of kept values stay readable:
/// the stores index them. All processes that share the stores need the same keys; without them a
/// process finds nothing there.
///
/// ```
/// use wharf_model::{Record, StateCipher};
/// # struct BoundCipher;
/// # impl StateCipher for BoundCipher {
/// #     fn seal(&self, context: &[u8], plain: &[u8]) -> String {
/// #         [context, plain].concat().iter().map(|byte| format!("{:02x}", !byte)).collect()
/// #     }
/// #     fn open(&self, context: &[u8], sealed: &str) -> Option<Vec<u8>> {
/// #         let byte = |at| u8::from_str_radix(sealed.get(at..at + 2)?, 16).ok().map(|byte| !byte);
/// #         let plain: Option<Vec<u8>> = (0..sealed.len()).step_by(2).map(byte).collect();
/// #         plain?.strip_prefix(context).map(Into::into)
/// #     }
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), wharf_model::Error> {
/// # let keys = BoundCipher;
/// let bare = wharf_store::memory_stores();
/// let encrypted = wharf_store::encrypted(bare.clone(), keys);
///
/// let record = Record::new("r1").body(b"secret".to_vec());
/// encrypted.tasks.insert(record, 10).await?;
/// assert_eq!(encrypted.tasks.load("r1").await?.unwrap().body, b"secret");
/// assert_ne!(bare.tasks.load("r1").await?.unwrap().body, b"secret");
/// # Ok(()) }
/// ```
#[must_use]
pub fn encrypted(stores: Stores, keys: impl StateCipher) -> Stores {
    let seal: Arc<dyn StateCipher> = Arc::new(keys);
    let keys = |kind| BoundCipher { seal: seal.clone(), kind };
    let records = |store, kind| EncryptedRecords::new(store, keys(kind));
    stores
        .clone()
        .tasks(records(stores.tasks, "task"))
        .sessions(records(stores.sessions, "session"))
        .grants(records(stores.grants, "grant"))
        .events(EncryptedEvents::new(stores.events, keys("event")))
        .bus(EncryptedBus::new(stores.bus, keys("bus")))
}
