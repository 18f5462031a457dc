//! Connects to a target: a URL (`url_scheme`), a program, a server in this process, or streams.

use std::{fmt, sync::Arc};

use wharf_client::ClientTransport;
use wharf_model::{Error, ErrorKind, FailureOrigin};
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

pub(super) fn target_error(problem: &dyn fmt::Display) -> Error {
    let error = Error::new(ErrorKind::TransportError).with_message(problem.to_string());
    error.from_client(FailureOrigin::Target)
}
