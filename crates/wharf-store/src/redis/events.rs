//! Event streams in Redis: a list and a hash with the counters for each stream.

use std::sync::{Arc, LazyLock};

use redis::Script;
use wharf_model::{EventStore, Events, Retention, Stored};

use super::{exact, limit};
use crate::clock::millis;
use crate::redis::reconnect::RedisClient;

pub(super) struct RedisEvents {
    client: Arc<RedisClient>,
    prefix: String,
}

static APPEND: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/append.lua")));
static READ: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/read.lua")));

impl RedisEvents {
    pub(super) fn new(client: Arc<RedisClient>, prefix: &str) -> Self {
        RedisEvents { client, prefix: prefix.to_owned() }
    }

    /// Keys of the hash and the list of a stream.
    fn keys(&self, stream: &str) -> [String; 2] {
        ["e", "l"].map(|kind| format!("{}:{kind}:{stream}", self.prefix))
    }
}

impl EventStore for RedisEvents {
    fn append(&self, stream: &str, event: Vec<u8>, keep: Retention) -> Stored<u64> {
        let (client, [hash, list]) = (self.client.clone(), self.keys(stream));
        Box::pin(async move {
            let mut call = APPEND.key(hash);
            call.key(list).arg(event).arg(limit(keep.events)).arg(limit(keep.bytes));
            call.arg(exact(millis(keep.ttl)).max(1));
            client.execute(async |connection| call.invoke_async(connection).await).await
        })
    }

    fn read(&self, stream: &str, after: u64, most: usize) -> Stored<Events> {
        let (client, [hash, list]) = (self.client.clone(), self.keys(stream));
        Box::pin(async move {
            let mut call = READ.key(hash);
            call.key(list).arg(exact(after)).arg(limit(most));
            let (newest, first, events): (u64, u64, Vec<Vec<u8>>) =
                client.execute(async |connection| call.invoke_async(connection).await).await?;
            Ok(Events::new(newest, (first..).zip(events).collect()))
        })
    }

    fn remove(&self, stream: &str) -> Stored<()> {
        let (client, keys) = (self.client.clone(), self.keys(stream));
        Box::pin(async move {
            let mut delete = redis::cmd("UNLINK");
            delete.arg(&keys);
            client.execute(async |connection| delete.query_async(connection).await).await
        })
    }
}
