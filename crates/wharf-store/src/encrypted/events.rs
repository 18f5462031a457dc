//! Event streams with encryption.

use std::sync::Arc;

use wharf_model::{EventStore, Events, Retention, Stored};

use crate::encrypted::bound_cipher::BoundCipher;

/// Bytes that encryption adds to an event, approximately.
const ENCRYPTION_OVERHEAD_BYTES: usize = 64;

/// Event streams whose events are encrypted.
pub(super) struct EncryptedEvents {
    store: Arc<dyn EventStore>,
    cipher: BoundCipher,
}

impl EncryptedEvents {
    pub(super) fn new(store: Arc<dyn EventStore>, cipher: BoundCipher) -> Self {
        EncryptedEvents { store, cipher }
    }
}

impl EventStore for EncryptedEvents {
    fn append(&self, stream: &str, event: Vec<u8>, keep: Retention) -> Stored<u64> {
        let event = self.cipher.encrypt([stream, ""], &event);
        // As many events as would be kept without encryption.
        let bytes =
            keep.bytes.saturating_add(keep.events.saturating_mul(ENCRYPTION_OVERHEAD_BYTES));
        self.store.append(stream, event, keep.bytes(bytes))
    }

    fn read(&self, stream: &str, after: u64, limit: usize) -> Stored<Events> {
        let (store, cipher, stream) = (self.store.clone(), self.cipher.clone(), stream.to_owned());
        Box::pin(async move {
            let mut after = after;
            loop {
                let Events { newest, events, .. } = store.read(&stream, after, limit).await?;
                let (found, last) = (events.len(), events.last().map(|(number, _)| *number));
                let decrypt = |(number, event): (u64, Vec<u8>)| {
                    cipher.decrypt([&stream, ""], &event).map(|event| (number, event))
                };
                let events: Vec<_> = events.into_iter().filter_map(decrypt).collect();
                // An empty page would mean that there are no more events.
                match last.filter(|_| events.is_empty() && found == limit) {
                    Some(last) => after = last,
                    None => return Ok(Events::new(newest, events)),
                }
            }
        })
    }

    fn remove(&self, stream: &str) -> Stored<()> {
        self.store.remove(stream)
    }
}
