//! Message bus over Redis publish/subscribe, with a separate connection for subscriptions.

use std::{any::Any, collections::HashSet, sync::Arc};

use redis::{FromRedisValue, PushInfo, PushKind, RedisResult};
use tokio::{sync::watch, task::AbortHandle, time::timeout};
use wharf_model::{Bus, BusSubscriber, Error, Stored};

use crate::redis::{
    connector::RedisConnector,
    reconnect::{COMMAND_TIMEOUT, RedisClient},
};
use crate::subscribers::SubscriberTable;

/// Topics in one `SUBSCRIBE` or `UNSUBSCRIBE` command.
const MAX_TOPICS_PER_COMMAND: usize = 500;

pub(super) struct RedisBus {
    /// Publishes.
    client: Arc<RedisClient>,
    subscriptions: Arc<ChannelSubscriptions>,
    sync_task: AbortHandle,
}

struct ChannelSubscriptions {
    client: RedisClient,
    /// Prefix of all channels.
    prefix: String,
    subscribers: SubscriberTable,
    /// Counts subscriptions and their ends in this process.
    changes: watch::Sender<u64>,
    /// Value of `changes` that Redis has been updated to.
    synced: watch::Sender<u64>,
}

impl RedisBus {
    pub(super) async fn open(
        connector: RedisConnector,
        client: Arc<RedisClient>,
        prefix: &str,
    ) -> RedisResult<Self> {
        let (subscribers, start) = (SubscriberTable::default(), prefix.to_owned());
        let receivers = subscribers.clone();
        let listener = move |message: PushInfo| {
            if let Some((topic, message)) = decode(message, &start) {
                receivers.deliver(&topic, &message);
            }
        };
        let subscriptions = Arc::new(ChannelSubscriptions {
            client: RedisClient::open(connector, redis::cmd("PING"), Arc::new(listener)).await?,
            prefix: prefix.to_owned(),
            subscribers,
            changes: watch::Sender::new(0),
            synced: watch::Sender::new(0),
        });
        let sync_task =
            tokio::spawn(ChannelSubscriptions::sync_loop(subscriptions.clone())).abort_handle();
        Ok(RedisBus { client, subscriptions, sync_task })
    }

    pub(super) fn is_up(&self) -> bool {
        self.subscriptions.client.is_up()
    }
}

impl Bus for RedisBus {
    fn publish(&self, topic: &str, message: Vec<u8>) -> Stored<()> {
        let (client, subscriptions) = (self.client.clone(), self.subscriptions.clone());
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(format!("{}{topic}", subscriptions.prefix)).arg(message);
        Box::pin(async move {
            subscriptions.wait_synced().await;
            client.execute(async |connection| publish.query_async(connection).await).await
        })
    }

    fn subscribe(
        &self,
        topic: &str,
        subscriber: Arc<dyn BusSubscriber>,
    ) -> Box<dyn Any + Send + Sync> {
        let subscriptions = self.subscriptions.clone();
        let subscription = self
            .subscriptions
            .subscribers
            .add(topic, subscriber, move || subscriptions.mark_changed());
        self.subscriptions.mark_changed();
        subscription
    }
}

impl Drop for RedisBus {
    fn drop(&mut self) {
        self.sync_task.abort();
    }
}

impl ChannelSubscriptions {
    fn mark_changed(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Waits until Redis has all current subscriptions, so that a new subscriber receives what this
    /// process publishes next. While Redis is down it does not wait: subscribers are notified later
    /// that they missed messages.
    async fn wait_synced(&self) {
        let now = *self.changes.borrow();
        if *self.synced.borrow() >= now || !self.client.is_up() {
            return;
        }
        let mut synced = self.synced.subscribe();
        tokio::select! {
            _ = timeout(COMMAND_TIMEOUT, synced.wait_for(|synced| *synced >= now)) => {}
            () = self.client.wait_down() => {}
        }
    }

    /// Sends the subscribed topics to Redis whenever they change or the connection is new.
    async fn sync_loop(self: Arc<Self>) {
        let mut changes = self.changes.subscribe();
        let mut generation = 0;
        loop {
            generation = self.client.wait_newer(generation).await;
            // A new connection has no subscriptions.
            let mut subscribed = HashSet::new();
            loop {
                let now = *changes.borrow_and_update();
                if self.sync(&mut subscribed, now).await.is_err() {
                    // The subscriptions of this connection are uncertain now; a new connection
                    // starts without any.
                    self.client.mark_broken(generation);
                    break;
                }
                tokio::select! {
                    _ = changes.changed() => {}
                    () = self.client.wait_lost(generation) => break,
                }
            }
        }
    }

    async fn sync(&self, subscribed: &mut HashSet<String>, changes: u64) -> Result<(), Error> {
        let wanted: HashSet<_> = self.subscribers.topics().into_iter().collect();
        let added: Vec<_> = wanted.difference(subscribed).cloned().collect();
        let removed: Vec<_> = subscribed.difference(&wanted).cloned().collect();
        for topics in added.chunks(MAX_TOPICS_PER_COMMAND) {
            let channels = self.channels(topics);
            self.client.execute(async |connection| connection.subscribe(channels).await).await?;
            // Messages published before this moment were not received.
            self.subscribers.notify_missed(topics);
        }
        for topics in removed.chunks(MAX_TOPICS_PER_COMMAND) {
            let channels = self.channels(topics);
            self.client.execute(async |connection| connection.unsubscribe(channels).await).await?;
        }
        *subscribed = wanted;
        self.synced.send_replace(changes);
        Ok(())
    }

    fn channels(&self, topics: &[String]) -> Vec<String> {
        topics.iter().map(|topic| format!("{}{topic}", self.prefix)).collect()
    }
}

/// Extracts the topic and the payload of a message.
fn decode(message: PushInfo, prefix: &str) -> Option<(String, Vec<u8>)> {
    if message.kind != PushKind::Message {
        return None;
    }
    let mut parts = message.data.into_iter();
    let channel = String::from_redis_value(parts.next()?).ok()?;
    let payload = Vec::from_redis_value(parts.next()?).ok()?;
    Some((channel.strip_prefix(prefix)?.to_owned(), payload))
}
