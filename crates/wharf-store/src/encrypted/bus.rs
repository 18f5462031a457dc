//! Message bus with encryption.

use std::{any::Any, sync::Arc};

use wharf_model::{Bus, BusSubscriber, Stored};

use crate::encrypted::bound_cipher::BoundCipher;

/// Bus whose messages are encrypted: only processes with the keys can read them.
pub(super) struct EncryptedBus {
    bus: Arc<dyn Bus>,
    cipher: BoundCipher,
}

impl EncryptedBus {
    pub(super) fn new(bus: Arc<dyn Bus>, cipher: BoundCipher) -> Self {
        EncryptedBus { bus, cipher }
    }
}

impl Bus for EncryptedBus {
    fn publish(&self, topic: &str, message: Vec<u8>) -> Stored<()> {
        self.bus.publish(topic, self.cipher.encrypt([topic, ""], &message))
    }

    fn subscribe(
        &self,
        topic: &str,
        subscriber: Arc<dyn BusSubscriber>,
    ) -> Box<dyn Any + Send + Sync> {
        self.bus.subscribe(
            topic,
            Arc::new(DecryptingSubscriber { subscriber, cipher: self.cipher.clone() }),
        )
    }
}

/// Forwards the messages that decrypt; drops the others.
struct DecryptingSubscriber {
    subscriber: Arc<dyn BusSubscriber>,
    cipher: BoundCipher,
}

impl BusSubscriber for DecryptingSubscriber {
    fn receive(&self, topic: &str, message: &[u8]) {
        if let Some(message) = self.cipher.decrypt([topic, ""], message) {
            self.subscriber.receive(topic, &message);
        }
    }

    fn missed(&self) {
        self.subscriber.missed();
    }
}
