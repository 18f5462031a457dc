//! A listen that is passed on, while what it wants may change.

use std::{
    collections::BTreeSet,
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use wharf_model::{
    ActiveCall, Deadlines, Event, LiveSubscriptionFilter, Method, Notification, Outbox, Outcome,
    Peer, Request, RequestBuilder, RequestExtensions, SubscriptionFilter, TaskRequest,
};

use crate::{ClientTransport, proxy::progress_tokens::ProgressTokens};

/// Listens at the back to what the front wants to hear. When that changes, another listen takes
/// over once it is agreed on, so that nothing is missed in between.
pub(crate) struct ProxySubscription {
    link: Arc<dyn ClientTransport>,
    /// Who listens.
    scope: RequestExtensions,
    peer: Arc<Peer>,
    /// What the front wants to hear.
    live: LiveSubscriptionFilter,
    /// How many changes of it were seen.
    edits: u64,
    /// The resources that the back was asked about.
    followed: BTreeSet<String>,
    heard: ActiveCall,
    /// What takes over.
    next: Option<ActiveCall>,
    /// Whether the front was told that the listen has begun.
    begun: bool,
    outbox: Outbox,
    tokens: Arc<ProgressTokens>,
}

enum SubscriptionEvent {
    Edited(u64),
    Heard(Event),
    Next(Event),
}

impl ProxySubscription {
    pub(crate) fn new(
        link: Arc<dyn ClientTransport>,
        request: &Request,
        live: LiveSubscriptionFilter,
        outbox: Outbox,
        tokens: Arc<ProgressTokens>,
    ) -> Self {
        let (scope, peer) = (request.scope.clone(), request.peer());
        let followed = live.read(|filter| filter.uris.clone());
        let heard = listen(&*link, &scope, &peer, &live, &outbox);
        ProxySubscription {
            link,
            scope,
            peer,
            live,
            edits: 0,
            followed,
            heard,
            next: None,
            begun: false,
            outbox,
            tokens,
        }
    }

    /// Until the back ends it.
    pub(crate) async fn run(mut self) -> Outcome {
        loop {
            match self.whichever().await {
                SubscriptionEvent::Edited(count) => {
                    self.edits = count;
                    self.next = Some(self.listen_anew());
                }
                SubscriptionEvent::Heard(Event::Done(outcome)) => return outcome,
                SubscriptionEvent::Heard(Event::Notify(notification)) => self.tell(notification).await,
                SubscriptionEvent::Heard(_) => {}
                // What the back refuses, the front goes without.
                SubscriptionEvent::Next(Event::Done(Outcome::Failed(_))) => self.next = None,
                SubscriptionEvent::Next(Event::Done(outcome)) => return outcome,
                SubscriptionEvent::Next(Event::Notify(notification)) => {
                    self.take_over();
                    self.tell(notification).await;
                }
                SubscriptionEvent::Next(_) => {}
            }
        }
    }

    async fn whichever(&mut self) -> SubscriptionEvent {
        let mut edited = pin!(self.live.edited(self.edits));
        poll_fn(|cx| {
            if let Poll::Ready(count) = edited.as_mut().poll(cx) {
                return Poll::Ready(SubscriptionEvent::Edited(count));
            }
            if let Some(Poll::Ready(event)) = self.next.as_mut().map(|next| next.poll_event(cx)) {
                return Poll::Ready(SubscriptionEvent::Next(event));
            }
            self.heard.poll_event(cx).map(SubscriptionEvent::Heard)
        })
        .await
    }

    async fn tell(&mut self, notification: Notification) {
        let again = matches!(notification, Notification::Acknowledged(_))
            && std::mem::replace(&mut self.begun, true);
        let said = self.tokens.translate(notification).filter(|_| !again);
        if let Some(notification) = said {
            self.outbox.notify(notification);
            self.outbox.room().await;
        }
    }

    fn listen_anew(&self) -> ActiveCall {
        listen(&*self.link, &self.scope, &self.peer, &self.live, &self.outbox)
    }

    fn take_over(&mut self) {
        let Some(next) = self.next.take() else { return };
        // What it still has to say was said before the other one began.
        let cx = &mut Context::from_waker(Waker::noop());
        while let Poll::Ready(Event::Notify(unheard)) = self.heard.poll_event(cx) {
            self.tokens.translate(unheard).into_iter().for_each(|said| self.outbox.notify(said));
        }
        self.heard = next;
        // The front was promised these before the back knew of them.
        let promised = self.live.read(|filter| filter.uris.clone());
        for uri in promised.difference(&self.followed) {
            self.outbox.notify(Notification::ResourceUpdated { uri: (&**uri).into() });
        }
        self.followed = promised;
    }
}

/// A listen that lasts until it is dropped.
fn listen(
    link: &dyn ClientTransport,
    scope: &RequestExtensions,
    peer: &Arc<Peer>,
    live: &LiveSubscriptionFilter,
    outbox: &Outbox,
) -> ActiveCall {
    let mut request = RequestBuilder::new(Method::Listen).build().from_peer(peer.clone());
    request.scope = scope.clone();
    let wanted = live.read(SubscriptionFilter::clone);
    if !wanted.tasks.is_empty() {
        request.tasking = TaskRequest::Welcome;
    }
    request.filter = Some(LiveSubscriptionFilter::new(wanted));
    let endless = Deadlines { idle: None, total: None };
    ActiveCall::start(link, request, outbox.timer().clone(), endless)
}
