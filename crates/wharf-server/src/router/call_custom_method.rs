//! Calls of methods that the protocol does not define.

use std::sync::Arc;

use wharf_model::{BoxFuture, Error, Outbox, Outcome, Request, excerpt};

use crate::{
    handler::{
        extract::{CallInput, Incoming},
        now,
    },
    router::{access::Item, state::ServerState},
};

/// Calls a method that the protocol does not define.
pub(crate) fn call_method(
    server: &Arc<ServerState>,
    request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    let name = request.method_name();
    let method = server.methods.get(&*name);
    let method = method.filter(|method| method.is_notification == request.notification);
    let Some(method) = method.filter(|_| server.allows(&request, Item::Method(&name))) else {
        return now(Error::method_not_found(&excerpt(&name)).into());
    };
    if let Some(error) = server.missing_scopes(&request, &method.scopes) {
        return now(error.into());
    }
    if let Some(deadlines) = method.deadlines {
        outbox.set_deadlines(deadlines);
    }
    let params = request.custom_params().into_owned();
    let (input, validator) = (CallInput::Params(&params), Some(&method.validator));
    drop(name);
    method.endpoint.call(Incoming::new(request, outbox, server, input, validator))
}
