//! Validates the JSON-RPC envelope of a message (`jsonrpc`, `id`, `method`) and classifies it: request, notification or
//! response.

use std::sync::Arc;

use bytestring::ByteString;
use wharf_model::ErrorKind;

use crate::{
    Received, ServerProtocol,
    json::field_spans::{FieldSet, MessageFault, MessageField},
    server::{message::Message, message_source::MessageSource},
};

impl ServerProtocol {
    /// Reads a message that is not a batch.
    pub(crate) fn read_one(
        self: &Arc<Self>,
        body: ByteString,
        source: &mut MessageSource<'_>,
    ) -> Received {
        use ErrorKind::{InvalidRequest, ParseError};
        let mut message = Message::of(body, self.limits.depth);
        let fault = message.members.fault;
        if fault == Some(MessageFault::Malformed) {
            return self.refuse_unparsed(None, ParseError, "malformed JSON");
        }
        let is_response = message.members.has_any(RESPONSE_FIELDS);
        let is_request = message.has(MessageField::Method);
        let id = message.members.span(MessageField::Id).of(&message.body);
        let id = id.filter(|_| message.is_id(MessageField::Id, self.limits.id));
        let id = id.filter(|_| fault != Some(MessageFault::Duplicate(MessageField::Id)));
        // The id of a response is the server's: an error under it could be taken for the reply to a client
        // request.
        let id = id.filter(|_| is_request || !is_response);
        let invalid = |problem: &'static str| self.refuse_unparsed(id, InvalidRequest, problem);
        match fault {
            Some(MessageFault::Deep) => return invalid("the message is nested too deeply"),
            Some(_) => return invalid("duplicate field"),
            None => {}
        }
        if message.text(MessageField::Jsonrpc).as_deref() != Some("2.0") {
            return invalid("`jsonrpc` must be \"2.0\"");
        }
        match (is_request, is_response) {
            (false, false) => return invalid("missing `method`"),
            (true, true) => return invalid("a request must not have a result or an error"),
            (false, true) => return self.read_response(&message, source),
            (true, false) => {}
        }
        if !message.is_string(MessageField::Method) {
            return invalid("`method` must be a string");
        }
        if !message.has(MessageField::Id) {
            return match source.handle_notification(self, &message) {
                Received::Ignore => self.read_custom_notification(&mut message, source),
                handled => handled,
            };
        }
        if id.is_none() {
            return invalid("`id` must be a string or an integer");
        }
        match self.read_request(&mut message, source) {
            Ok(received) => received,
            Err(refusal) => self.refuse(message.raw(MessageField::Id), &refusal),
        }
    }
}

/// Fields that only responses have.
const RESPONSE_FIELDS: FieldSet = FieldSet::of(&[MessageField::Result, MessageField::Error]);
