//! Decodes the messages of a server.

use bytes::Bytes;
use bytestring::ByteString;
use wharf_model::{Error, ErrorKind, FailureOrigin};

use crate::client::{
    ClientCodec, ServerMessage, decode_notification, decode_server_request::read_client_request,
};
use crate::{
    CallId,
    json::{
        field_spans::{MessageFault, MessageField},
        scanner::MAX_DEPTH,
    },
    server::{
        decode_error::read_error,
        message::{Message, invalid_field, unknown_method},
    },
};

/// Maximum length of an id in bytes.
const MAX_ID_BYTES: usize = 1024;

impl ClientCodec {
    /// Decodes what the server sent: one message, or several for a batch of revision 2025-03-26.
    ///
    /// ```
    /// use wharf_wire::{ClientIdentity, ServerMessage, Revision, ClientCodec};
    ///
    /// let codec = ClientCodec::new(Revision::NEWEST, ClientIdentity::default().into());
    /// let reply = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;
    /// let [ServerMessage::Reply { id, result }] = &codec.decode(reply.into()).unwrap()[..] else { panic!() };
    /// assert_eq!(id.as_ref().unwrap().as_json(), "1");
    /// assert_eq!(result.as_ref().unwrap(), r#"{"content":[]}"#);
    /// ```
    ///
    /// # Errors
    /// If the text is not a valid message.
    pub fn decode(&self, message: Bytes) -> Result<Vec<ServerMessage>, Error> {
        if u32::try_from(message.len()).is_err() {
            return Err(unreadable(ErrorKind::ContentTooLarge, "the message is too long"));
        }
        let Ok(body) = ByteString::try_from(message) else {
            return Err(unreadable(ErrorKind::ParseError, "the message is not UTF-8"));
        };
        match body.trim_ascii_start().starts_with('[') {
            true => self.decode_batch(&body),
            false => self.decode_one(body).map(|one| vec![one]),
        }
    }

    pub(super) fn decode_one(&self, body: ByteString) -> Result<ServerMessage, Error> {
        use ErrorKind::{InvalidRequest, ParseError};
        let message = Message::of(body, MAX_DEPTH);
        if message.members.fault == Some(MessageFault::Malformed) {
            return Err(unreadable(ParseError, "malformed JSON"));
        }
        let invalid = |problem| Err(unreadable(InvalidRequest, problem));
        if message.text(MessageField::Jsonrpc).as_deref() != Some("2.0") {
            return invalid("`jsonrpc` must be \"2.0\"");
        }
        let id = message.call_id(MessageField::Id, MAX_ID_BYTES);
        if id.is_none() && message.raw(MessageField::Id).is_some() {
            return invalid("`id` must be a string or an integer");
        }
        if let Some(MessageFault::Duplicate(_)) = message.members.fault {
            return invalid("duplicate field");
        }
        let answers =
            [MessageField::Result, MessageField::Error].map(|slot| message.members.has(slot));
        match (message.text(MessageField::Method), id) {
            (Some(_), _) if answers.contains(&true) => {
                invalid("a request must not have a result or an error")
            }
            (Some(method), Some(id)) => Ok(self.decode_request(&message, &method, id.detached())),
            (Some(_), None) if message.members.has(MessageField::Id) => {
                invalid("a request must not have a `null` id")
            }
            (Some(method), None) => Ok(self.decode_notification(&message, &method)),
            (None, _) if message.members.has(MessageField::Method) => {
                invalid("`method` must be a string")
            }
            (None, id) if answers.contains(&true) => Ok(self.decode_reply(&message, id)),
            (None, _) => invalid("neither a method nor a result"),
        }
    }

    fn decode_reply(&self, message: &Message, id: Option<CallId>) -> ServerMessage {
        let invalid = |problem| Err(unreadable(ErrorKind::ValidationFailed, problem));
        // Some servers write `null` for the field that is absent.
        let result = match (message.raw(MessageField::Result), message.raw(MessageField::Error)) {
            _ if message.members.fault.is_some() => invalid("the reply is nested too deeply"),
            (Some(_), Some(_)) => invalid("the reply has both a result and an error"),
            (Some(result), None) => Ok(message.body.slice_ref(result)),
            (None, Some(error)) => Err(read_error(error, self.revision)),
            (None, None) => invalid("the reply has neither a result nor an error"),
        };
        ServerMessage::Reply { id, result }
    }

    fn decode_request(&self, message: &Message, method: &str, id: CallId) -> ServerMessage {
        let params = message.raw(MessageField::Params).unwrap_or("{}");
        let ask = match method {
            _ if message.members.fault.is_some() => {
                Err(invalid_field("params", "is nested too deeply"))
            }
            "ping" => return ServerMessage::Ping { id },
            // Without server requests, client requests travel in results.
            _ if !self.has_server_requests() => Err(unknown_method(method)),
            _ => read_client_request(method, params, self.revision),
        };
        match ask {
            Ok(ask) => ServerMessage::ClientRequest { id, ask },
            Err(error) => ServerMessage::Refused { id, error },
        }
    }

    fn decode_notification(&self, message: &Message, method: &str) -> ServerMessage {
        if message.members.fault.is_some() {
            return ServerMessage::Ignored;
        }
        if method == "notifications/cancelled" {
            return match message.call_id(MessageField::RequestId, MAX_ID_BYTES) {
                Some(id) => ServerMessage::Cancelled { id: id.detached() },
                None => ServerMessage::Ignored,
            };
        }
        let params = message.raw(MessageField::Params).unwrap_or("{}");
        decode_notification::read(self, method, params)
            .map_or(ServerMessage::Ignored, ServerMessage::ServerNotification)
    }
}

pub(super) fn unreadable(kind: ErrorKind, problem: &str) -> Error {
    let message = format!("The server sent an invalid message: {problem}");
    Error::new(kind).with_message(message).from_client(FailureOrigin::Protocol)
}
