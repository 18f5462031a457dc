//! Forwards requests to the upstream server of a proxy.

use std::{sync::Arc, time::Duration};

use wharf_model::{
    BoxFuture, Deadlines, Error, Lifetime, Method, Outbox, Outcome, Request, Service,
};

use crate::router::{concurrency::with_permit, listen::request_filter};
use crate::{handler::now, router::state::ServerState};

/// Forwards a request to the upstream service. Requests that may take long need a permit.
pub(super) fn forward_upstream(
    server: &Arc<ServerState>,
    upstream: Arc<dyn Service>,
    request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    match request.method {
        Method::Custom if !may_forward(server, &request.method_name()) => {
            now(Error::method_not_found(&request.method_name()).into())
        }
        Method::Discover => upstream.call(request, outbox),
        Method::Listen => {
            outbox.set_deadlines(Deadlines::NONE);
            forward_subscription(server, upstream, request, outbox)
        }
        method if method.info().lifetime == Lifetime::Waits => {
            outbox.set_deadlines(Deadlines::NONE);
            upstream.call(request, outbox)
        }
        _ => with_permit(server, request, outbox, move |_, request, outbox| {
            upstream.call(request, outbox)
        }),
    }
}

fn may_forward(server: &ServerState, method: &str) -> bool {
    server.forwards_custom_methods && Method::is_qualified(method)
}

/// Forwards a subscription to the upstream service; it counts towards the limits here.
fn forward_subscription(
    server: &Arc<ServerState>,
    upstream: Arc<dyn Service>,
    request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    let filter = match request_filter(&request) {
        Ok(filter) => filter,
        Err(error) => return now(error.into()),
    };
    let Some(permit) = server.subscription_limits.admit(&request, &filter) else {
        return now(Error::overloaded(Duration::from_secs(1)).into());
    };
    Box::pin(async move {
        let outcome = upstream.call(request, outbox).await;
        drop(permit);
        outcome
    })
}
