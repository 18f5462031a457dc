//! Sends any request by its method name, with the timeouts and events of a call.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::value::RawValue;
use wharf_model::{
    BoxFuture, Error, FailureOrigin, Outbox, Outcome, Reply, Request, RequestBuilder, Service,
};

use crate::{
    ClientHandle,
    call::{builder::CallHooks, result::unexpected, run},
};

pub(crate) async fn ask(
    caller: &ClientHandle,
    method: String,
    params: Option<String>,
    mut hooks: CallHooks,
    idle: Duration,
) -> Result<Box<RawValue>, Error> {
    let params = params.map(RawValue::from_string).transpose().map_err(invalid_params)?;
    let raw = RawRequest {
        caller: caller.clone(),
        method: method.clone(),
        params,
        result: ResultSlot::default(),
    };
    // The service sends the parameters: an active call has no request with any of them.
    let stand_in = RequestBuilder::custom(&method).build();
    match run::send_request(caller, &raw, stand_in, &mut hooks, idle).await.0 {
        Outcome::Failed(error) => Err(*error),
        _ => {
            raw.result.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(unexpected)
        }
    }
}

fn invalid_params(error: serde_json::Error) -> Error {
    Error::invalid_params(error).from_client(FailureOrigin::Usage)
}

type ResultSlot = Arc<Mutex<Option<Box<RawValue>>>>;

/// A request by its method name as a service, so that an active call can carry it.
struct RawRequest {
    caller: ClientHandle,
    method: String,
    params: Option<Box<RawValue>>,
    /// The result: no outcome has room for it.
    result: ResultSlot,
}

impl Service for RawRequest {
    fn call(&self, _: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let (method, params) = (self.method.clone(), self.params.clone());
        let asking = self.caller.transport().request(method, params, outbox);
        let slot = self.result.clone();
        Box::pin(async move {
            match asking.await {
                Ok(result) => {
                    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
                    Reply::Listened.into()
                }
                Err(error) => error.into(),
            }
        })
    }
}
