//! How Redis is reached: in the open, or encrypted.

use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, RedisResult, aio::MultiplexedConnection,
};

#[cfg(feature = "redis-tls")]
use crate::redis::tls::{Driver, Tls};

/// Where Redis is, and how to talk to it.
#[derive(Clone)]
pub(super) struct Dial {
    client: Client,
    #[cfg(feature = "redis-tls")]
    tls: Option<Tls>,
}

/// A connection, which its clones share.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) redis: MultiplexedConnection,
    /// What moves its bytes, if we do that.
    #[cfg(feature = "redis-tls")]
    pub(super) _driver: Option<std::sync::Arc<Driver>>,
}

impl Dial {
    pub(super) fn open(info: ConnectionInfo) -> RedisResult<Self> {
        Ok(Dial {
            client: Client::open(info)?,
            #[cfg(feature = "redis-tls")]
            tls: None,
        })
    }

    #[cfg(feature = "redis-tls")]
    pub(super) fn encrypted(self, tls: Tls) -> Self {
        Dial { tls: Some(tls), ..self }
    }

    pub(super) async fn connect(&self, config: &AsyncConnectionConfig) -> RedisResult<Connection> {
        #[cfg(feature = "redis-tls")]
        if let Some(tls) = &self.tls {
            return tls.connect(self.client.get_connection_info(), config).await;
        }
        Ok(Connection {
            redis: self.client.get_multiplexed_async_connection_with_config(config).await?,
            #[cfg(feature = "redis-tls")]
            _driver: None,
        })
    }
}
