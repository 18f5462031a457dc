//! State machine of the version negotiation: requests in flight, and the next step after each reply.

use std::sync::Arc;

use wharf_model::{Error, Implementation, excerpt};

use crate::client::negotiation::{
    Answered, Carrier, ClientCodec, ClientIdentity, Patience, Step, classify,
    classify::DiscoverReply, error,
};
use crate::{CallId, Revision};

const DISCOVER: &str = "server/discover";

/// Negotiates the protocol revision with a server.
///
/// It sends `server/discover` first. A reply that only a modern server sends selects the modern era; anything
/// else leads to `initialize`. The requests have the ids 1 to 9: calls should use others, so that a late reply
/// to the negotiation is not taken for theirs.
///
/// ```
/// use wharf_wire::{Answered, CallId, Carrier, ClientIdentity, Negotiation, Step};
///
/// let mut opening = Negotiation::new(ClientIdentity::default().into(), Carrier::Http, None, None);
/// let Step::Send { headers, .. } = opening.start() else { panic!() };
/// assert_eq!(headers[1], ("Mcp-Method".to_owned(), "server/discover".to_owned()));
///
/// let step = opening.answered(Answered::Http { status: 404, body: b"Not Found" });
/// let Step::Send { message, .. } = step else { panic!() };
/// assert!(String::from_utf8(message).unwrap().contains("initialize"));
/// let step = opening.answered(Answered::Http { status: 405, body: b"" });
/// assert!(matches!(step, Step::TryEvents));
/// ```
#[derive(Debug)]
pub struct Negotiation {
    client: Arc<ClientIdentity>,
    carrier: Carrier,
    pin: Option<Revision>,
    remembered: Option<Revision>,
    /// Number of messages written, from which ids are derived.
    messages_sent: u64,
    patience: Patience,
    /// `server/discover` request in flight.
    probe: Option<PendingRequest>,
    /// `initialize` request in flight.
    handshake: Option<PendingRequest>,
    /// Set once `server/discover` was sent.
    probed: bool,
    /// Set once the server identified itself as modern.
    modern: bool,
    /// Set once a request was repeated in a revision that the server listed.
    retried_revision: bool,
    /// Set once the connection was reopened.
    reopened: bool,
    /// Step to take if `server/discover` is inconclusive after `initialize` failed.
    fallback: Option<Step>,
    /// Revisions that the server listed.
    supported: Vec<String>,
}

/// Request in flight.
#[derive(Clone, Debug)]
struct PendingRequest {
    id: CallId,
    revision: Revision,
}

impl Negotiation {
    /// Creates a negotiation. It tries only `pin` if given, or else `remembered`, the last negotiated revision,
    /// first.
    #[must_use]
    pub fn new(
        client: Arc<ClientIdentity>,
        carrier: Carrier,
        pin: Option<Revision>,
        remembered: Option<Revision>,
    ) -> Negotiation {
        Negotiation {
            client,
            carrier,
            pin,
            remembered,
            messages_sent: 0,
            patience: Patience::Probe,
            probe: None,
            handshake: None,
            probed: false,
            modern: false,
            retried_revision: false,
            reopened: false,
            fallback: None,
            supported: Vec::new(),
        }
    }

    /// Returns the codec for messages received during the negotiation.
    #[must_use]
    pub fn codec(&self) -> ClientCodec {
        // On a line stream a legacy server may send a ping or request before the handshake; on HTTP only
        // replies arrive.
        let revision = match self.carrier {
            Carrier::Lines => Revision::NEWEST_LEGACY,
            Carrier::Http => Revision::MODERN,
        };
        ClientCodec::new(revision, self.client.clone())
    }

    /// Returns the first step.
    pub fn start(&mut self) -> Step {
        match (self.pin, self.remembered) {
            (Some(pin), _) if pin.is_modern() => self.discover(pin, false),
            (Some(pin), _) => self.initialize(pin, false),
            (None, Some(last)) if !last.is_modern() => {
                self.initialize(Revision::NEWEST_LEGACY, false)
            }
            _ => self.discover(Revision::MODERN, false),
        }
    }

    /// Returns the next step after `what` happened.
    pub fn answered(&mut self, what: Answered<'_>) -> Step {
        match what {
            Answered::Reply(id, Err(error)) => {
                self.replied(&id, Err(&classify::as_modern(error.clone())))
            }
            Answered::Reply(id, result) => self.replied(&id, result),
            Answered::Http { status, body } => self.http(status, body),
            Answered::Silence => self.on_timeout(),
            Answered::Closed => self.on_closed(),
        }
    }

    /// Returns the next step once HTTP+SSE of 2024-11-05 is connected: its messages are a stream.
    pub fn over_events(&mut self) -> Step {
        self.carrier = Carrier::Lines;
        (self.probed, self.reopened) = (true, true);
        self.initialize(self.pin.unwrap_or(Revision::NEWEST_LEGACY), false)
    }

