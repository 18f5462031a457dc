//! JSON-RPC batches, which only revision 2025-03-26 has.

use std::{borrow::Cow, sync::Arc};

use bytestring::ByteString;
use wharf_model::ErrorKind;

use crate::{
    Era, Received, ServerProtocol,
    json::{
        field_spans::{MessageFault, MessageField},
        scanner,
    },
    server::{message::Message, message_source::MessageSource},
    versions::revision::{Feature, RequestKind},
};

impl ServerProtocol {
    pub(crate) fn read_batch(
        self: &Arc<Self>,
        body: &ByteString,
        source: &mut MessageSource<'_>,
    ) -> Received {
        let Ok(members) = scanner::elements(body, self.limits.depth, self.limits.batch) else {
            return self.refuse_unparsed(None, ErrorKind::ParseError, "malformed JSON");
        };
        if let Err(refusal) = source.check_version(self).and_then(|()| source.check_session(self)) {
            return self.refuse(None, &refusal);
        }
        let members = members.iter().filter_map(|span| span.of(body));
        match self.read_members(members.map(|one| body.slice_ref(one)).collect(), source) {
            Ok(each) => Received::Batch(each),
            Err(problem) => self.refuse_unparsed(None, ErrorKind::InvalidRequest, &problem),
        }
    }

    /// Reads each message, or returns why the whole batch is refused.
    fn read_members(
        self: &Arc<Self>,
        members: Vec<ByteString>,
        source: &mut MessageSource<'_>,
    ) -> Result<Vec<Received>, Cow<'static, str>> {
        let revision = source.revision().filter(|revision| self.supports(*revision));
        match members.len() {
            _ if !revision.is_some_and(|it| it.has(Feature::Batches)) => {
                let revisions = Feature::Batches.revisions();
                return Err(format!("batches exist in revision {revisions} only").into());
            }
            0 => return Err("the batch is empty".into()),
            count if count > self.limits.batch => return Err("the batch is too long".into()),
            _ => {}
        }
        // Reading a message may change the session, so all are checked before any is read.
        let requests: Vec<Message> =
            members.iter().filter_map(|one| self.request_in(one)).collect();
        if requests.iter().any(|request| self.stands_alone(request, source)) {
            return Err("`initialize` and modern requests must not be part of a batch".into());
        }
        let each: Vec<_> = members.into_iter().map(|one| self.read_one(one, source)).collect();
        let idle = |it: &Received| matches!(it, Received::Reply(..) | Received::Ignore);
        let refused = |it: &Received| matches!(it, Received::Reply(..));
        let unanswered = source.headers.is_some() && requests.is_empty();
        // On HTTP, a batch without requests is accepted or refused by the status alone.
        match unanswered && each.iter().all(idle) && each.iter().any(refused) {
            true => Err("the batch has no request, and a message that cannot be accepted".into()),
            false => Ok(each),
        }
    }

    fn request_in(&self, member: &ByteString) -> Option<Message> {
        let message = Message::of(member.clone(), self.limits.depth);
        let is_request =
            message.has(MessageField::Method) && message.raw(MessageField::Id).is_some();
        (is_request && message.members.fault != Some(MessageFault::Malformed)).then_some(message)
    }

    fn stands_alone(&self, request: &Message, source: &MessageSource<'_>) -> bool {
        let row = self.request_kind(&request.text(MessageField::Method).unwrap_or_default());
        matches!(row, Some((RequestKind::Initialize, _)))
            || self.era(request, row, source) == Era::Modern
    }
}
