//! Connects to a target: a URL by its scheme, a program, a server in this process, or streams.

use std::{fmt, path::PathBuf, sync::Arc};

use wharf_client::ClientTransport;
use wharf_model::{Error, ErrorKind, FailureOrigin};
#[cfg(feature = "server")]
use wharf_model::{RequestExtensions, Trusted};
use wharf_transport::client::{self as transports, ChildCommand, ClientTransportOptions, Deadline};

#[cfg(feature = "server")]
use crate::Endpoint;
#[cfg(feature = "auth")]
use crate::client::connect_timeout::ClockPausingCredentials;
use crate::client::{ClientBuilder, Target, config::masked_url};

/// URL schemes that are supported only with the corresponding feature.
const FEATURE_SCHEMES: [&str; 5] = ["http", "https", "ws", "wss", "unix"];

impl ClientBuilder {
    pub(super) async fn connect_target(
        &self,
        target: Target,
        deadline: &Deadline,
    ) -> Result<Arc<dyn ClientTransport>, Error> {
        let options = self.transport_options();
        match target {
            Target::Url(url) => self.connect_url(&url, options, deadline).await,
            Target::Command(command) => self.start_command(command, options).await,
            #[cfg(feature = "server")]
            Target::Server(server) => self.connect_in_process(*server, options).await,
            Target::Streams(connector) => transports::connect_stream(connector, options).await,
            Target::Transport(transport) => Ok(transport),
            Target::Entry(entry) => Err(target_error(&format!("{} refers to itself", entry.name))),
        }
    }

    async fn start_command(
        &self,
        mut command: ChildCommand,
        options: ClientTransportOptions,
    ) -> Result<Arc<dyn ClientTransport>, Error> {
        if let Some(stderr) = self.stderr {
            command.stderr = stderr;
        }
        transports::connect_child(command, options).await
    }

    /// Calls a server in this process directly; with a pinned version or a trace, over a memory
    /// stream.
    #[cfg(feature = "server")]
    async fn connect_in_process(
        &self,
        server: Endpoint,
        options: ClientTransportOptions,
    ) -> Result<Arc<dyn ClientTransport>, Error> {
        let mut scope = RequestExtensions::new();
        match &self.principal {
            Some(principal) => scope.insert(principal.clone()),
            None => scope.insert(Trusted),
        }
        if self.protocol_version.is_none() && self.trace.is_none() {
            let info = server.context.wire.about().clone();
            return wharf_client::local_with(server.service(), info, scope).await;
        }
        transports::connect_stream(server.connect_memory_with(scope), options).await
    }

    async fn connect_url(
        &self,
        url: &str,
        options: ClientTransportOptions,
        deadline: &Deadline,
    ) -> Result<Arc<dyn ClientTransport>, Error> {
        let scheme = url.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
        #[cfg(feature = "auth")]
        let options = match (&self.auth, scheme.as_deref()) {
            (Some(auth), Some("http" | "https" | "ws" | "wss")) => {
                let mut options = options;
                let credentials =
                    auth.at(url).map_err(|error| error.from_client(FailureOrigin::Target))?;
                let deadline = deadline.clone();
                options.credentials =
                    Some(Arc::new(ClockPausingCredentials { credentials, deadline }));
                options
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

pub(super) fn target_error(problem: &dyn fmt::Display) -> Error {
    let error = Error::new(ErrorKind::TransportError).with_message(problem.to_string());
    error.from_client(FailureOrigin::Target)
}
