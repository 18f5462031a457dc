//! Stores in Redis, shared by any number of processes.

mod bus;
mod claims;
mod connector;
mod events;
mod reconnect;
mod records;

use std::sync::Arc;

use redis::{Cmd, ConnectionInfo, IntoConnectionInfo, ProtocolVersion};
use wharf_model::{Error, ErrorKind, Health, Sharing, Stores};

use self::{
    bus::RedisBus,
    claims::{RedisNonces, RedisRates},
    events::RedisEvents,
    records::RedisRecords,
};
use crate::redis::{
    connector::{ConnectionSettings, RedisConnector},
    reconnect::RedisClient,
};
use crate::url::{StoreUrl, invalid_url};

/// Opens two connections: one for commands, one for subscriptions.
pub(crate) async fn open(url: &StoreUrl<'_>) -> Result<Stores, Error> {
    let RedisConfig { info, prefix, settings } = parse(url)?;
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

/// Settings of a Redis URL.
#[derive(Debug)]
struct RedisConfig {
    info: ConnectionInfo,
    /// Prefix of all keys. It is a hash tag, so that a Redis cluster keeps all keys in one slot; a
    /// script can only use keys of one slot.
    prefix: String,
    settings: ConnectionSettings,
}

fn parse(url: &StoreUrl<'_>) -> Result<RedisConfig, Error> {
    let mut prefix = "wharf";
    let mut settings = ConnectionSettings::default();
    for (name, value) in &url.settings {
        match name.as_str() {
            "prefix" if !value.is_empty() && !value.contains(['{', '}']) => prefix = value,
            "prefix" => return Err(invalid_url("prefix must not be empty or contain { or }")),
            "proxy" => settings.proxy = Some(value.clone()),
            #[cfg(feature = "redis-tls")]
            "ca" | "cert" | "key" if url.scheme != "rediss" => {
                return Err(invalid_url(
                    "`ca`, `cert` and `key` need rediss://; redis:// has `prefix` and `proxy`",
                ));
            }
            #[cfg(feature = "redis-tls")]
            "ca" => settings.ca = Some(value.clone()),
            #[cfg(feature = "redis-tls")]
            "cert" => settings.cert = Some(value.clone()),
            #[cfg(feature = "redis-tls")]
            "key" => settings.key = Some(value.clone()),
            // The error does not repeat the name: it may be part of a password.
            _ => return Err(invalid_url(SUPPORTED_SETTINGS)),
        }
    }
    let info = format!("redis:{}", url.rest).into_connection_info();
    // The parser's error may contain the password.
    let info = info.map_err(|_| invalid_url("write redis://HOST:PORT/DB?prefix=NAME"))?;
    let protocol = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    let info = info.set_redis_settings(protocol);
    Ok(RedisConfig { info, prefix: format!("{{{prefix}}}"), settings })
}

const SUPPORTED_SETTINGS: &str =
    "unknown setting; the settings are `prefix`, `proxy`, and for rediss:// `ca`, `cert` and `key`";

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_redis_and_a_prefix() {
        let parse = |url| parse(&StoreUrl::parse(url).unwrap());
        let RedisConfig { info, prefix, .. } =
            parse("redis://me:secret@host:7000/3?prefix=mine").unwrap();
        assert_eq!((info.addr().to_string().as_str(), prefix.as_str()), ("host:7000", "{mine}"));
        assert_eq!(info.redis_settings().db(), 3);
        assert_eq!(parse("redis://host").unwrap().prefix, "{wharf}");
        for url in [
            "redis://host?prefix=",
            "redis://host?prefix={a}",
            "redis://host?size=9",
            "redis://host?ca=secret.pem",
            "redis://:pass?secret=1@host",
            "redis://:pass?secret@host",
            "redis://:secret@host:port",
            "redis:",
        ] {
            let error = parse(url).unwrap_err();
            assert!(error.message.contains("prefix"), "{url}: {error}");
            assert!(!error.message.contains("secret"), "{url}: {error}");
        }
    }
}
