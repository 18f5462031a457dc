//! Records in Redis: a hash each, indexed by sorted sets, changed by Lua scripts.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use redis::{FromRedisValue, RedisResult, Script, Value};
use wharf_model::{AttachResult, Record, RecordStore, Stored};

use super::{exact, limit};
use crate::redis::reconnect::RedisClient;

pub(super) struct RedisRecords {
    client: Arc<RedisClient>,
    /// Prefix of all keys.
    base: String,
}

macro_rules! scripts {
    ($($name:ident $file:literal;)*) => {$(
        static $name: LazyLock<Script> = LazyLock::new(|| {
            Script::new(concat!(include_str!("scripts/prelude.lua"), include_str!($file)))
        });
    )*};
}

scripts! {
    INSERT "scripts/insert.lua";
    SWAP "scripts/swap.lua";
    REMOVE "scripts/remove.lua";
    LIST "scripts/list.lua";
    DUE "scripts/due.lua";
    KEEP "scripts/keep.lua";
    SWEEP "scripts/sweep.lua";
}

/// Fields of a record's hash, in the order that [`record`] reads them.
const FIELDS: [&str; 7] = ["v", "o", "c", "f", "d", "e", "b"];
type RecordFields = (u64, String, u64, u64, String, String, Vec<u8>);

impl RedisRecords {
    pub(super) fn new(client: Arc<RedisClient>, base: String) -> Self {
        RedisRecords { client, base }
    }

    /// Runs a script with these arguments.
    fn run<T: FromRedisValue + Send + 'static>(
        &self,
        script: &'static Script,
        arguments: Vec<Vec<u8>>,
    ) -> Stored<T> {
        let (client, base) = (self.client.clone(), self.base.clone());
        Box::pin(async move {
            let mut call = script.key(base);
            for argument in arguments {
                call.arg(argument);
            }
            client.execute(async |connection| call.invoke_async(connection).await).await
        })
    }
}

impl RecordStore for RedisRecords {
    fn now(&self) -> Stored<u64> {
        let client = self.client.clone();
        Box::pin(async move {
            let time = redis::cmd("TIME");
            let (seconds, micros): (u64, u64) =
                client.execute(async |connection| time.query_async(connection).await).await?;
            Ok(seconds * 1_000 + micros / 1_000)
        })
    }

    fn insert(&self, record: Record, most: usize) -> Stored<bool> {
        let mut arguments = arguments(record);
        arguments.push(text(limit(most)));
        self.run(&INSERT, arguments)
    }

    fn load(&self, id: &str) -> Stored<Option<Record>> {
        let (client, key, id) =
            (self.client.clone(), format!("{}:r:{id}", self.base), id.to_owned());
        Box::pin(async move {
            let mut get = redis::cmd("HMGET");
            get.arg(key).arg(&FIELDS);
            let read = async |connection: &mut _| -> RedisResult<Option<RecordFields>> {
                let values: Value = get.query_async(connection).await?;
                // If there is no hash, all of its fields are nil.
                match &values {
                    Value::Array(fields) if fields.first() == Some(&Value::Nil) => Ok(None),
                    _ => Ok(Some(FromRedisValue::from_redis_value(values)?)),
                }
            };
            Ok(client.execute(read).await?.map(|fields| record(id, fields)))
        })
    }

    fn swap(&self, record: Record) -> Stored<bool> {
        let version = record.version;
        let mut arguments = arguments(record);
        arguments.extend([text(version), text(version.saturating_add(1))]);
        self.run(&SWAP, arguments)
    }

    fn remove(&self, id: &str) -> Stored<bool> {
        self.run(&REMOVE, vec![id.into()])
    }

    fn list(&self, owner: &str, after: Option<&str>, most: usize) -> Stored<Vec<Record>> {
        let mut arguments = vec![owner.into(), text(limit(most))];
        arguments.extend(after.map(Into::into));
        let rows = self.run::<Vec<(String, RecordFields)>>(&LIST, arguments);
        Box::pin(async move {
            Ok(rows.await?.into_iter().map(|(id, fields)| record(id, fields)).collect())
        })
    }

    fn due(&self, most: usize) -> Stored<Vec<String>> {
        self.run(&DUE, vec![text(limit(most))])
    }

    fn attach(&self, id: &str, fence: u64, name: &str, value: Vec<u8>) -> Stored<AttachResult> {
        let arguments = vec![id.into(), text(fence), name.into(), value];
        let reply = self.run::<Vec<Vec<u8>>>(&KEEP, arguments);
        Box::pin(async move {
            let mut reply = reply.await?.into_iter();
            Ok(match (reply.next().as_deref(), reply.next()) {
                (Some(b"kept"), _) => AttachResult::Attached,
                (Some(b"known"), Some(value)) => AttachResult::Exists(value),
                _ => AttachResult::Lost,
            })
        })
    }

    fn attachments(&self, id: &str) -> Stored<BTreeMap<String, Vec<u8>>> {
        let (client, key) = (self.client.clone(), format!("{}:k:{id}", self.base));
        Box::pin(async move {
            let mut get = redis::cmd("HGETALL");
            get.arg(key);
            client.execute(async |connection| get.query_async(connection).await).await
        })
    }

    fn sweep(&self, most: usize) -> Stored<usize> {
        self.run(&SWEEP, vec![text(limit(most))])
    }
}

/// Arguments that all scripts that write a record begin with.
fn arguments(record: Record) -> Vec<Vec<u8>> {
    let Record { id, owner, created, fence, due, expires, body, .. } = record;
    let time = |time: Option<u64>| time.map(|at| text(exact(at))).unwrap_or_default();
    let whose = [id.into(), owner.into(), text(exact(created)), text(fence)];
    whose.into_iter().chain([time(due), time(expires), body]).collect()
}

fn text(number: u64) -> Vec<u8> {
    number.to_string().into_bytes()
}

fn record(id: String, fields: RecordFields) -> Record {
    let (version, owner, created, fence, due, expires, body) = fields;
    let time = |text: String| text.parse().ok();
    Record::new(id)
        .owner(owner)
        .created(created)
        .version(version)
        .fence(fence)
        .due(time(due))
        .expires(time(expires))
        .body(body)
}
