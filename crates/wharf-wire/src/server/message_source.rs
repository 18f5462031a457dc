//! Context of a received message: its session and HTTP headers, and the rules that follow from them.

use std::sync::Arc;

use crate::{
    McpHeaders, Received, Revision, ServerProtocol,
    server::{legacy_session::LegacyContext, message::Message},
};

/// Session and HTTP headers of a received message.
pub(crate) struct MessageSource<'a> {
    pub(crate) legacy: LegacyContext<'a>,
    /// HTTP headers of the message, if it came over HTTP.
    pub(crate) headers: Option<&'a McpHeaders<'a>>,
}

impl MessageSource<'_> {
    /// Returns the revision of the context; the message may override it.
    pub(crate) fn revision(&self) -> Option<Revision> {
        match self.headers {
            Some(headers) if !headers.may_have_session() => headers.revision(),
            _ => self.legacy.revision(),
        }
    }

    /// Returns the revision in the header, or else the negotiated one.
    pub(crate) fn explicit_revision(&self) -> Option<Revision> {
        let header = self.headers.and_then(McpHeaders::revision);
        match header.filter(|revision| revision.is_modern()) {
            Some(modern) => Some(modern),
            None => self.legacy.explicit_revision().or(header),
        }
    }

    pub(crate) fn is_modern(&self) -> bool {
        self.revision().is_some_and(Revision::is_modern)
    }

    /// Returns the revision of a client response; an error if the server cannot have sent a request.
    pub(crate) fn response_revision(&self) -> Result<Option<Revision>, &'static str> {
        let revision = self.revision().filter(|revision| !revision.is_modern());
        match (&self.legacy, self.headers) {
            (LegacyContext::Session(_), None) => Ok(revision),
            (LegacyContext::Session(Some(_)), Some(_)) | (LegacyContext::Stateless(_), None)
                if revision.is_some() =>
            {
                Ok(revision)
            }
            _ => Err("the server has sent no request"),
        }
    }

    /// Handles a notification.
    pub(crate) fn handle_notification(
        &mut self,
        wire: &Arc<ServerProtocol>,
        message: &Message,
    ) -> Received {
        if self.headers.is_none() {
            return self.legacy.handle_notification(wire, message);
        }
        if let Err(refusal) = self.check_version(wire).and_then(|()| self.check_session(wire)) {
            return wire.refuse(None, &refusal);
        }
        match &self.legacy {
            // A stateless notification affects no other request.
            _ if self.is_modern() => Received::Ignore,
            LegacyContext::Stateless(_) => Received::Ignore,
            LegacyContext::Session(_) => self.legacy.handle_notification(wire, message),
        }
    }
}
