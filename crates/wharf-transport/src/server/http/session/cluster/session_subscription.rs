//! Subscription that feeds the session's stream (GET) while a client reads it, in any process of a cluster.

use std::{
    collections::{BTreeSet, VecDeque},
    future::poll_fn,
    task::Poll,
};

use wharf_model::{LiveSubscriptionFilter, Notification, RequestExtensions, SubscriptionFilter};

use crate::server::call_driver::{CallDriver, CallStep, MessagesOnly};
use crate::server::http::cluster::POLL_INTERVAL;
use crate::server::http::session::live_session::Session;

/// Runs the session's subscription to changes while its stream is read.
pub(crate) struct SessionSubscription {
    scope: RequestExtensions,
    /// None before the client is initialized, and after the service has ended the subscription.
    active: Option<CallDriver>,
    /// Changes to report because the service cannot list those that were missed.
    assumed: VecDeque<Notification>,
    /// The session's filter, and the resource URIs it had when the subscription started.
    filter_at_start: Option<(LiveSubscriptionFilter, BTreeSet<String>)>,
}

impl SessionSubscription {
    pub(crate) fn new(scope: RequestExtensions) -> Self {
        SessionSubscription { scope, active: None, assumed: VecDeque::new(), filter_at_start: None }
    }

    /// Returns the next message. Records in the session up to which change version the client has been
    /// notified.
    pub(crate) async fn next(&mut self, session: &Session) -> Vec<u8> {
        loop {
            self.start(session);
            let Some(active) = &mut self.active else {
                // The caller starts over when the session changes.
                std::future::pending::<()>().await;
                continue;
            };
            let service = &session.common.context.service;
            let mut message = Vec::new();
            let step = match self.assumed.pop_front() {
                Some(notification) => active.notify(&notification, &MessagesOnly, &mut message),
                None => {
                    poll_fn(|cx| {
                        let now = service.change_version();
                        let polled = active.poll_step(cx, &MessagesOnly, &mut message);
                        if let (Poll::Pending, Some(now)) = (&polled, now) {
                            session.connection().mark_delivered_until(now);
                        }
                        polled
                    })
                    .await
                }
            };
            match step {
                CallStep::Message | CallStep::Change => return message,
                CallStep::Nothing | CallStep::ConnectionMayClose => {}
                CallStep::Ended(_) | CallStep::Cancelled => {
                    self.active = None;
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
            }
        }
    }

    /// Starts the subscription if the client is initialized. Restarts it if the filter grew: a resource
    /// subscribed to in another process may have changed before this process learned of it.
    pub(crate) fn start(&mut self, session: &Session) {
        if self.active.is_some() && !self.has_filter_grown() {
            return;
        }
        let Some((mut request, codec)) = session.connection().restart_listen() else { return };
        let context = &session.common.context;
        if context.service.change_version().is_none()
            && let Some(filter) = &request.filter
        {
            // Without change versions, everything counts as changed.
            self.assumed = filter.read(all_changes);
        }
        let uris = |filter: &LiveSubscriptionFilter| filter.read(|filter| filter.uris.clone());
        self.filter_at_start = request.filter.clone().map(|filter| (filter.clone(), uris(&filter)));
        request.scope = self.scope.clone();
        self.active = Some(CallDriver::start(context, request, codec, false));
    }

    fn has_filter_grown(&self) -> bool {
        self.filter_at_start
            .as_ref()
            .is_some_and(|(now, before)| now.read(|filter| !filter.uris.is_subset(before)))
    }
}

/// Returns all notifications that pass this filter.
fn all_changes(filter: &SubscriptionFilter) -> VecDeque<Notification> {
    use Notification::{PromptsChanged, ResourcesChanged, ToolsChanged};
    let lists = [ToolsChanged, PromptsChanged, ResourcesChanged];
    let updates =
        filter.uris.iter().map(|uri| Notification::ResourceUpdated { uri: (&**uri).into() });
    lists.into_iter().filter(|it| filter.includes(it)).chain(updates).collect()
}
