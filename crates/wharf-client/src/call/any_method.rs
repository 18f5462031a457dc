//! Sends any request by its method name, with the timeouts and events of a call.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::value::RawValue;
use wharf_model::{
    BoxFuture, Direction, Error, FailureOrigin, Lock, Method, Observers, Outbox, Outcome, Reply,
    Request, RequestBuilder, RequestExtensions, Service, ToolResult,
};

use crate::{
    ClientHandle, ClientTransport,
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
    let transport = caller.transport();
    let observed = observed_request(&method, params.as_deref(), transport.scope());
    let raw = RawRequest { transport, method, params, result: ResultSlot::default() };
    let outcome = run::send_request(caller, &raw, observed, &mut hooks, idle).await.outcome;
    let result = raw.result.lock().take();
    match (outcome, result) {
        (Outcome::Failed(error), _) => Err(*error),
        (_, Some(result)) => Ok(result),
        // The call itself ended so, such as after a panic.
        (Outcome::Complete(Reply::Tool(result)), None) => {
            Ok(serde_json::value::to_raw_value(&result)?)
        }
        (_, None) => Err(unexpected()),
    }
}

/// Returns the request as observers see it. The service sends the parameters: an active call needs none of them.
fn observed_request(method: &str, params: Option<&RawValue>, scope: RequestExtensions) -> Request {
    let known = Method::from_name(method).filter(|it| it.info().direction == Direction::Call);
    let mut builder = known.map_or_else(|| RequestBuilder::custom(method), RequestBuilder::new);
    if let Some(name) = known.and_then(|method| method.info().mirrored)
        && let Some(target) = params.and_then(|params| member(params.get(), name))
    {
        builder = builder.target(&target);
    }
    let mut request = builder.build();
    request.scope = scope;
    request
}

/// Returns the string member `name` of a JSON object.
fn member(json: &str, name: &str) -> Option<String> {
    let mut members: BTreeMap<String, &RawValue> = serde_json::from_str(json).ok()?;
    serde_json::from_str(members.remove(name)?.get()).ok()
}

fn invalid_params(error: serde_json::Error) -> Error {
    Error::invalid_params(error).from_client(FailureOrigin::Usage)
}

type ResultSlot = Arc<Lock<Option<Box<RawValue>>>>;

/// A request by its method name as a service, so that an active call can carry it.
struct RawRequest {
    transport: Arc<dyn ClientTransport>,
    method: String,
    params: Option<Box<RawValue>>,
    /// The result: no outcome has room for it.
    result: ResultSlot,
}

impl Service for RawRequest {
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let (method, params) = (self.method.clone(), self.params.clone());
        let asking = self.transport.request(method, params, outbox);
        let (slot, is_tool) = (self.result.clone(), request.method == Method::CallTool);
        Box::pin(async move {
            match asking.await {
                Ok(result) => {
                    let failed = is_tool && is_tool_error(&result);
                    *slot.lock() = Some(result);
                    // Observers see that the tool failed; the caller receives the result itself.
                    if failed { ToolResult::error("").into() } else { Reply::Listened.into() }
                }
                Err(error) => error.into(),
            }
        })
    }

    fn observers(&self) -> &Observers {
        self.transport.observers()
    }

    fn has_target(&self, request: &Request) -> bool {
        self.transport.has_target(request)
    }
}

fn is_tool_error(result: &RawValue) -> bool {
    #[derive(serde::Deserialize)]
    struct ToolError {
        #[serde(rename = "isError", default)]
        is_error: bool,
    }
    serde_json::from_str(result.get()).is_ok_and(|it: ToolError| it.is_error)
}
