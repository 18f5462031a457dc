//! HTTP status of a reply to a request of the negotiation: which ones lead to `initialize`, to HTTP+SSE of 2024-11-05
//! (400, 404 and 405), or to a failure.

use crate::client::negotiation::{
    ClientCodec, NegotiationStep, TransportKind, classify_reply, error, state_machine::Negotiation,
};

impl Negotiation {
    /// Returns the next step after a complete HTTP response.
    pub(super) fn http(&mut self, status: u16, body: &[u8]) -> NegotiationStep {
        let (sent, probing) = match (self.probe.take(), self.handshake.take()) {
            (Some(sent), _) => (sent, true),
            (None, Some(sent)) => (sent, false),
            (None, None) => return NegotiationStep::Wait(self.timeout),
        };
        let codec = ClientCodec::new(sent.revision, self.client.clone());
        let reply = classify_reply::reply_in(body, &sent.id, &codec);
        if !matches!(status, 200..=299 | 400..=499) || matches!(status, 401 | 403 | 429) {
            return NegotiationStep::Fail(error::inconclusive_status(
                status,
                reply.and_then(Result::err),
            ));
        }
        match reply {
            // Some servers that do not accept POST reply with a JSON-RPC error.
            Some(Err(_))
                if !probing
                    && self.transport == TransportKind::Http
                    && matches!(status, 404 | 405) =>
            {
                self.initialize_failed(NegotiationStep::TryEvents)
            }
            Some(reply) => {
                let result = reply.as_deref();
                match probing {
                    true => self.discovered(&sent, result),
                    false => self.initialized(&sent, result),
                }
            }
            None if self.transport == TransportKind::Lines && status < 300 => {
                // With HTTP+SSE the reply arrives on the stream.
                self.handshake = Some(sent);
                NegotiationStep::Wait(self.timeout)
            }
            None if probing => self.not_modern(&format!("HTTP status {status}")),
            None if self.transport == TransportKind::Http && matches!(status, 400 | 404 | 405) => {
                self.initialize_failed(NegotiationStep::TryEvents)
            }
            None => self.initialize_failed(NegotiationStep::Fail(error::no_reply(status))),
        }
    }
}
