//! Stores in Redis, shared by any number of processes.

mod bus;
mod claims;
mod connector;
mod events;
mod reconnect;
mod records;
mod url_settings;

use std::sync::Arc;

use redis::Cmd;
use wharf_model::{Error, ErrorKind, Health, Sharing, Stores};

use self::{
    bus::RedisBus,
    claims::{RedisNonces, RedisRates},
    events::RedisEvents,
    records::RedisRecords,
    url_settings::RedisConfig,
};
use crate::redis::{connector::RedisConnector, reconnect::RedisClient};
use crate::url::StoreUrl;

/// Opens two connections: one for commands, one for subscriptions.
pub(crate) async fn open(url: &StoreUrl<'_>) -> Result<Stores, Error> {
    let RedisConfig { info, prefix, settings } = url_settings::parse(url)?;
    let address = info.addr().to_string();
    let cannot = |why: redis::RedisError| {
        let message = format!("cannot reach Redis at {address}: {why}");
        Error::new(ErrorKind::TemporarilyUnavailable).with_message(message).with_source(why)
    };
    let connector = RedisConnector::new(info, url.scheme == "rediss", settings).await?;
    let client = RedisClient::open(connector.clone(), write_probe(&prefix), Arc::new(|_| ())).await;
    let client = Arc::new(client.map_err(cannot)?);
    let bus = RedisBus::open(connector, client.clone(), &format!("{prefix}:b:")).await;
    let bus = Arc::new(bus.map_err(cannot)?);
    let records = |name| RedisRecords::new(client.clone(), format!("{prefix}:{name}"));
    Ok(Stores::new(Sharing::Cluster)
        .name("redis")
        .tasks(records("t"))
        .sessions(records("s"))
        .grants(records("g"))
        .events(RedisEvents::new(client.clone(), &prefix))
        .rates(RedisRates::new(client.clone(), &prefix))
        .nonces(RedisNonces::new(client.clone(), &prefix))
        .health(RedisHealth(client, bus.clone()))
        .bus(bus))
}

/// Command that tests whether Redis accepts writes.
fn write_probe(prefix: &str) -> Cmd {
    let mut set = redis::cmd("SET");
    set.arg(format!("{prefix}:probe")).arg(1).arg("PX").arg(1);
    set
}

struct RedisHealth(Arc<RedisClient>, Arc<RedisBus>);

impl Health for RedisHealth {
    fn is_ready(&self) -> bool {
        self.0.is_up() && self.1.is_up() && !self.0.is_full()
    }
}

/// Largest integer that a script and the score of a sorted set hold exactly. A time beyond it means
/// never.
const MAX_EXACT_INTEGER: u64 = (1 << 53) - 1;

fn exact(number: u64) -> u64 {
    number.min(MAX_EXACT_INTEGER)
}

fn limit(most: usize) -> u64 {
    u64::try_from(most).unwrap_or(MAX_EXACT_INTEGER).min(MAX_EXACT_INTEGER)
}