    fn discover(&mut self, revision: Revision, reopen: bool) -> Step {
        let codec = ClientCodec::new(revision, self.client.clone());
        let id = self.next_id();
        let mut message = Vec::new();
        // Fails only for invalid parameters, and there are none.
        let _ = codec.request(DISCOVER, None, &id, &mut message);
        self.probed = true;
        self.probe = Some(PendingRequest { id, revision });
        self.patience = match self.may_be_legacy() {
            true => Patience::Probe,
            false => Patience::Handshake,
        };
        let headers = match self.carrier {
            Carrier::Http => codec.headers(DISCOVER, None, None),
            Carrier::Lines => Vec::new(),
        };
        Step::Send { message, headers, patience: self.patience, reopen }
    }

    fn initialize(&mut self, revision: Revision, reopen: bool) -> Step {
        let id = self.next_id();
        let mut message = Vec::new();
        ClientCodec::new(revision, self.client.clone()).initialize(&id, &mut message);
        self.handshake = Some(PendingRequest { id, revision });
        self.patience = Patience::Handshake;
        Step::Send { message, headers: Vec::new(), patience: self.patience, reopen }
    }

    fn next_id(&mut self) -> CallId {
        self.messages_sent += 1;
        CallId::from(self.messages_sent)
    }

    fn may_be_legacy(&self) -> bool {
        !self.modern && !self.pin.is_some_and(Revision::is_modern)
    }

    fn replied(&mut self, id: &CallId, result: Result<&str, &Error>) -> Step {
        let answers = |sent: &mut PendingRequest| sent.id == *id;
        if self.probe.take_if(answers).is_some() {
            return self.discovered(result);
        }
        if let Some(sent) = self.handshake.take_if(answers) {
            return self.initialized(&sent, result);
        }
        Step::Wait(self.patience)
    }

    fn http(&mut self, status: u16, body: &[u8]) -> Step {
        let (sent, probing) = match (self.probe.take(), self.handshake.take()) {
            (Some(sent), _) => (sent, true),
            (None, Some(sent)) => (sent, false),
            (None, None) => return Step::Wait(self.patience),
        };
        let codec = ClientCodec::new(sent.revision, self.client.clone());
        let reply = classify::reply_in(body, &sent.id, &codec);
        if !matches!(status, 200..=299 | 400..=499) || matches!(status, 401 | 403 | 429) {
            return Step::Fail(error::inconclusive_status(status, reply.and_then(Result::err)));
        }
        match reply {
            // Some servers that do not accept POST reply with a JSON-RPC error.
            Some(Err(_))
                if !probing && self.carrier == Carrier::Http && matches!(status, 404 | 405) =>
            {
                self.initialize_failed(Step::TryEvents)
            }
            Some(reply) => {
                let result = reply.as_deref();
                if probing { self.discovered(result) } else { self.initialized(&sent, result) }
            }
            None if self.carrier == Carrier::Lines && status < 300 => {
                // With HTTP+SSE the reply arrives on the stream.
                self.handshake = Some(sent);
                Step::Wait(self.patience)
            }
            None if probing => self.not_modern(&format!("HTTP status {status}")),
            None if self.carrier == Carrier::Http && matches!(status, 400 | 404 | 405) => {
                self.initialize_failed(Step::TryEvents)
            }
            None => self.initialize_failed(Step::Fail(error::no_reply(status))),
        }
    }

    /// Handles the reply to `server/discover`.
    fn discovered(&mut self, result: Result<&str, &Error>) -> Step {
        match (classify::classify_discovery(result), result) {
            (DiscoverReply::Modern(versions), Ok(json)) => self.open_modern(versions, json),
            (DiscoverReply::OtherVersions(versions), Err(error)) => {
                self.retry_revision(versions, error)
            }
            (DiscoverReply::Rejected, Err(error)) => Step::Fail(error.clone()),
            (_, Ok(_)) => self.not_modern("something that is not a discovery result"),
            (_, Err(error)) => self.not_modern(&format!("`{}`", excerpt(&error.message))),
        }
    }

    fn open_modern(&mut self, versions: Vec<String>, json: &str) -> Step {
        self.supported = versions;
        let is_allowed = |revision: Revision| self.pin.is_none_or(|pin| pin == revision);
        let modern = classify::newest(&self.supported, |it| it.is_modern() && is_allowed(it));
        let Some(revision) = modern else { return self.fall_back() };
        let codec = ClientCodec::new(revision, self.client.clone());
        let supported = std::mem::take(&mut self.supported);
        match classify::discovered(&codec, json) {
            Ok((info, discovery)) => Step::Open { codec, info, discovery, supported, then: None },
            Err(error) => Step::Fail(error),
        }
    }

    /// Tries a legacy revision if a modern server has no modern revision in common with the client.
    fn fall_back(&mut self) -> Step {
        let legacy = classify::newest(&self.supported, |revision| !revision.is_modern());
        match legacy.filter(|_| self.pin.is_none()) {
            Some(_) if self.handshake.is_some() => self.wait_for_handshake(),
            Some(revision) => self.initialize(revision, false),
            None => self.no_common_revision(),
        }
    }

