//! State machine of the version negotiation: requests in flight, and the next step after each reply.

use std::sync::Arc;

use wharf_model::{Error, Implementation, excerpt};

use crate::client::negotiation::{
    ClientCodec, ClientIdentity, NegotiationEvent, NegotiationStep, NegotiationTimeout,
    TransportKind, classify_reply, classify_reply::DiscoverReply, error,
};
use crate::{AllowedRevisions, CallId, Era, Revision};

const DISCOVER: &str = "server/discover";

/// Negotiates the protocol revision with a server.
///
/// It sends `server/discover` first. A reply that only a modern server sends selects the modern era; anything
/// else leads to `initialize`. The requests have the ids 1 to 9: calls should use others, so that a late reply
/// to the negotiation is not taken for theirs.
///
/// ```
/// use wharf_wire::{
///     AllowedRevisions, ClientIdentity, Negotiation, NegotiationEvent, NegotiationStep, TransportKind,
/// };
///
/// let (client, any) = (ClientIdentity::default().into(), AllowedRevisions::Any);
/// let mut opening = Negotiation::new(client, TransportKind::Http, any, None);
/// let NegotiationStep::Send { headers, .. } = opening.start() else { panic!() };
/// assert_eq!(headers[1], ("Mcp-Method".to_owned(), "server/discover".to_owned()));
///
/// let step = opening.answered(NegotiationEvent::Http { status: 404, body: b"Not Found" });
/// let NegotiationStep::Send { message, .. } = step else { panic!() };
/// assert!(String::from_utf8(message).unwrap().contains("initialize"));
/// let step = opening.answered(NegotiationEvent::Http { status: 405, body: b"" });
/// assert!(matches!(step, NegotiationStep::TryEvents));
/// ```
#[derive(Debug)]
pub struct Negotiation {
    pub(super) client: Arc<ClientIdentity>,
    pub(super) transport: TransportKind,
    allowed: AllowedRevisions,
    remembered: Option<Revision>,
    /// Number of messages written, from which ids are derived.
    messages_sent: u64,
    pub(super) timeout: NegotiationTimeout,
    /// `server/discover` request in flight.
    pub(super) probe: Option<PendingRequest>,
    /// `initialize` request in flight.
    pub(super) handshake: Option<PendingRequest>,
    /// Set once `server/discover` was sent.
    probed: bool,
    /// Set once the server identified itself as modern.
    modern: bool,
    /// Set once a request was repeated in a revision that the server listed.
    retried_revision: bool,
    /// Revisions of the repeated requests that the server refused.
    refused: Vec<Revision>,
    /// Set once the connection was reopened.
    reopened: bool,
    /// Step to take if `server/discover` is inconclusive after `initialize` failed.
    fallback: Option<NegotiationStep>,
    /// Revisions that the server listed.
    supported: Vec<String>,
}

/// Request in flight.
#[derive(Clone, Debug)]
pub(super) struct PendingRequest {
    pub(super) id: CallId,
    pub(super) revision: Revision,
}

