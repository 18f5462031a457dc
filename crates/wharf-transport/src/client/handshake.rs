//! Handshake over a new stream connection: negotiates the revision and receives the
//! server's description.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use wharf_client::ServerInfo;
use wharf_model::{Discovery, Error, ErrorKind, FailureOrigin, Implementation, TimeoutKind};
use wharf_wire::{
    AllowedRevisions, CallId, ClientCodec, Line, Negotiation, NegotiationEvent, NegotiationStep,
    NegotiationTimeout, ServerMessage, TransportKind,
};

use crate::client::{
    TraceEvent,
    pending::{DispatchAction, PendingRequests},
    stream::{
        connection::{MAX_INVALID_LINES, closed, too_many_invalid_lines},
        connector::{ConnectionParts, Connector, MessageSink, MessageSource, PeerGuard},
    },
};

/// The result of a handshake.
pub(super) struct HandshakeResult<D: Connector> {
    pub(super) parts: ConnectionParts<D>,
    pub(super) codec: ClientCodec,
    pub(super) about: ServerInfo,
}

/// Opens a connection and runs the handshake over it.
pub(super) async fn open<D: Connector>(
    connector: &D,
    pending: &Arc<PendingRequests>,
) -> Result<HandshakeResult<D>, Error> {
    let options = pending.options();
    let key = connector.key();
    let remembered = key.as_deref().and_then(|key| options.revision_cache.get(key));
    let negotiation = Negotiation::new(
        options.client.clone(),
        TransportKind::Lines,
        options.revisions,
        remembered,
    );
    let parts = connector.open(options).await?;
    let opened = HandshakeDriver::new(connector, pending, negotiation, parts).run().await;
    // If the revisions are restricted, the server's newest one stays unknown, so nothing is cached.
    if let Some(key) = key.filter(|_| options.revisions == AllowedRevisions::Any) {
        match &opened {
            Ok(opened) => options.revision_cache.put(&key, opened.codec.revision()),
            Err(_) => options.revision_cache.remove(&key),
        }
    }
    opened
}

/// Sends and receives the messages of a negotiation.
struct HandshakeDriver<'a, D: Connector> {
    connector: &'a D,
    pending: &'a Arc<PendingRequests>,
    negotiation: Negotiation,
    parts: ConnectionParts<D>,
    /// Decodes messages before the revision is negotiated.
    codec: ClientCodec,
    /// The id of the last request.
    asked: Option<CallId>,
    invalid_lines: u32,
    /// Upper limit for the whole handshake.
    end: Instant,
}

impl<'a, D: Connector> HandshakeDriver<'a, D> {
    fn new(
        connector: &'a D,
        pending: &'a Arc<PendingRequests>,
        negotiation: Negotiation,
        parts: ConnectionParts<D>,
    ) -> Self {
        let options = pending.options();
        let codec = negotiation.codec();
        let rounds = [NegotiationTimeout::Probe, NegotiationTimeout::Handshake]
            .map(|it| 2 * options.time(it));
        let end = Instant::now() + rounds[0] + rounds[1];
        HandshakeDriver {
            connector,
            pending,
            negotiation,
            parts,
            codec,
            asked: None,
            invalid_lines: 0,
            end,
        }
    }

    async fn run(mut self) -> Result<HandshakeResult<D>, Error> {
        let mut step = self.negotiation.start();
        loop {
            step = match step {
                NegotiationStep::Send { message, timeout: patience, reopen, .. } => {
                    if reopen {
                        self.reopen().await?;
                    }
                    self.ask(message, patience).await?
                }
                NegotiationStep::Wait(patience) => self.answer(patience).await?,
                NegotiationStep::Open { codec, info, discovery, supported, then } => {
                    if let Some(then) = then {
                        self.send(then).await;
                    }
                    let about = server_info(&codec, info, discovery, supported);
                    return Ok(HandshakeResult { parts: self.parts, codec, about });
                }
                NegotiationStep::TryEvents => self.negotiation.answered(NegotiationEvent::Closed),
                NegotiationStep::Fail(error) => {
                    let limit = self.pending.options().handshake;
                    return Err(self.explain(negotiation_error(error, limit)).await);
                }
            };
        }
    }

    /// Opens another connection after the server closed this one.
    async fn reopen(&mut self) -> Result<(), Error> {
        if !self.connector.can_reconnect() {
            return Err(closed(
                &self.connector.name(),
                Some("the server sent nothing before".into()),
            ));
        }
        self.pending.options().note("the connection ended; opening another one");
        self.parts = self.connector.open(self.pending.options()).await?;
        Ok(())
    }

