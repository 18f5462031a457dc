//! Open server-to-client requests of one call.

use wharf_model::{ClientRequest, ClientRequestId, Error, ErrorKind, ResponseSender};
use wharf_wire::Codec;

use crate::server::jsonl::in_flight::InFlight;

/// Open server-to-client requests of one call, with their JSON-RPC numbers.
#[derive(Debug, Default)]
pub(crate) struct OpenClientRequests(Vec<(ClientRequestId, u64)>);

impl OpenClientRequests {
    /// Writes a request to the client. False if it cannot be sent; the call then receives the
    /// error.
    pub(crate) fn put(
        &mut self,
        in_flight: &InFlight,
        answers: ResponseSender,
        codec: &Codec,
        id: ClientRequestId,
        ask: &ClientRequest,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(number) = in_flight.open_request(answers.clone(), id) else {
            answers.deliver(id, Err(Error::new(ErrorKind::ConnectionClosed)));
            return false;
        };
        let sent = codec.ask(number, ask, out);
        if sent {
            self.0.push((id, number));
        } else {
            in_flight.answer(number, Err(Error::missing_capability(ask.needs())));
        }
        sent
    }

    /// Closes a request that is no longer needed. Returns its number, unless the response has
    /// arrived.
    pub(crate) fn close(&mut self, in_flight: &InFlight, id: ClientRequestId) -> Option<u64> {
        let index = self.0.iter().position(|(asked, _)| *asked == id)?;
        let (_, number) = self.0.swap_remove(index);
        in_flight.close_request(number).then_some(number)
    }

    /// Closes all requests. Returns the numbers of those without a response.
    pub(crate) fn close_all(&mut self, in_flight: &InFlight) -> Vec<u64> {
        let numbers = std::mem::take(&mut self.0).into_iter().map(|(_, number)| number);
        numbers.filter(|number| in_flight.close_request(*number)).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
