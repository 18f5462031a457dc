//! Settings in the URL of a Redis store.

use redis::{ConnectionInfo, IntoConnectionInfo, ProtocolVersion};
use wharf_model::Error;

use crate::{
    redis::connector::ConnectionSettings,
    url::{StoreUrl, invalid_url},
};

/// Settings of a Redis URL.
#[derive(Debug)]
pub(super) struct RedisConfig {
    pub(super) info: ConnectionInfo,
    /// Prefix of all keys. It is a hash tag, so that a Redis cluster keeps all keys in one slot; a
    /// script can only use keys of one slot.
    pub(super) prefix: String,
    pub(super) settings: ConnectionSettings,
}

pub(super) fn parse(url: &StoreUrl<'_>) -> Result<RedisConfig, Error> {
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
