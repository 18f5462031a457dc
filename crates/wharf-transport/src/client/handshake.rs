//! Opens the conversation over a fresh connection: finds out the revision, and who is there.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use wharf_client::ServerInfo;
use wharf_model::{Discovery, Error, ErrorKind, Implementation};
use wharf_wire::{
    Answered, CallId, Carrier, ClientCodec, Line, Negotiation, Patience, ServerMessage, Step,
};

use crate::client::{
    TraceEvent,
    pending::{PendingRequests, DispatchAction},
    stream::{
        connection::{GARBAGE, babble, closed},
        connector::{Connector, ConnectionParts, PeerGuard, MessageSink, MessageSource},
    },
};

/// An open conversation.
pub(super) struct HandshakeResult<D: Connector> {
    pub(super) ends: ConnectionParts<D>,
    pub(super) talk: ClientCodec,
    pub(super) about: ServerInfo,
}

/// Opens a connection and the conversation over it.
pub(super) async fn open<D: Connector>(dial: &D, desk: &Arc<PendingRequests>) -> Result<HandshakeResult<D>, Error> {
    let options = desk.options();
    let key = dial.key();
    let remembered = key.as_deref().and_then(|key| options.verdicts.get(key));
    let opening = Negotiation::new(options.client.clone(), Carrier::Lines, options.pin, remembered);
    let ends = dial.dial(options).await?;
    let opened = HandshakeDriver::new(dial, desk, opening, ends).run().await;
    // What a pinned client speaks says nothing about what the server would rather.
    if let Some(key) = key.filter(|_| options.pin.is_none()) {
        match &opened {
            Ok(opened) => options.verdicts.put(&key, opened.talk.revision()),
            Err(_) => options.verdicts.forget(&key),
        }
    }
    opened
}

/// Moves the messages of an opening.
struct HandshakeDriver<'a, D: Connector> {
    dial: &'a D,
    desk: &'a Arc<PendingRequests>,
    opening: Negotiation,
    ends: ConnectionParts<D>,
    /// Reads what comes before the revision is settled.
    talk: ClientCodec,
    /// The id of the last request.
    asked: Option<CallId>,
    garbage: u32,
    /// No opening takes longer than this, whatever the server answers.
    end: Instant,
}

impl<'a, D: Connector> HandshakeDriver<'a, D> {
    fn new(dial: &'a D, desk: &'a Arc<PendingRequests>, opening: Negotiation, ends: ConnectionParts<D>) -> Self {
        let options = desk.options();
        let talk = opening.talk();
        let rounds = [Patience::Probe, Patience::Handshake].map(|it| 2 * options.time(it));
        let end = Instant::now() + rounds[0] + rounds[1];
        HandshakeDriver { dial, desk, opening, ends, talk, asked: None, garbage: 0, end }
    }

    async fn run(mut self) -> Result<HandshakeResult<D>, Error> {
        let mut step = self.opening.start();
        loop {
            step = match step {
                Step::Send { message, patience, reopen, .. } => {
                    if reopen {
                        self.reopen().await?;
                    }
                    self.ask(message, patience).await?
                }
                Step::Wait(patience) => self.answer(patience).await?,
                Step::Open { talk, info, discovery, supported, then } => {
                    if let Some(then) = then {
                        self.send(then).await;
                    }
                    let about = introduced(&talk, info, discovery, supported);
                    return Ok(HandshakeResult { ends: self.ends, talk, about });
                }
                Step::TryEvents => self.opening.answered(Answered::Closed),
                Step::Fail(error) => return Err(self.explain(error).await),
            };
        }
    }

    /// The connection ended: takes another.
    async fn reopen(&mut self) -> Result<(), Error> {
        if !self.dial.redials() {
            return Err(closed(&self.dial.name(), Some("it said nothing before".into())));
        }
        self.desk.options().note("the connection ended; opening another");
        self.ends = self.dial.dial(self.desk.options()).await?;
        Ok(())
    }

