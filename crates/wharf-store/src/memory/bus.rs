//! Message bus within the process.

use std::{any::Any, fmt, future::ready, sync::Arc};

use wharf_model::{Bus, BusSubscriber, Stored};

use crate::subscribers::SubscriberTable;

/// Carries messages within this process: each is delivered before `publish` returns its future.
#[derive(Default)]
pub struct MemoryBus {
    subscribers: SubscriberTable,
}

impl Bus for MemoryBus {
    fn publish(&self, topic: &str, message: Vec<u8>) -> Stored<()> {
        self.subscribers.deliver(topic, &message);
        Box::pin(ready(Ok(())))
    }

    fn subscribe(
        &self,
        topic: &str,
        subscriber: Arc<dyn BusSubscriber>,
    ) -> Box<dyn Any + Send + Sync> {
        self.subscribers.add(topic, subscriber, || {})
    }
}

impl fmt::Debug for MemoryBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBus").finish_non_exhaustive()
    }
}
