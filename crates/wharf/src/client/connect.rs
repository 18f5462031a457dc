//! Connects to a target: a URL (`url_scheme`), a program, a server in this process, or streams.

use std::{fmt, sync::Arc};

use wharf_client::ClientTransport;
use wharf_connect::Url;
use wharf_model::{Error, ErrorKind, FailureOrigin, ObservedServer, ObservedTransport};
#[cfg(feature = "server")]
use wharf_model::{RequestExtensions, Trusted};
use wharf_transport::client::{self as transports, ChildCommand, ClientTransportOptions, Deadline};
#[cfg(feature = "server")]
use wharf_wire::AllowedRevisions;

#[cfg(feature = "server")]
use crate::Endpoint;
use crate::client::{ClientBuilder, Target};

impl ClientBuilder {
    pub(super) async fn connect_target(
        &self,
        target: Target,
        deadline: &Arc<Deadline>,
    ) -> Result<Arc<dyn ClientTransport>, Error> {
        let options = self.transport_options();
        match target {
            Target::Url(url) => self.connect_url(&url, options, deadline).await,
            Target::Command(command) => self.start_command(command, options).await,
            #[cfg(feature = "server")]
            Target::Server(server) => self.connect_in_process(*server, options).await,
            Target::Streams(connector) => transports::connect_stream(connector, options).await,
            Target::Transport(transport) => Ok(transport),
            Target::Entry(entry) => Err(target_error(&format!(
                "the configuration entry {} leads to another entry: name a URL or a command",
                entry.name
            ))),
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

    /// Calls a server in this process directly; with restricted versions or a trace, over a memory
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
        if self.revisions == AllowedRevisions::Any && self.trace.is_none() {
            let info = server.context.wire.about().clone();
            return wharf_client::local_with(server.service(), info, scope).await;
        }
        transports::connect_stream(server.connect_memory_with(scope), options).await
    }
}

/// Describes the target for observers: no part of a URL but host and port, because others may be secrets.
pub(super) fn observed_server(target: &Target) -> ObservedServer {
    let (url, transport) = match target {
        Target::Url(url) => (&**url, transport_of(url)),
        Target::Command(_) => ("", Some(ObservedTransport::Stdio)),
        #[cfg(feature = "server")]
        Target::Server(_) => ("", Some(ObservedTransport::InMemory)),
        Target::Entry(_) | Target::Streams(_) | Target::Transport(_) => ("", None),
    };
    let (address, port) = match (transport, Url::parse(url)) {
        (Some(ObservedTransport::Unix), _) => {
            let path = url.split_once(':').map_or(url, |it| it.1);
            (Some(path.strip_prefix("//").unwrap_or(path).to_owned()), None)
        }
        (_, Ok(url)) => (url.host_str().map(str::to_owned), url.port_or_known_default()),
        (_, Err(_)) => (None, None),
    };
    ObservedServer::default().address(address).port(port).transport(transport)
}

fn transport_of(url: &str) -> Option<ObservedTransport> {
    Some(match &*url.split_once(':')?.0.to_ascii_lowercase() {
        "http" | "https" => ObservedTransport::Http,
        "ws" | "wss" => ObservedTransport::WebSocket,
        "tcp" => ObservedTransport::Tcp,
        "unix" => ObservedTransport::Unix,
        _ => return None,
    })
}

pub(super) fn target_error(problem: &dyn fmt::Display) -> Error {
    let error = Error::new(ErrorKind::TransportError).with_message(problem.to_string());
    error.from_client(FailureOrigin::Target)
}

#[cfg(test)]
mod tests {
    use wharf_model::ObservedTransport as Transport;

    use super::{Target, observed_server};

    #[test]
    fn observers_receive_host_and_port_only() {
        for (url, address, port, transport) in [
            (
                "https://u:p@mcp.example/s3cret?k=v#f",
                Some("mcp.example"),
                Some(443),
                Transport::Http,
            ),
            ("http://[::1]:8000/mcp", Some("[::1]"), Some(8000), Transport::Http),
            ("WSS://mcp.example/", Some("mcp.example"), Some(443), Transport::WebSocket),
            ("tcp://localhost:4000", Some("localhost"), Some(4000), Transport::Tcp),
            ("unix:/run/mcp.sock", Some("/run/mcp.sock"), None, Transport::Unix),
        ] {
            let server = observed_server(&Target::Url(url.into()));
            assert_eq!((server.address.as_deref(), server.port), (address, port), "{url}");
            assert_eq!(server.transport, Some(transport), "{url}");
        }
    }
}
