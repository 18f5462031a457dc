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

use crate::server::http::cluster::LOOK;
use crate::server::http::session::session::Session;

/// What feeds a session's own stream for as long as somebody follows it.
pub(crate) struct Listening {
    scope: RequestExtensions,
    /// None while the client is not ready for it, or the service not willing.
    begun: Option<(ActiveCall, Codec)>,
    /// What may have happened while nobody listened.
    supposed: VecDeque<Notification>,
    /// What the session follows, and the resources that it followed when the listen began.
    followed: Option<(LiveSubscriptionFilter, BTreeSet<String>)>,
}

impl Listening {
    pub(crate) fn new(scope: RequestExtensions) -> Self {
        Listening { scope, begun: None, supposed: VecDeque::new(), followed: None }
    }

    /// The next message. What was heard until it waits for another need not be told again.
    pub(crate) async fn next(&mut self, session: &Session) -> Vec<u8> {
        loop {
            self.begin(session);
            let Some((exchange, codec)) = &mut self.begun else {
                // Whoever follows is told when the session stands otherwise.
                std::future::pending::<()>().await;
                continue;
            };
            let service = &session.common.host.service;
            let event = match self.supposed.pop_front() {
                Some(notification) => Event::Notify(notification),
                None => {
                    poll_fn(|cx| {
                        let now = service.moment();
                        let polled = exchange.poll_event(cx);
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
                Event::ClientRequest(id, ask) => exchange.refuse(id, &ask),
                Event::Done(_) => {
                    self.begun = None;
                    tokio::time::sleep(LOOK).await;
                }
                _ => {}
            }
        }
    }

    /// Begins the listen, if the client is ready for it; and again if it follows more than it did,
    /// because what it subscribed to elsewhere may have changed before this process knew.
    pub(crate) fn begin(&mut self, session: &Session) {
        if self.begun.is_some() && !self.follows_more() {
            return;
        }
        let Some((mut request, codec)) = session.connection().listen_again() else { return };
        let host = &session.common.host;
        if host.service.moment().is_none()
            && let Some(filter) = &request.filter
        {
            // Who cannot look back must suppose that everything has changed.
            self.supposed = filter.read(everything);
        }
        let uris = |filter: &LiveSubscriptionFilter| filter.read(|filter| filter.uris.clone());
        self.followed = request.filter.clone().map(|filter| (filter.clone(), uris(&filter)));
        request.scope = self.scope.clone();
        let timer = host.timer.clone();
        let exchange = ActiveCall::start(&*host.service, request, timer, host.deadlines);
        self.begun = Some((exchange, codec));
    }

    fn follows_more(&self) -> bool {
        self.followed
            .as_ref()
            .is_some_and(|(now, before)| now.read(|filter| !filter.uris.is_subset(before)))
    }
}

/// All that a listener with this filter could be told.
fn everything(filter: &SubscriptionFilter) -> VecDeque<Notification> {
    use Notification::{PromptsChanged, ResourcesChanged, ToolsChanged};
    let lists = [ToolsChanged, PromptsChanged, ResourcesChanged];
    let updates =
        filter.uris.iter().map(|uri| Notification::ResourceUpdated { uri: (&**uri).into() });
    lists.into_iter().filter(|it| filter.wants(it)).chain(updates).collect()
}
