//! Reports of the server transports to the observers of their service.

use std::{
    net::SocketAddr,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use wharf_model::{
    ErrorKind, ObservedEvent, ObservedTransport, Observers, Refusal, RefusalReason, RemoteAddress,
    RequestExtensions, SessionEnd,
};

#[cfg(feature = "http")]
use wharf_wire::Received;

use crate::ServerContext;

/// Client of a connection, as observers see it.
#[derive(Clone, Debug)]
pub(crate) struct ObservedPeer {
    pub(crate) observers: Observers,
    transport: ObservedTransport,
    client: Option<SocketAddr>,
}

impl ObservedPeer {
    pub(crate) fn new(context: &ServerContext, scope: &RequestExtensions) -> Self {
        ObservedPeer {
            observers: context.service.observers().clone(),
            transport: scope.get().copied().unwrap_or(ObservedTransport::Stream),
            client: client_of(scope),
        }
    }

    /// Reports a refusal. The detail may be the client's text.
    #[cold]
    pub(crate) fn refused(&self, reason: RefusalReason, detail: &str) {
        let refusal = Refusal::new(reason, self.transport).client(self.client).detail(detail);
        self.observers.emit(|| ObservedEvent::Refused(refusal));
    }

    /// Reports that a message was answered with this error before it was a call.
    #[cold]
    pub(crate) fn refused_with(&self, kind: ErrorKind, reply: &[u8]) {
        if !self.observers.is_empty() {
            let detail = error_text(reply);
            self.refused(RefusalReason::of_kind(kind), detail.as_deref().unwrap_or_default());
        }
    }

    /// Reports the members of a batch that are answered with errors before they are calls.
    #[cfg(feature = "http")]
    pub(crate) fn refused_members(&self, members: &[Received]) {
        for member in members {
            if let Received::Reply(reply, _, Some(kind)) = member {
                self.refused_with(*kind, reply);
            }
        }
    }

    /// Reports that the connection is closed because the client does not read.
    #[cold]
    pub(crate) fn slow_client(&self) {
        let (transport, client) = (self.transport, self.client);
        self.observers.emit(|| ObservedEvent::SlowClientClosed { transport, client });
    }

    #[inline]
    pub(crate) fn received(&self, bytes: usize) {
        if self.observers.count_bytes() {
            let transport = self.transport;
            self.observers.emit(|| ObservedEvent::Received { transport, bytes });
        }
    }

    #[inline]
    pub(crate) fn sent(&self, bytes: usize) {
        if self.observers.count_bytes() {
            let transport = self.transport;
            self.observers.emit(|| ObservedEvent::Sent { transport, bytes });
        }
    }
}

/// Session or connection, whose start and end observers receive.
#[derive(Debug)]
pub(crate) struct ObservedConnection {
    pub(crate) peer: ObservedPeer,
    started: Instant,
    /// Date of the negotiated protocol version.
    protocol_version: OnceLock<&'static str>,
    /// Why the connection did not end in good order.
    error: OnceLock<&'static str>,
    ended: AtomicBool,
}

impl ObservedConnection {
    /// Reports the start.
    pub(crate) fn start(peer: ObservedPeer) -> Self {
        let ObservedPeer { transport, client, .. } = peer;
        peer.observers.emit(|| ObservedEvent::SessionStarted { transport, client });
        ObservedConnection {
            peer,
            started: Instant::now(),
            protocol_version: OnceLock::new(),
            error: OnceLock::new(),
            ended: AtomicBool::new(false),
        }
    }

    /// Sets the date of the protocol version.
    pub(crate) fn set_protocol_version(&self, version: &'static str) {
        let _ = self.protocol_version.set(version);
    }

    /// Sets the reason of the end, unless there is one.
    pub(crate) fn fail(&self, error: &'static str) {
        let _ = self.error.set(error);
    }

    /// Reports the end, once.
    pub(crate) fn end(&self) {
        if self.ended.swap(true, Ordering::AcqRel) {
            return;
        }
        let ObservedPeer { observers, transport, client } = &self.peer;
        observers.emit(|| {
            let end = SessionEnd::new(*transport, self.started.elapsed())
                .protocol_version(self.protocol_version.get().copied())
                .client(*client);
            let error = self.error.get();
            ObservedEvent::SessionEnded(error.map_or(end, |error| end.error(error)))
        });
    }
}

impl Drop for ObservedConnection {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns the address of the client.
pub(crate) fn client_of(scope: &RequestExtensions) -> Option<SocketAddr> {
    scope.get().map(|remote: &RemoteAddress| remote.0)
}

/// Returns the text of the error in a reply; of an OAuth error, its code.
pub(crate) fn error_text(reply: &[u8]) -> Option<String> {
    let reply: serde_json::Value = serde_json::from_slice(reply).ok()?;
    let error = &reply["error"];
    Some(error["message"].as_str().or_else(|| error.as_str())?.to_owned())
}