    /// Repeats the probe in another revision that the server listed.
    fn retry_revision(&mut self, versions: Vec<String>, error: &Error) -> Step {
        self.supported = versions;
        let is_allowed = |revision: Revision| self.pin.is_none_or(|pin| pin == revision);
        let fits = |revision: Revision| revision.is_modern() && is_allowed(revision);
        match classify::newest(&self.supported, fits) {
            _ if self.supported.is_empty() => Step::Fail(error.clone()),
            Some(_) if std::mem::replace(&mut self.retried_revision, true) => {
                Step::Fail(error.clone())
            }
            Some(revision) => {
                self.modern = true;
                self.discover(revision, false)
            }
            None => self.fall_back(),
        }
    }

    /// Handles a reply to `server/discover` that is not that of a modern server.
    fn not_modern(&mut self, answer: &str) -> Step {
        if !self.may_be_legacy() {
            return Step::Fail(error::not_modern(self.pin.unwrap_or(Revision::MODERN), answer));
        }
        match self.fallback.take() {
            Some(step) => step,
            None if self.handshake.is_some() => self.wait_for_handshake(),
            None => self.initialize(Revision::NEWEST_LEGACY, false),
        }
    }

    /// Handles the reply to `initialize`.
    fn initialized(&mut self, sent: &PendingRequest, result: Result<&str, &Error>) -> Step {
        match result {
            Ok(json) => match classify::handshake(json) {
                Some((version, info)) => self.open_legacy(&version, info, json),
                None => self.initialize_failed(Step::Fail(error::no_version())),
            },
            Err(error) => self.not_initialized(sent, error),
        }
    }

    fn open_legacy(&mut self, version: &str, info: Implementation, json: &str) -> Step {
        let fits = |revision: &Revision| {
            !revision.is_modern() && self.pin.is_none_or(|pin| pin == *revision)
        };
        let Some(revision) = version.parse().ok().filter(fits) else {
            self.supported = vec![excerpt(version).into_owned()];
            return self.no_common_revision();
        };
        let codec = ClientCodec::new(revision, self.client.clone());
        let discovery = match classify::discovery(&codec, json) {
            Ok(discovery) => discovery,
            Err(error) => return Step::Fail(error),
        };
        let mut then = Vec::new();
        codec.initialized(&mut then);
        let supported = std::mem::take(&mut self.supported);
        Step::Open { codec, info, discovery, supported, then: Some(then) }
    }

    fn not_initialized(&mut self, sent: &PendingRequest, error: &Error) -> Step {
        self.supported = classify::supported(error);
        let is_allowed = |revision: Revision| self.pin.is_none_or(|pin| pin == revision);
        if !self.supported.is_empty() && classify::newest(&self.supported, is_allowed).is_none() {
            let step = self.no_common_revision();
            return self.initialize_failed(step);
        }
        let other = classify::newest(&self.supported, |revision| revision != sent.revision);
        match other.filter(|_| self.pin.is_none() && !self.retried_revision) {
            None => self.initialize_failed(Step::Fail(error.clone())),
            Some(revision) => {
                self.retried_revision = true;
                if !revision.is_modern() {
                    return self.initialize(revision, false);
                }
                self.modern = true;
                self.discover(revision, false)
            }
        }
    }

    fn wait_for_handshake(&mut self) -> Step {
        self.patience = Patience::Handshake;
        Step::Wait(self.patience)
    }

    /// Handles a failed `initialize`: takes `step`, unless the server turns out to be modern.
    fn initialize_failed(&mut self, step: Step) -> Step {
        if self.probe.is_some() {
            self.fallback = Some(step);
            return self.wait_for_handshake();
        }
        match self.pin.is_some() || self.probed {
            true => step,
            false => {
                self.fallback = Some(step);
                self.discover(Revision::MODERN, false)
            }
        }
    }

    fn on_timeout(&mut self) -> Step {
        let pending = (self.probe.is_some(), self.handshake.is_some());
        if self.carrier == Carrier::Http {
            // No reply arrives after an HTTP request was abandoned.
            (self.probe, self.handshake) = (None, None);
        }
        match pending {
            (true, false) if self.may_be_legacy() => match self.fallback.take() {
                Some(step) => step,
                None => self.initialize(Revision::NEWEST_LEGACY, false),
            },
            (false, true) if self.pin.is_none() && !self.probed => {
                self.discover(Revision::MODERN, false)
            }
            _ => self.fallback.take().unwrap_or_else(|| Step::Fail(error::timed_out())),
        }
    }

    fn on_closed(&mut self) -> Step {
        let pending = (self.probe.take().is_some(), self.handshake.take().is_some());
        let again = !std::mem::replace(&mut self.reopened, true);
        match pending {
            _ if self.carrier == Carrier::Http => Step::Fail(error::connection_closed()),
            (true, _) if again && self.may_be_legacy() => {
                self.initialize(Revision::NEWEST_LEGACY, true)
            }
            (false, true) if again && self.pin.is_none() && !self.probed => {
                self.discover(Revision::MODERN, true)
            }
            _ => self.fallback.take().unwrap_or_else(|| Step::Fail(error::connection_closed())),
        }
    }

    /// Returns the failure that lists the revisions of both sides.
    fn no_common_revision(&self) -> Step {
        Step::Fail(error::no_common_revision(&self.supported, self.pin))
    }
}
