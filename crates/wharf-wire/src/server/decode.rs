//! One message: what it is, which era it belongs to, and the call it asks for.

use std::sync::Arc;

use bytes::Bytes;
use bytestring::ByteString;
use serde_json::json;
use wharf_model::{Error, ErrorKind, excerpt};

use crate::{
    Received, Revision, ServerProtocol, SupportedEras,
    json::envelope::{Fault, Slot, Slots},
    server::{
        connection::{Legacy, not_initialized},
        encode_error::{read_error, write_error},
        message::{Message, Refusal, is_id, unknown_method},
        message_source::Origin,
        modern,
    },
    versions::{
        error_codes,
        revision::{Range, Verb},
    },
};

impl ServerProtocol {
    pub(crate) fn read(self: &Arc<Self>, message: Bytes, origin: &mut Origin<'_>) -> Received {
        let limit = self.limits.message.min(u32::MAX as usize);
        if message.len() > limit {
            return self.refuse_size(Some(message.len()));
        }
        let Ok(body) = ByteString::try_from(message) else {
            return self.refuse_unread(None, ErrorKind::ParseError, "the message is not UTF-8");
        };
        match body.trim_ascii_start().starts_with('[') {
            true => self.read_batch(&body, origin),
            false => self.read_one(body, origin),
        }
    }

    pub(crate) fn read_one(
        self: &Arc<Self>,
        body: ByteString,
        origin: &mut Origin<'_>,
    ) -> Received {
        use ErrorKind::{InvalidRequest, ParseError};
        let mut message = Message::of(body, self.limits.depth);
        let fault = message.members.fault;
        if fault == Some(Fault::Malformed) {
            return self.refuse_unread(None, ParseError, "malformed JSON");
        }
        let is_answer = message.members.has_any(ANSWER);
        let is_request = message.has(Slot::Method);
        let id = message.members.span(Slot::Id).of(&message.body);
        let id = id.filter(|id| is_id(id, self.limits.id));
        let id = id.filter(|_| fault != Some(Fault::Duplicate(Slot::Id)));
        // The id of an answer is ours: an error under it would answer a request of the client's.
        let id = id.filter(|_| is_request || !is_answer);
        let invalid = |problem: &'static str| self.refuse_unread(id, InvalidRequest, problem);
        match fault {
            Some(Fault::Deep) => return invalid("the message is nested too deep"),
            Some(_) => return invalid("a member is there twice"),
            None => {}
        }
        if message.text(Slot::Jsonrpc).as_deref() != Some("2.0") {
            return invalid("`jsonrpc` must be \"2.0\"");
        }
        match (is_request, is_answer) {
            (false, false) => return invalid("there is no method"),
            (true, true) => return invalid("a request has no result"),
            (false, true) => return self.read_answer(&message, origin),
            (true, false) => {}
        }
        if !message.is_text(Slot::Method) {
            return invalid("the method must be a string");
        }
        if !message.has(Slot::Id) {
            return origin.notified(self, &message);
        }
        if id.is_none() {
            return invalid("the id must be a string or an integer");
        }
        match self.read_request(&mut message, origin) {
            Ok(received) => received,
            Err(refusal) => self.refuse(message.raw(Slot::Id), &refusal),
        }
    }

    fn read_request(
        self: &Arc<Self>,
        message: &mut Message,
        origin: &mut Origin<'_>,
    ) -> Result<Received, Refusal> {
        let row = Verb::named(&message.text(Slot::Method).unwrap_or_default());
        if !is_marked(message) {
            origin.check_version(self)?;
        }
        let era = self.era(message, row, origin);
        let revision = match era {
            Era::Modern => Revision::MODERN,
            Era::Legacy => origin.revision().unwrap_or(Revision::NEWEST_LEGACY),
        };
        match (era, self.eras, row) {
            (Era::Modern, SupportedEras::Legacy, _) => {
                return Err(self.not_modern(message, row, origin));
            }
            (Era::Legacy, SupportedEras::Modern, Some((Verb::Initialize, _))) => {
                return Err(self.not_legacy(message));
            }
            _ => {}
        }
        if era == Era::Modern {
            return modern::begin(self, row, message, origin.heads);
        }
        if !matches!(row, Some((Verb::Initialize, _))) {
            origin.check_session(self)?;
        }
        message.check_objects().map_err(|error| Refusal::new(error, revision))?;
        let Some((verb, _)) = row.filter(|row| row.1.has(revision)) else {
            let name = message.text(Slot::Method).unwrap_or_default();
            return Err(Refusal::new(unknown_method(&name), revision));
        };
        match &mut origin.legacy {
            Legacy::Session(None) if !matches!(verb, Verb::Initialize | Verb::Ping) => {
                Err(Refusal::new(not_initialized(self), revision))
            }
            legacy => legacy.request(self, verb, message).map_err(|it| Refusal::new(it, revision)),
        }
    }

