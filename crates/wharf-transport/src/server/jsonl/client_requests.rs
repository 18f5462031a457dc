//! The questions that one call has open at the client.

use wharf_model::{ClientRequest, ClientRequestId, Error, ErrorKind, ResponseSender};
use wharf_wire::Codec;

use crate::server::jsonl::in_flight::InFlight;

/// The questions that one call has open at the client, and their numbers there.
#[derive(Debug, Default)]
pub(crate) struct OpenClientRequests(Vec<(ClientRequestId, u64)>);

impl OpenClientRequests {
    /// Writes a question. False if it cannot be put to the client, which is its answer then.
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
        let told = codec.ask(number, ask, out);
        if told {
            self.0.push((id, number));
        } else {
            in_flight.answer(number, Err(Error::missing_capability(ask.needs())));
        }
        told
    }

    /// The number of a question that nobody waits for any more, unless its answer has come.
    pub(crate) fn close(&mut self, in_flight: &InFlight, id: ClientRequestId) -> Option<u64> {
        let index = self.0.iter().position(|(asked, _)| *asked == id)?;
        let (_, number) = self.0.swap_remove(index);
        in_flight.close_request(number).then_some(number)
    }

    /// The numbers of all questions whose answers have not come.
    pub(crate) fn close_all(&mut self, in_flight: &InFlight) -> Vec<u64> {
        let numbers = std::mem::take(&mut self.0).into_iter().map(|(_, number)| number);
        numbers.filter(|number| in_flight.close_request(*number)).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
