//! Answers the requests of an `input_required` result, within the limit of rounds.

use std::collections::BTreeSet;

use wharf_model::{Error, InputRequired};

use crate::{
    call::{
        backoff,
        protocol_violation::{limit_exceeded, protocol_violation},
        request::RetryParams,
        retry::overload_delay,
        run::CallRun,
    },
    server_requests::dispatch,
};

impl CallRun<'_> {
    /// Answers the requests of an `input_required` result, and prepares the retry.
    pub(super) async fn answer_requests(&mut self, required: InputRequired) -> Result<(), Error> {
        let InputRequired { requests, state, .. } = required;
        let most = self.caller.options().rounds;
        if requests.is_empty() {
            if state.is_none() {
                return Err(protocol_violation(
                    "returned input_required without requests and without state",
                ));
            }
            if self.overloads >= most {
                return Err(limit_exceeded(&format!("deferred the call {most} times")));
            }
            backoff::sleep(self.caller.timer(), overload_delay(self.overloads)).await;
            self.overloads += 1;
            self.retry = Some(RetryParams { responses: None, state });
            return Ok(());
        }
        if self.rounds >= most {
            return Err(limit_exceeded(&format!("requested input more than {most} times")));
        }
        self.rounds += 1;
        let distinct: BTreeSet<&String> = requests.iter().map(|(key, _)| key).collect();
        if distinct.len() < requests.len() {
            return Err(protocol_violation("sent two input requests with the same key"));
        }
        if requests.len() > dispatch::MAX_OPEN_REQUESTS {
            return Err(protocol_violation(&format!(
                "sent more than {} input requests at once",
                dispatch::MAX_OPEN_REQUESTS
            )));
        }
        let handler = self.caller.handler();
        let answers =
            requests.into_iter().map(|(key, ask)| (key, dispatch::put(handler, ask))).collect();
        let responses = Some(dispatch::all(answers).await?);
        self.retry = Some(RetryParams { responses, state });
        Ok(())
    }
}
