//! Bus subscribers of this process.

use std::{
    any::Any,
    sync::{Arc, MutexGuard},
};

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use wharf_model::{BusSubscriber, Lock};

/// Subscribers of this process, by topic.
#[derive(Clone, Default)]
pub(crate) struct SubscriberTable(Arc<Lock<TopicTable>>);

#[derive(Default)]
struct TopicTable {
    topics: HashMap<String, TopicSubscribers, RandomState>,
    next: u64,
}

/// Subscribers of one topic. The list is copied when it changes, so that delivery copies nothing.
type TopicSubscribers = Arc<[(u64, Arc<dyn BusSubscriber>)]>;

impl SubscriberTable {
    /// Adds a subscriber until the returned guard is dropped; then `on_drop` is called.
    pub(crate) fn add(
        &self,
        topic: &str,
        subscriber: Arc<dyn BusSubscriber>,
        on_drop: impl Fn() + Send + Sync + 'static,
    ) -> Box<dyn Any + Send + Sync> {
        let mut table = self.table();
        table.next += 1;
        let number = table.next;
        let others = table.topics.remove(topic).unwrap_or_default();
        let all = others.iter().cloned().chain([(number, subscriber)]).collect();
        table.topics.insert(topic.to_owned(), all);
        Box::new(SubscriptionGuard {
            subscribers: self.clone(),
            topic: topic.to_owned(),
            number,
            on_drop,
        })
    }

    /// Delivers a message to the subscribers of the topic. The table is not locked meanwhile:
    /// subscribers may come and go.
    pub(crate) fn deliver(&self, topic: &str, message: &[u8]) {
        let topic_subscribers = self.table().topics.get(topic).cloned();
        for (_, subscriber) in topic_subscribers.iter().flat_map(|subscribers| subscribers.iter()) {
            subscriber.receive(topic, message);
        }
    }

    fn remove(&self, topic: &str, number: u64) {
        let mut table = self.table();
        let Some(subscribers) = table.topics.remove(topic) else { return };
        let rest: TopicSubscribers =
            subscribers.iter().filter(|(each, _)| *each != number).cloned().collect();
        if !rest.is_empty() {
            table.topics.insert(topic.to_owned(), rest);
        }
        // The destructor of a subscriber may call this table again, so the lock is released first.
        drop(table);
        drop(subscribers);
    }

    fn table(&self) -> MutexGuard<'_, TopicTable> {
        self.0.lock()
    }
}

#[cfg(feature = "redis")]
impl SubscriberTable {
    /// Notifies the subscribers of these topics that they may have missed messages.
    pub(crate) fn notify_missed<'a>(&self, topics: impl IntoIterator<Item = &'a String>) {
        for topic in topics {
            let subscribers = self.table().topics.get(topic).cloned();
            subscribers
                .iter()
                .flat_map(|subscribers| subscribers.iter())
                .for_each(|(_, subscriber)| subscriber.missed());
        }
    }

    /// Topics with at least one subscriber.
    pub(crate) fn topics(&self) -> Vec<String> {
        self.table().topics.keys().cloned().collect()
    }
}

struct SubscriptionGuard<F: Fn()> {
    subscribers: SubscriberTable,
    topic: String,
    number: u64,
    on_drop: F,
}

impl<F: Fn()> Drop for SubscriptionGuard<F> {
    fn drop(&mut self) {
        self.subscribers.remove(&self.topic, self.number);
        (self.on_drop)();
    }
}
