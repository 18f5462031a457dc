//! What processes say to each other, over publish and subscribe, on a connection of its own.

use std::{any::Any, collections::HashSet, sync::Arc};

use redis::{FromRedisValue, PushInfo, PushKind, RedisResult};
use tokio::{sync::watch, task::AbortHandle, time::timeout};
use wharf_model::{Bus, BusSubscriber, Error, Stored};

use crate::redis::{
    connector::RedisConnector,
    reconnect::{PATIENCE, RedisClient},
};
use crate::subscribers::SubscriberTable;

/// Topics in one command.
const CHUNK: usize = 500;

pub(super) struct RedisBus {
    /// Says.
    link: Arc<RedisClient>,
    hearing: Arc<ChannelSubscriptions>,
    follower: AbortHandle,
}

struct ChannelSubscriptions {
    link: RedisClient,
    /// How all channels begin.
    prefix: String,
    ears: SubscriberTable,
    /// Counts how often ears came and went,
    changes: watch::Sender<u64>,
    /// and which of these changes Redis knows of.
    known: watch::Sender<u64>,
}

impl RedisBus {
    pub(super) async fn open(
        dial: RedisConnector,
        link: Arc<RedisClient>,
        prefix: &str,
    ) -> RedisResult<Self> {
        let (ears, start) = (SubscriberTable::default(), prefix.to_owned());
        let heard = ears.clone();
        let listener = move |message: PushInfo| {
            if let Some((topic, message)) = read(message, &start) {
                heard.hear(&topic, &message);
            }
        };
        let hearing = Arc::new(ChannelSubscriptions {
            link: RedisClient::open(dial, redis::cmd("PING"), Arc::new(listener)).await?,
            prefix: prefix.to_owned(),
            ears,
            changes: watch::Sender::new(0),
            known: watch::Sender::new(0),
        });
        let follower = tokio::spawn(ChannelSubscriptions::follow(hearing.clone())).abort_handle();
        Ok(RedisBus { link, hearing, follower })
    }

    pub(super) fn is_up(&self) -> bool {
        self.hearing.link.is_up()
    }
}

impl Bus for RedisBus {
    fn publish(&self, topic: &str, message: Vec<u8>) -> Stored<()> {
        let (link, hearing) = (self.link.clone(), self.hearing.clone());
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(format!("{}{topic}", hearing.prefix)).arg(message);
        Box::pin(async move {
            hearing.settled().await;
            link.ask(async |connection| publish.query_async(connection).await).await
        })
    }

    fn subscribe(&self, topic: &str, ear: Arc<dyn BusSubscriber>) -> Box<dyn Any + Send + Sync> {
        let hearing = self.hearing.clone();
        let place = self.hearing.ears.add(topic, ear, move || hearing.changed());
        self.hearing.changed();
        place
    }
}

impl Drop for RedisBus {
    fn drop(&mut self) {
        self.follower.abort();
    }
}

impl ChannelSubscriptions {
    fn changed(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Waits until Redis knows of all ears that are there now: who begins to hear, hears what this
    /// process says next. Not while it cannot know: then they will be told that they missed something.
    async fn settled(&self) {
        let now = *self.changes.borrow();
        if *self.known.borrow() >= now || !self.link.is_up() {
            return;
        }
        let mut known = self.known.subscribe();
        tokio::select! {
            _ = timeout(PATIENCE, known.wait_for(|known| *known >= now)) => {}
            () = self.link.down() => {}
        }
    }

    /// Tells Redis which topics are heard, as often as that changes or the connection is new.
    async fn follow(self: Arc<Self>) {
        let mut changes = self.changes.subscribe();
        let mut generation = 0;
        loop {
            generation = self.link.newer_than(generation).await;
            // On a new connection, nothing is subscribed yet.
            let mut subscribed = HashSet::new();
            loop {
                let now = *changes.borrow_and_update();
                if self.tell(&mut subscribed, now).await.is_err() {
                    // Who knows what is subscribed now: a new connection begins anew.
                    self.link.give_up(generation);
                    break;
                }
                tokio::select! {
                    _ = changes.changed() => {}
                    () = self.link.gone(generation) => break,
                }
            }
        }
    }

    async fn tell(&self, subscribed: &mut HashSet<String>, changes: u64) -> Result<(), Error> {
        let heard: HashSet<_> = self.ears.topics().into_iter().collect();
        let news: Vec<_> = heard.difference(subscribed).cloned().collect();
        let unheard: Vec<_> = subscribed.difference(&heard).cloned().collect();
        for topics in news.chunks(CHUNK) {
            let channels = self.channels(topics);
            self.link.ask(async |connection| connection.subscribe(channels).await).await?;
            // What was said before this moment was not heard.
            self.ears.missed(topics);
        }
        for topics in unheard.chunks(CHUNK) {
            let channels = self.channels(topics);
            self.link.ask(async |connection| connection.unsubscribe(channels).await).await?;
        }
        *subscribed = heard;
        self.known.send_replace(changes);
        Ok(())
    }

    fn channels(&self, topics: &[String]) -> Vec<String> {
        topics.iter().map(|topic| format!("{}{topic}", self.prefix)).collect()
    }
}

/// The topic and the words of a message.
fn read(message: PushInfo, prefix: &str) -> Option<(String, Vec<u8>)> {
    if message.kind != PushKind::Message {
        return None;
    }
    let mut parts = message.data.into_iter();
    let channel = String::from_redis_value(parts.next()?).ok()?;
    let words = Vec::from_redis_value(parts.next()?).ok()?;
    Some((channel.strip_prefix(prefix)?.to_owned(), words))
}
