//! Who hears what in this process.

use std::{
    any::Any,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use wharf_model::BusSubscriber;

/// The ears of this process, by topic.
#[derive(Clone, Default)]
pub(crate) struct SubscriberTable(Arc<Mutex<TopicTable>>);

#[derive(Default)]
struct TopicTable {
    topics: HashMap<String, TopicSubscribers, RandomState>,
    next: u64,
}

/// Those who hear one topic. It is copied when it changes, so that saying something copies nothing.
type TopicSubscribers = Arc<[(u64, Arc<dyn BusSubscriber>)]>;

impl SubscriberTable {
    /// Adds an ear until what is returned is dropped; then `gone` is called.
    pub(crate) fn add(
        &self,
        topic: &str,
        ear: Arc<dyn BusSubscriber>,
        gone: impl Fn() + Send + Sync + 'static,
    ) -> Box<dyn Any + Send + Sync> {
        let mut table = self.table();
        table.next += 1;
        let number = table.next;
        let others = table.topics.remove(topic).unwrap_or_default();
        let all = others.iter().cloned().chain([(number, ear)]).collect();
        table.topics.insert(topic.to_owned(), all);
        Box::new(SubscriptionGuard { ears: self.clone(), topic: topic.to_owned(), number, gone })
    }

    /// Tells all who hear the topic. Nothing is locked meanwhile: ears may come and go.
    pub(crate) fn hear(&self, topic: &str, message: &[u8]) {
        let topic_ears = self.table().topics.get(topic).cloned();
        for (_, ear) in topic_ears.iter().flat_map(|ears| ears.iter()) {
            ear.hear(topic, message);
        }
    }

    fn remove(&self, topic: &str, number: u64) {
        let mut table = self.table();
        let Some(ears) = table.topics.remove(topic) else { return };
        let rest: TopicSubscribers =
            ears.iter().filter(|(each, _)| *each != number).cloned().collect();
        if !rest.is_empty() {
            table.topics.insert(topic.to_owned(), rest);
        }
        // An ear's own destructor may come back here.
        drop(table);
        drop(ears);
    }

    fn table(&self) -> MutexGuard<'_, TopicTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(feature = "redis")]
impl SubscriberTable {
    /// Tells all who hear one of the topics that something may have been said.
    pub(crate) fn missed<'a>(&self, topics: impl IntoIterator<Item = &'a String>) {
        for topic in topics {
            let ears = self.table().topics.get(topic).cloned();
            ears.iter().flat_map(|ears| ears.iter()).for_each(|(_, ear)| ear.missed());
        }
    }

    /// The topics that somebody hears.
    pub(crate) fn topics(&self) -> Vec<String> {
        self.table().topics.keys().cloned().collect()
    }
}

struct SubscriptionGuard<F: Fn()> {
    ears: SubscriberTable,
    topic: String,
    number: u64,
    gone: F,
}

impl<F: Fn()> Drop for SubscriptionGuard<F> {
    fn drop(&mut self) {
        self.ears.remove(&self.topic, self.number);
        (self.gone)();
    }
}
