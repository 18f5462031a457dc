//! Subscriptions: `subscriptions/listen`, and the implicit one of a legacy session.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde::Deserialize;
use wharf_model::{
    BoxFuture, Deadlines, Error, LiveSubscriptionFilter, Notification, Outbox, Outcome, Reply,
    Request, SubscriptionFilter,
};

use crate::router::read_resource;
use crate::tasks;
use crate::{
    handler::now,
    notifications,
    notifications::{ActiveSubscription, SubscriptionOptions, custom},
    router::{catalog::CatalogSnapshot, state::ServerState},
    tasks::subscription::TaskSubscription,
};

pub(super) fn listen(
    server: &Arc<ServerState>,
    catalog: &CatalogSnapshot,
    mut request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    let filter = match request_filter(&request) {
        Ok(filter) => filter,
        Err(error) => return now(error.into()),
    };
    if !filter.read(|filter| filter.tasks.is_empty()) {
        if let Err(error) = tasks::methods::check_supported(catalog, &request) {
            return now(error.into());
        }
        match server.tasks.task_runtime() {
            Some(task_runtime) => return task_runtime.listen(server, filter, request, outbox),
            // There are no tasks.
            None => filter.edit(|filter| filter.tasks.clear()),
        }
    }
    let subscription = match admit(server, catalog, filter.clone(), &mut request, &outbox) {
        Ok(subscription) => subscription,
        Err(error) => return now(error.into()),
    };
    let server = server.clone();
    Box::pin(async move {
        let (request, filter, subscription) = (&request, &filter, &subscription);
        let task_subscription = TaskSubscription { server: &server, request, filter, subscription };
        task_subscription.listen(BTreeSet::new(), &outbox).await;
        Reply::Listened.into()
    })
}

/// Opens a subscription, and acknowledges the accepted filter.
pub(crate) fn admit(
    server: &ServerState,
    catalog: &CatalogSnapshot,
    filter: LiveSubscriptionFilter,
    request: &mut Request,
    outbox: &Outbox,
) -> Result<ActiveSubscription, Error> {
    filter.edit(|filter| {
        // A resumed subscription was accepted with earlier capabilities: a list that is empty now
        // has changed.
        if request.since.is_none() {
            notifications::restrict(filter, &catalog.discovery.capabilities);
        }
    });
    let permit = server.subscription_limits.admit(request, &filter);
    let permit = permit.ok_or_else(|| Error::overloaded(Duration::from_secs(1)))?;
    let extensions = custom::declared_by(server, request);
    request.drop_message();
    let agreed = filter.read(SubscriptionFilter::clone);
    let may_subscribe =
        |principal: Option<&_>, uri: &str| read_resource::may_subscribe(server, principal, uri);
    let subscription = {
        let options = SubscriptionOptions { permit, extensions };
        server.subscription_table.listen(filter, request, options, may_subscribe)
    };
    outbox.set_deadlines(Deadlines::NONE);
    outbox.notify(Notification::Acknowledged(agreed));
    Ok(subscription)
}

/// Returns the filter of a subscription: a live filter, or the one in its parameters.
pub(super) fn request_filter(request: &Request) -> Result<LiveSubscriptionFilter, Error> {
    #[derive(Deserialize)]
    struct Params {
        notifications: SubscriptionFilter,
    }
    if let Some(filter) = &request.filter {
        return Ok(filter.clone());
    }
    let params: Params = serde_json::from_str(request.params()).map_err(Error::invalid_params)?;
    Ok(LiveSubscriptionFilter::new(params.notifications))
}
