//! The listen of a session whose stream somebody follows, in any process.

use std::{
    collections::{BTreeSet, VecDeque},
    future::poll_fn,
    task::Poll,
};

use wharf_model::{
    ActiveCall, Event, LiveSubscriptionFilter, Notification, RequestExtensions, SubscriptionFilter,
};
use wharf_wire::Codec;

use crate::server::http::cluster::POLL_INTERVAL;
use crate::server::http::session::session::Session;

/// What feeds a session's own stream for as long as somebody follows it.
pub(crate) struct SessionSubscription {
    scope: RequestExtensions,
    /// None while the client is not ready for it, or the service not willing.
    active: Option<(ActiveCall, Codec)>,
    /// What may have happened while nobody listened.
    assumed: VecDeque<Notification>,
    /// What the session follows, and the resources that it followed when the listen began.
    filter_at_start: Option<(LiveSubscriptionFilter, BTreeSet<String>)>,
}

impl SessionSubscription {
    pub(crate) fn new(scope: RequestExtensions) -> Self {
        SessionSubscription { scope, active: None, assumed: VecDeque::new(), filter_at_start: None }
    }

    /// The next message. What was heard until it waits for another need not be told again.
    pub(crate) async fn next(&mut self, session: &Session) -> Vec<u8> {
        loop {
            self.start(session);
            let Some((active_call, codec)) = &mut self.active else {
                // Whoever follows is told when the session stands otherwise.
                std::future::pending::<()>().await;
                continue;
            };
            let service = &session.common.context.service;
            let event = match self.assumed.pop_front() {
                Some(notification) => Event::Notify(notification),
                None => {
                    poll_fn(|cx| {
                        let now = service.moment();
                        let polled = active_call.poll_event(cx);
                        if let (Poll::Pending, Some(now)) = (&polled, now) {
                            session.connection().heard_until(now);
                        }
                        polled
                    })
                    .await
                }
            };
            let mut message = Vec::new();
            match event {
                Event::Notify(notification) if codec.notify(&notification, &mut message) => {
                    return message;
                }
                Event::ClientRequest(id, ask) => active_call.refuse(id, &ask),
                Event::Done(_) => {
                    self.active = None;
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                _ => {}
            }
        }
    }

    /// Begins the listen, if the client is ready for it; and again if it follows more than it did,
    /// because what it subscribed to elsewhere may have changed before this process knew.
    pub(crate) fn start(&mut self, session: &Session) {
        if self.active.is_some() && !self.has_filter_grown() {
            return;
        }
        let Some((mut request, codec)) = session.connection().listen_again() else { return };
        let context = &session.common.context;
        if context.service.moment().is_none()
            && let Some(filter) = &request.filter
        {
            // Who cannot look back must suppose that everything has changed.
            self.assumed = filter.read(all_changes);
        }
        let uris = |filter: &LiveSubscriptionFilter| filter.read(|filter| filter.uris.clone());
        self.filter_at_start = request.filter.clone().map(|filter| (filter.clone(), uris(&filter)));
        request.scope = self.scope.clone();
        let timer = context.timer.clone();
        let active_call = ActiveCall::start(&*context.service, request, timer, context.deadlines);
        self.active = Some((active_call, codec));
    }

    fn has_filter_grown(&self) -> bool {
        self.filter_at_start
            .as_ref()
            .is_some_and(|(now, before)| now.read(|filter| !filter.uris.is_subset(before)))
    }
}

/// All that a listener with this filter could be told.
fn all_changes(filter: &SubscriptionFilter) -> VecDeque<Notification> {
    use Notification::{PromptsChanged, ResourcesChanged, ToolsChanged};
    let lists = [ToolsChanged, PromptsChanged, ResourcesChanged];
    let updates =
        filter.uris.iter().map(|uri| Notification::ResourceUpdated { uri: (&**uri).into() });
    lists.into_iter().filter(|it| filter.wants(it)).chain(updates).collect()
}
