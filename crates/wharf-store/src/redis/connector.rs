//! Connects to Redis, with or without TLS.

use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, RedisResult, aio::MultiplexedConnection,
};

#[cfg(feature = "redis-tls")]
use crate::redis::tls::{ConnectionDriver, TlsDialer};

/// Address and settings of Redis.
#[derive(Clone)]
pub(super) struct RedisConnector {
    client: Client,
    #[cfg(feature = "redis-tls")]
    tls: Option<TlsDialer>,
}

/// Connection that its clones share.
#[derive(Clone)]
pub(super) struct RedisConnection {
    pub(super) redis: MultiplexedConnection,
    /// Task that moves the bytes of a TLS connection.
    #[cfg(feature = "redis-tls")]
    pub(super) _driver: Option<std::sync::Arc<ConnectionDriver>>,
}

impl RedisConnector {
    pub(super) fn open(info: ConnectionInfo) -> RedisResult<Self> {
        Ok(RedisConnector {
            client: Client::open(info)?,
            #[cfg(feature = "redis-tls")]
            tls: None,
        })
    }

    #[cfg(feature = "redis-tls")]
    pub(super) fn encrypted(self, tls: TlsDialer) -> Self {
        RedisConnector { tls: Some(tls), ..self }
    }

    pub(super) async fn connect(
        &self,
        config: &AsyncConnectionConfig,
    ) -> RedisResult<RedisConnection> {
        #[cfg(feature = "redis-tls")]
        if let Some(tls) = &self.tls {
            return tls.connect(self.client.get_connection_info(), config).await;
        }
        Ok(RedisConnection {
            redis: self.client.get_multiplexed_async_connection_with_config(config).await?,
            #[cfg(feature = "redis-tls")]
            _driver: None,
        })
    }
}