    /// Adds the reason why the connection ended to the error.
    async fn explain(&mut self, mut error: Error) -> Error {
        if let Some(words) = self.parts.guard.exit_reason().await {
            error.message =
                format!("{} ({}: {words})", error.message, self.connector.name()).into();
        }
        error
    }

    /// Sends a request and waits for the reply.
    async fn ask(
        &mut self,
        message: Vec<u8>,
        patience: NegotiationTimeout,
    ) -> Result<NegotiationStep, Error> {
        self.asked = id_of(&message);
        match self.send(message).await {
            true => self.answer(patience).await,
            false => Ok(self.negotiation.answered(NegotiationEvent::Closed)),
        }
    }

    async fn send(&mut self, message: Vec<u8>) -> bool {
        self.pending.options().record(TraceEvent::Sent(&message));
        let sent = timeout_at(self.end, self.parts.sink.send(vec![message])).await;
        matches!(sent, Ok(Ok(())))
    }

    /// Waits for a reply, and returns the next step of the negotiation.
    async fn answer(&mut self, patience: NegotiationTimeout) -> Result<NegotiationStep, Error> {
        let deadline = (Instant::now() + self.pending.options().time(patience)).min(self.end);
        loop {
            // `timeout_at` checks the clock only if there is nothing to read.
            if Instant::now() >= deadline {
                return Ok(self.negotiation.answered(NegotiationEvent::Silence));
            }
            match timeout_at(deadline, self.parts.source.next()).await {
                Err(_) => return Ok(self.negotiation.answered(NegotiationEvent::Silence)),
                Ok(Ok(Some(Line::Message(message)))) => {
                    if let Some(step) = self.receive(message).await? {
                        return Ok(step);
                    }
                }
                Ok(Ok(Some(Line::TooLong))) => self.count_invalid_line()?,
                Ok(Ok(None)) => return Ok(self.negotiation.answered(NegotiationEvent::Closed)),
                Ok(Err(error)) => return Err(error),
            }
        }
    }

    fn count_invalid_line(&mut self) -> Result<(), Error> {
        self.invalid_lines += 1;
        if self.invalid_lines > MAX_INVALID_LINES { Err(too_many_invalid_lines()) } else { Ok(()) }
    }

    /// Receives a message; returns the next step if it is a reply.
    async fn receive(&mut self, message: Bytes) -> Result<Option<NegotiationStep>, Error> {
        self.pending.options().record(TraceEvent::Received(&message));
        let Ok(heard) = self.codec.decode(message) else {
            self.pending.options().note("skipped a line that is not a JSON-RPC message");
            self.count_invalid_line()?;
            return Ok(None);
        };
        let mut step = None;
        for incoming in heard {
            match incoming {
                ServerMessage::Reply { id, result } => {
                    // An error without an id concerns the last request.
                    let Some(id) = id.or_else(|| self.asked.clone()) else { continue };
                    let result = result.as_deref();
                    step = Some(self.negotiation.answered(NegotiationEvent::Reply(id, result)));
                }
                ServerMessage::ClientRequest { id, .. } => {
                    let error = Error::new(ErrorKind::NotInitialized);
                    let mut refusal = Vec::new();
                    self.codec.answer(&id, Err(&error), &mut refusal);
                    self.send(refusal).await;
                }
                other => {
                    let action = self.pending.dispatch(&self.codec, other, None).await;
                    if let Some(DispatchAction::Send(answer)) = action {
                        self.send(answer).await;
                    }
                }
            }
        }
        Ok(step)
    }
}

/// The server's description from the handshake.
pub(super) fn server_info(
    codec: &ClientCodec,
    info: Implementation,
    discovery: Discovery,
    supported: Vec<String>,
) -> ServerInfo {
    ServerInfo::new(info, discovery).revision(codec.revision().to_string()).supported(supported)
}

/// The id of a request that this client wrote.
fn id_of(message: &[u8]) -> Option<CallId> {
    let message: Value = serde_json::from_slice(message).ok()?;
    message.get("id")?.as_u64().map(CallId::from)
}

/// Converts the error of a failed negotiation: a timeout gets the limit that expired.
pub(crate) fn negotiation_error(error: Error, limit: Duration) -> Error {
    match (error.kind, error.code) {
        (ErrorKind::RequestTimeout, None) => {
            error.from_client(FailureOrigin::Timeout(TimeoutKind::Connect, limit))
        }
        _ => error,
    }
}