    /// What the end of the connection says about a failure.
    async fn explain(&mut self, mut error: Error) -> Error {
        if let Some(words) = self.ends.keeper.last_words().await {
            error.message = format!("{} ({}: {words})", error.message, self.dial.name()).into();
        }
        error
    }

    /// Sends a request and waits for the reply.
    async fn ask(&mut self, message: Vec<u8>, patience: Patience) -> Result<Step, Error> {
        self.asked = id_of(&message);
        match self.send(message).await {
            true => self.answer(patience).await,
            false => Ok(self.opening.answered(Answered::Closed)),
        }
    }

    async fn send(&mut self, message: Vec<u8>) -> bool {
        self.desk.options().trace(TraceEvent::Sent(&message));
        let sent = timeout_at(self.end, self.ends.sink.send(vec![message])).await;
        matches!(sent, Ok(Ok(())))
    }

    /// Waits for a reply, and for what the opening makes of it.
    async fn answer(&mut self, patience: Patience) -> Result<Step, Error> {
        let deadline = (Instant::now() + self.desk.options().time(patience)).min(self.end);
        loop {
            // A timeout looks at the clock only if there is nothing to read.
            if Instant::now() >= deadline {
                return Ok(self.opening.answered(Answered::Silence));
            }
            match timeout_at(deadline, self.ends.source.next()).await {
                Err(_) => return Ok(self.opening.answered(Answered::Silence)),
                Ok(Ok(Some(Line::Message(message)))) => {
                    if let Some(step) = self.hear(message).await? {
                        return Ok(step);
                    }
                }
                Ok(Ok(Some(Line::TooLong))) => self.babbled()?,
                Ok(Ok(None)) => return Ok(self.opening.answered(Answered::Closed)),
                Ok(Err(error)) => return Err(error),
            }
        }
    }

    fn babbled(&mut self) -> Result<(), Error> {
        self.garbage += 1;
        if self.garbage > GARBAGE { Err(babble()) } else { Ok(()) }
    }

    /// What the opening makes of a message, if it is a reply.
    async fn hear(&mut self, message: Bytes) -> Result<Option<Step>, Error> {
        self.desk.options().trace(TraceEvent::Received(&message));
        let Ok(heard) = self.talk.hear(message) else {
            self.desk.options().note("skipped what is no message");
            self.babbled()?;
            return Ok(None);
        };
        let mut step = None;
        for incoming in heard {
            match incoming {
                ServerMessage::Reply { id, result } => {
                    // What the server could not read is what was sent last.
                    let Some(id) = id.or_else(|| self.asked.clone()) else { continue };
                    let result = result.as_deref();
                    step = Some(self.opening.answered(Answered::Reply(id, result)));
                }
                ServerMessage::ClientRequest { id, .. } => {
                    let error = Error::new(ErrorKind::NotInitialized);
                    let mut refusal = Vec::new();
                    self.talk.answer(&id, Err(&error), &mut refusal);
                    self.send(refusal).await;
                }
                other => {
                    let duty = self.desk.take_in(&self.talk, other, None).await;
                    if let Some(DispatchAction::Send(answer)) = duty {
                        self.send(answer).await;
                    }
                }
            }
        }
        Ok(step)
    }
}

/// What the server said about itself when the conversation was opened.
pub(super) fn introduced(
    talk: &ClientCodec,
    info: Implementation,
    discovery: Discovery,
    supported: Vec<String>,
) -> ServerInfo {
    let mut about = ServerInfo::new(info, discovery);
    (about.revision, about.supported) = (talk.revision().to_string(), supported);
    about
}

/// The id of a request that we wrote.
fn id_of(message: &[u8]) -> Option<CallId> {
    let message: Value = serde_json::from_slice(message).ok()?;
    message.get("id")?.as_u64().map(CallId::from)
}