    pub(crate) fn era(
        &self,
        message: &Message,
        row: Option<(Verb, Range)>,
        origin: &Origin<'_>,
    ) -> Era {
        let modern_only = row.is_some_and(|row| !row.1.has(Revision::NEWEST_LEGACY));
        let opens = matches!(row, Some((Verb::Initialize, _)));
        // A server without sessions has nothing to offer but the modern rules.
        let forced = self.eras == SupportedEras::Modern && !opens;
        let said = match origin.said() {
            Some(revision) => revision.is_modern(),
            // Where nothing says what is spoken, the method may.
            None => modern_only,
        };
        match is_marked(message) || forced || said {
            true => Era::Modern,
            false => Era::Legacy,
        }
    }

    fn read_answer(&self, message: &Message, origin: &Origin<'_>) -> Received {
        use ErrorKind::InvalidRequest;
        if message.has(Slot::Result) && message.has(Slot::Error) {
            return self.refuse_unread(None, InvalidRequest, "an answer has a result or an error");
        }
        if let Err(refusal) = origin.check_version(self) {
            return self.refuse(None, &refusal);
        }
        let revision = match origin.answers() {
            Ok(Some(revision)) => revision,
            Ok(None) => return Received::Ignore,
            Err(problem) => return self.refuse_unread(None, InvalidRequest, problem),
        };
        let id = message.raw(Slot::Id).and_then(|id| id.parse().ok());
        let Some(number) = id else { return Received::Ignore };
        Received::Answer(
            number,
            match message.members.span(Slot::Result).of(&message.body) {
                Some(result) => Ok(result.to_owned()),
                None => Err(read_error(message.raw(Slot::Error).unwrap_or("{}"), revision)),
            },
        )
    }

    pub(crate) fn refuse(&self, id: Option<&str>, refusal: &Refusal) -> Received {
        let mut out = Vec::new();
        write_error(&mut out, self.profile, id, &refusal.error, refusal.revision);
        let usual = error_codes::status(refusal.error.kind, refusal.revision);
        Received::Reply(out, refusal.status.unwrap_or(usual))
    }

    /// Refuses what is no request of any revision.
    pub(crate) fn refuse_unread(
        &self,
        id: Option<&str>,
        kind: ErrorKind,
        problem: &str,
    ) -> Received {
        let error = Error::new(kind).with_message(format!("{}: {problem}", kind.message()));
        self.refuse(id, &Refusal::new(error, Revision::MODERN))
    }

    pub(crate) fn refuse_size(&self, size: Option<usize>) -> Received {
        let mut data = json!({"limit": self.limits.message});
        if let Some(size) = size {
            data["size"] = size.into();
        }
        let error = Error::new(ErrorKind::ContentTooLarge).with_data(data);
        self.refuse(None, &Refusal::new(error, Revision::MODERN))
    }

    fn not_modern(
        &self,
        message: &Message,
        row: Option<(Verb, Range)>,
        origin: &Origin<'_>,
    ) -> Refusal {
        let requested = message.text(Slot::MetaVersion).unwrap_or_default();
        if origin.heads.is_some() {
            return self.unspoken(&requested);
        }
        // A client that probes with a modern method must see an error that legacy servers give.
        let modern_only = row.is_some_and(|row| !row.1.has(Revision::NEWEST_LEGACY));
        let error = if modern_only {
            unknown_method(&message.text(Slot::Method).unwrap_or_default())
        } else {
            self.unsupported(&requested)
        };
        Refusal::new(error, Revision::MODERN)
    }

    fn not_legacy(&self, message: &Message) -> Refusal {
        let requested = message.text(Slot::ProtocolVersion).unwrap_or_default();
        Refusal::new(self.unsupported(&requested), Revision::MODERN)
    }

    /// Refuses what a header asks for. Modern clients take a modern number for a modern server.
    pub(crate) fn unspoken(&self, requested: &str) -> Refusal {
        let revision = match self.eras {
            SupportedEras::Legacy => Revision::NEWEST_LEGACY,
            _ => Revision::MODERN,
        };
        Refusal::new(self.unsupported(requested), revision)
    }

    pub(crate) fn speaks(&self, revision: Revision) -> bool {
        match self.eras {
            SupportedEras::Both => true,
            SupportedEras::Modern => revision.is_modern(),
            SupportedEras::Legacy => !revision.is_modern(),
        }
    }

    /// Every revision this server speaks, newest first.
    pub(crate) fn supported(&self) -> Vec<&'static str> {
        let all = Revision::ALL.into_iter().rev().filter(|revision| self.speaks(*revision));
        all.map(Revision::as_str).collect()
    }

    /// The message names the versions too: it may be all that a user gets to see.
    pub(crate) fn unsupported(&self, requested: &str) -> Error {
        let supported = self.supported();
        let message =
            format!("Unsupported protocol version; this server speaks {}", supported.join(", "));
        Error::new(ErrorKind::UnsupportedProtocolVersion)
            .with_message(message)
            .with_data(json!({"supported": supported, "requested": excerpt(requested)}))
    }
}

/// What only answers carry.
const ANSWER: Slots = Slots::of(&[Slot::Result, Slot::Error]);

/// What only modern requests carry.
const MARKS: Slots =
    Slots::of(&[Slot::MetaVersion, Slot::MetaCapabilities, Slot::MetaClient, Slot::MetaLevel]);

/// Whether a request carries any of what only modern ones carry.
fn is_marked(message: &Message) -> bool {
    message.members.has_any(MARKS)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Modern,
    Legacy,
}
