//! One-time claims (nonces) and rates in Redis.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use redis::Script;
use sha2::{Digest, Sha256};
use wharf_model::{NonceStore, Rate, RateDecision, RateStore, Stored};

use super::exact;
use crate::redis::reconnect::RedisClient;
use crate::{clock::millis, memory::MemoryRates};

pub(super) struct RedisNonces {
    client: Arc<RedisClient>,
    prefix: String,
}

impl RedisNonces {
    pub(super) fn new(client: Arc<RedisClient>, prefix: &str) -> Self {
        RedisNonces { client, prefix: format!("{prefix}:n:") }
    }
}

impl NonceStore for RedisNonces {
    fn claim(&self, nonce: &str, ttl: Duration) -> Stored<bool> {
        let (client, key) = (self.client.clone(), format!("{}{nonce}", self.prefix));
        Box::pin(async move {
            let mut set = redis::cmd("SET");
            set.arg(key).arg(1).arg("NX").arg("PX").arg(exact(millis(ttl)).max(1));
            let claimed: Option<String> =
                client.execute(async |connection| set.query_async(connection).await).await?;
            Ok(claimed.is_some())
        })
    }
}

/// Token buckets that all processes share. While Redis is down each process counts on its own:
/// callers are limited less strictly, but are neither rejected nor unlimited.
pub(super) struct RedisRates {
    client: Arc<RedisClient>,
    prefix: String,
    local: Arc<MemoryRates>,
}

static TAKE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/take.lua")));

impl RedisRates {
    pub(super) fn new(client: Arc<RedisClient>, prefix: &str) -> Self {
        RedisRates { client, prefix: format!("{prefix}:q:"), local: Arc::default() }
    }
}

/// Hashes the key of a caller, so that Redis stores neither identities nor addresses.
fn digest(key: &str) -> String {
    Sha256::digest(key).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl RateStore for RedisRates {
    fn take(&self, key: &str, rate: Rate) -> RateDecision {
        if !self.client.is_up() {
            return self.local.take(key, rate);
        }
        let (client, local, key) = (self.client.clone(), self.local.clone(), key.to_owned());
        let mut call = TAKE.key(format!("{}{}", self.prefix, digest(&key)));
        call.arg(rate.per_second).arg(rate.burst);
        RateDecision::Later(Box::pin(async move {
            let wait = client.execute(async |connection| call.invoke_async(connection).await).await;
            match wait {
                Ok(0) => Ok(()),
                Ok(wait) => Err(Duration::from_millis(wait)),
                Err(_) => local.take(&key, rate).taken().await,
            }
        }))
    }
}