impl Negotiation {
    /// Creates a negotiation of a revision that is `allowed`. It tries `remembered`, the last negotiated revision,
    /// first.
    #[must_use]
    pub fn new(
        client: Arc<ClientIdentity>,
        transport: TransportKind,
        allowed: AllowedRevisions,
        remembered: Option<Revision>,
    ) -> Negotiation {
        Negotiation {
            client,
            transport,
            allowed,
            remembered: remembered.filter(|revision| allowed.has(*revision)),
            messages_sent: 0,
            timeout: NegotiationTimeout::Probe,
            probe: None,
            handshake: None,
            probed: false,
            modern: false,
            retried_revision: false,
            refused: Vec::new(),
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
        let revision = match self.transport {
            TransportKind::Lines => Revision::NEWEST_LEGACY,
            TransportKind::Http => Revision::NEWEST,
        };
        ClientCodec::new(revision, self.client.clone())
    }

    /// Returns the first step.
    pub fn start(&mut self) -> NegotiationStep {
        match (self.newest_modern(), self.remembered) {
            // The reply lists newer revisions, if the server has them by now.
            (Some(newest), last) if last.is_none_or(Revision::is_modern) => {
                self.discover(last.unwrap_or(newest), false)
            }
            _ => self.initialize(self.newest_legacy(), false),
        }
    }

    /// Returns the next step after `what` happened.
    pub fn answered(&mut self, what: NegotiationEvent<'_>) -> NegotiationStep {
        match what {
            NegotiationEvent::Reply(id, Err(error)) => {
                self.replied(&id, Err(&classify_reply::as_modern(error.clone())))
            }
            NegotiationEvent::Reply(id, result) => self.replied(&id, result),
            NegotiationEvent::Http { status, body } => self.http(status, body),
            NegotiationEvent::Silence => self.on_timeout(),
            NegotiationEvent::Closed => self.on_closed(),
        }
    }

    /// Returns the next step once HTTP+SSE of 2024-11-05 is connected: its messages are a stream.
    pub fn over_events(&mut self) -> NegotiationStep {
        self.transport = TransportKind::Lines;
        (self.probed, self.reopened) = (true, true);
        self.initialize(self.newest_legacy(), false)
    }

    fn discover(&mut self, revision: Revision, reopen: bool) -> NegotiationStep {
        let codec = ClientCodec::new(revision, self.client.clone());
        let id = self.next_id();
        let mut message = Vec::new();
        // Fails only for invalid parameters, and there are none.
        let _ = codec.request(DISCOVER, None, &id, &mut message);
        self.probed = true;
        self.probe = Some(PendingRequest { id, revision });
        self.timeout = match self.may_be_legacy() {
            true => NegotiationTimeout::Probe,
            false => NegotiationTimeout::Handshake,
        };
        let headers = match self.transport {
            TransportKind::Http => codec.headers(DISCOVER, None, None),
            TransportKind::Lines => Vec::new(),
        };
        NegotiationStep::Send { message, headers, timeout: self.timeout, reopen }
    }

    fn initialize(&mut self, revision: Revision, reopen: bool) -> NegotiationStep {
        let id = self.next_id();
        let mut message = Vec::new();
        ClientCodec::new(revision, self.client.clone()).initialize(&id, &mut message);
        self.handshake = Some(PendingRequest { id, revision });
        self.timeout = NegotiationTimeout::Handshake;
        NegotiationStep::Send { message, headers: Vec::new(), timeout: self.timeout, reopen }
    }

    fn next_id(&mut self) -> CallId {
        self.messages_sent += 1;
        CallId::from(self.messages_sent)
    }

    fn may_be_legacy(&self) -> bool {
        !self.modern && self.allowed.newest(Era::Legacy).is_some()
    }

    /// Newest modern revision to probe for; none if only legacy ones are allowed.
    fn newest_modern(&self) -> Option<Revision> {
        self.allowed.newest(Era::Modern)
    }

    /// Revision to send in `initialize`.
    fn newest_legacy(&self) -> Revision {
        self.allowed.newest(Era::Legacy).unwrap_or(Revision::NEWEST_LEGACY)
    }

    fn replied(&mut self, id: &CallId, result: Result<&str, &Error>) -> NegotiationStep {
        let answers = |sent: &mut PendingRequest| sent.id == *id;
        if let Some(sent) = self.probe.take_if(answers) {
            return self.discovered(&sent, result);
        }
        if let Some(sent) = self.handshake.take_if(answers) {
            return self.initialized(&sent, result);
        }
        NegotiationStep::Wait(self.timeout)
    }

    /// Handles the reply to `server/discover`.
    pub(super) fn discovered(
        &mut self,
        sent: &PendingRequest,
        result: Result<&str, &Error>,
    ) -> NegotiationStep {
        match (classify_reply::classify_discovery(result), result) {
            (DiscoverReply::Modern(versions), Ok(json)) => self.open_modern(sent, versions, json),
            (DiscoverReply::OtherVersions(versions), Err(error)) => {
                self.retry_revision(sent, versions, error)
            }
            (DiscoverReply::Rejected, Err(error)) => NegotiationStep::Fail(error.clone()),
            (_, Ok(_)) => self.not_modern("something that is not a discovery result"),
            (_, Err(error)) => self.not_modern(&format!("`{}`", excerpt(&error.message))),
        }
    }

    fn open_modern(
        &mut self,
        sent: &PendingRequest,
        versions: Vec<String>,
        json: &str,
    ) -> NegotiationStep {
        self.supported = versions;
        let fits = |revision: Revision| revision.is_modern() && self.allowed.has(revision);
        let modern = classify_reply::newest(&self.supported, fits);
        let Some(revision) = modern else { return self.fall_back() };
        let codec = ClientCodec::new(revision, self.client.clone());
        let supported = std::mem::take(&mut self.supported);
        let answered_in = ClientCodec::new(sent.revision, self.client.clone());
        match classify_reply::discovered(&answered_in, json) {
            Ok((info, discovery)) => {
                NegotiationStep::Open { codec, info, discovery, supported, then: None }
            }
            Err(error) => NegotiationStep::Fail(error),
        }
    }

    /// Tries a legacy revision if a modern server has no modern revision in common with the client.
    fn fall_back(&mut self) -> NegotiationStep {
        let fits = |revision: Revision| !revision.is_modern() && self.allowed.has(revision);
        match classify_reply::newest(&self.supported, fits) {
            Some(_) if self.handshake.is_some() => self.wait_for_handshake(),
            Some(revision) => self.initialize(revision, false),
            None => self.no_common_revision(),
        }
    }

    /// Repeats the probe in the newest revision that the server listed and did not refuse. If it listed none,
    /// steps down to the next older revision.
    fn retry_revision(
        &mut self,
        sent: &PendingRequest,
        versions: Vec<String>,
        error: &Error,
    ) -> NegotiationStep {
        self.supported = versions;
        // The first refusal may be wrong about a revision that it lists.
        if self.retried_revision {
            self.refused.push(sent.revision);
        }
        let fits = |revision: Revision| revision.is_modern() && self.allowed.has(revision);
        let is_new = |revision: Revision| fits(revision) && !self.refused.contains(&revision);
        let next = match self.supported.is_empty() {
            true => Revision::ALL.into_iter().rfind(|it| *it < sent.revision && fits(*it)),
            false => classify_reply::newest(&self.supported, is_new),
        };
        match next {
            Some(revision) => {
                (self.modern, self.retried_revision) = (true, true);
                self.discover(revision, false)
            }
            None if self.supported.is_empty() => NegotiationStep::Fail(error.clone()),
            None if classify_reply::newest(&self.supported, fits).is_some() => {
                NegotiationStep::Fail(error.clone())
            }
            None => self.fall_back(),
        }
    }

    /// Handles a reply to `server/discover` that is not that of a modern server.
    pub(super) fn not_modern(&mut self, answer: &str) -> NegotiationStep {
        if !self.may_be_legacy() {
            return NegotiationStep::Fail(error::not_modern(
                self.newest_modern().unwrap_or(Revision::NEWEST),
                answer,
            ));
        }
        match self.fallback.take() {
            Some(step) => step,
            None if self.handshake.is_some() => self.wait_for_handshake(),
            None => self.initialize(self.newest_legacy(), false),
        }
    }

    /// Handles the reply to `initialize`.
    pub(super) fn initialized(
        &mut self,
        sent: &PendingRequest,
        result: Result<&str, &Error>,
    ) -> NegotiationStep {
        match result {
            Ok(json) => match classify_reply::handshake(json) {
                Some((version, info)) => self.open_legacy(&version, info, json),
                None => self.initialize_failed(NegotiationStep::Fail(error::no_version())),
            },
            Err(error) => self.not_initialized(sent, error),
        }
    }

    fn open_legacy(&mut self, version: &str, info: Implementation, json: &str) -> NegotiationStep {
        let fits = |revision: &Revision| !revision.is_modern() && self.allowed.has(*revision);
        let Some(revision) = version.parse().ok().filter(fits) else {
            self.supported = vec![excerpt(version).into_owned()];
            return self.no_common_revision();
        };
        let codec = ClientCodec::new(revision, self.client.clone());
        let discovery = match classify_reply::discovery(&codec, json) {
            Ok(discovery) => discovery,
            Err(error) => return NegotiationStep::Fail(error),
        };
        let mut then = Vec::new();
        codec.initialized(&mut then);
        let supported = std::mem::take(&mut self.supported);
        NegotiationStep::Open { codec, info, discovery, supported, then: Some(then) }
    }

    fn not_initialized(&mut self, sent: &PendingRequest, error: &Error) -> NegotiationStep {
        self.supported = classify_reply::supported(error);
        let is_allowed = |revision: Revision| self.allowed.has(revision);
        if !self.supported.is_empty()
            && classify_reply::newest(&self.supported, is_allowed).is_none()
        {
            let step = self.no_common_revision();
            return self.initialize_failed(step);
        }
        let is_other = |revision: Revision| revision != sent.revision && is_allowed(revision);
        let other = classify_reply::newest(&self.supported, is_other);
        match other.filter(|_| !self.retried_revision) {
            None => self.initialize_failed(NegotiationStep::Fail(error.clone())),
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

    fn wait_for_handshake(&mut self) -> NegotiationStep {
        self.timeout = NegotiationTimeout::Handshake;
        NegotiationStep::Wait(self.timeout)
    }

    /// Handles a failed `initialize`: takes `step`, unless the server turns out to be modern.
    pub(super) fn initialize_failed(&mut self, step: NegotiationStep) -> NegotiationStep {
        if self.probe.is_some() {
            self.fallback = Some(step);
            return self.wait_for_handshake();
        }
        match self.newest_modern().filter(|_| !self.probed) {
            None => step,
            Some(newest) => {
                self.fallback = Some(step);
                self.discover(newest, false)
            }
        }
    }

    fn on_timeout(&mut self) -> NegotiationStep {
        let pending = (self.probe.is_some(), self.handshake.is_some());
        if self.transport == TransportKind::Http {
            // No reply arrives after an HTTP request was abandoned.
            (self.probe, self.handshake) = (None, None);
        }
        let unprobed = self.newest_modern().filter(|_| !self.probed);
        match (pending, unprobed) {
            ((true, false), _) if self.may_be_legacy() => match self.fallback.take() {
                Some(step) => step,
                None => self.initialize(self.newest_legacy(), false),
            },
            ((false, true), Some(newest)) => self.discover(newest, false),
            _ => self.fallback.take().unwrap_or_else(|| NegotiationStep::Fail(error::timed_out())),
        }
    }

    fn on_closed(&mut self) -> NegotiationStep {
        let pending = (self.probe.take().is_some(), self.handshake.take().is_some());
        let again = !std::mem::replace(&mut self.reopened, true);
        let unprobed = self.newest_modern().filter(|_| !self.probed);
        match (pending, unprobed) {
            _ if self.transport == TransportKind::Http => {
                NegotiationStep::Fail(error::connection_closed())
            }
            ((true, _), _) if again && self.may_be_legacy() => {
                self.initialize(self.newest_legacy(), true)
            }
            ((false, true), Some(newest)) if again => self.discover(newest, true),
            _ => self
                .fallback
                .take()
                .unwrap_or_else(|| NegotiationStep::Fail(error::connection_closed())),
        }
    }

    /// Returns the failure that lists the revisions of both sides.
    fn no_common_revision(&self) -> NegotiationStep {
        NegotiationStep::Fail(error::no_common_revision(&self.supported, self.allowed))
    }
}
