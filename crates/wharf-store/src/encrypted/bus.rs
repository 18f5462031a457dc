use std::{any::Any, sync::Arc};

use wharf_model::{Bus, BusSubscriber, Stored};

use crate::encrypted::BoundCipher;

/// A bus that carries what only those understand who have the keys.
pub(super) struct EncryptedBus {
    bus: Arc<dyn Bus>,
    keys: BoundCipher,
}

impl EncryptedBus {
    pub(super) fn new(bus: Arc<dyn Bus>, keys: BoundCipher) -> Self {
        EncryptedBus { bus, keys }
    }
}

impl Bus for EncryptedBus {
    fn publish(&self, topic: &str, message: Vec<u8>) -> Stored<()> {
        self.bus.publish(topic, self.keys.close([topic, ""], &message))
    }

    fn subscribe(&self, topic: &str, ear: Arc<dyn BusSubscriber>) -> Box<dyn Any + Send + Sync> {
        self.bus.subscribe(topic, Arc::new(DecryptingSubscriber { ear, keys: self.keys.clone() }))
    }
}

/// Hears what opens.
struct DecryptingSubscriber {
    ear: Arc<dyn BusSubscriber>,
    keys: BoundCipher,
}

impl BusSubscriber for DecryptingSubscriber {
    fn hear(&self, topic: &str, message: &[u8]) {
        if let Some(message) = self.keys.open([topic, ""], message) {
            self.ear.hear(topic, &message);
        }
    }

    fn missed(&self) {
        self.ear.missed();
    }
}
