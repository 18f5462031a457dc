//! Connects to a URL with the transport of its scheme.

#[cfg(unix)]
use std::path::PathBuf;
use std::sync::Arc;

use wharf_client::ClientTransport;
use wharf_model::Error;
#[cfg(feature = "auth")]
use wharf_model::FailureOrigin;
use wharf_transport::client::{self as transports, ClientTransportOptions, Deadline};

#[cfg(feature = "auth")]
use crate::client::connect_timeout::ClockPausingCredentials;
use crate::client::{ClientBuilder, config::masked_url, connect::target_error};

/// URL schemes that are supported only with the corresponding feature.
const FEATURE_SCHEMES: [&str; 5] = ["http", "https", "ws", "wss", "unix"];

impl ClientBuilder {
    pub(super) async fn connect_url(
        &self,
        url: &str,
        options: ClientTransportOptions,
        deadline: &Arc<Deadline>,
    ) -> Result<Arc<dyn ClientTransport>, Error> {
        let scheme = url.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
        #[cfg(feature = "auth")]
        let options = match (&self.auth, scheme.as_deref()) {
            (Some(auth), Some("http" | "https" | "ws" | "wss")) => {
                let credentials =
                    auth.at(url).map_err(|error| error.from_client(FailureOrigin::Target))?;
                options.credentials(ClockPausingCredentials::new(credentials, deadline))
            }
            _ => options,
        };
        #[cfg(not(feature = "auth"))]
        let _ = deadline;
        #[cfg(feature = "tls")]
        let options = self.with_identity(url, options);
        let rest = |prefix: &str| url.get(prefix.len()..).unwrap_or_default().to_owned();
        match scheme.as_deref() {
            #[cfg(feature = "http")]
            Some("http" | "https") => {
                transports::connect_http(url, self.headers.clone(), options).await
            }
            #[cfg(feature = "websocket")]
            Some("ws" | "wss") => {
                transports::connect_websocket(url, self.headers.clone(), options).await
            }
            Some("tcp") if url.contains('@') => Err(target_error(&format!(
                "{} has a user or a password, which plain TCP does not support: write \
                 tcp://HOST:PORT",
                masked_url(url)
            ))),
            Some("tcp") if rest("tcp:").starts_with("//") => {
                transports::connect_tcp(rest("tcp://"), options).await
            }
            #[cfg(unix)]
            Some("unix") => {
                let path = rest("unix:");
                let path = path.strip_prefix("//").unwrap_or(&path);
                transports::connect_unix(PathBuf::from(path), options).await
            }
            Some(known) if FEATURE_SCHEMES.contains(&known) => Err(target_error(
                &"this build of Wharf cannot connect to such a URL: it needs the feature `http`, `websocket` \
                  or `tls`",
            )),
            _ => Err(target_error(&format!(
                "{:?} is not a server address: write http://…, https://…, ws://…, wss://…, \
                 tcp://HOST:PORT or unix:PATH, or give a command to start",
                masked_url(url)
            ))),
        }
    }
}
