//! A subscription that the proxy forwards, with a filter that may change.

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

use crate::{ClientHandle, proxy::progress_tokens::ProgressTokens};

/// Subscribes at the upstream server with the filter of the downstream client. When the filter
/// changes, a new subscription replaces the old one after its acknowledgement, so that no change is
/// missed in between.
pub(crate) struct ProxySubscription {
    caller: ClientHandle,
    /// Extensions of the downstream request, with its principal.
    scope: RequestExtensions,
    peer: Arc<Peer>,
    /// The filter of the downstream client.
    live: LiveSubscriptionFilter,
    /// Number of filter changes handled.
    edits: u64,
    /// Resources that the active subscription includes.
    subscribed_uris: BTreeSet<String>,
    active: ActiveCall,
    /// The subscription that will replace the active one.
    next: Option<ActiveCall>,
    /// Set once the downstream client has received the acknowledgement.
    acknowledged: bool,
    outbox: Outbox,
    tokens: Arc<ProgressTokens>,
}

enum SubscriptionEvent {
    Edited(u64),
    Active(Event),
    Next(Event),
}

impl ProxySubscription {
    pub(crate) fn new(
        caller: ClientHandle,
        request: &Request,
        live: LiveSubscriptionFilter,
        outbox: Outbox,
        tokens: Arc<ProgressTokens>,
    ) -> Self {
        let (scope, peer) = (request.scope.clone(), request.peer());
        let subscribed_uris = live.read(|filter| filter.uris.clone());
        let active = listen(&caller, &scope, &peer, &live);
        ProxySubscription {
            caller,
            scope,
            peer,
            live,
            edits: 0,
            subscribed_uris,
            active,
            next: None,
            acknowledged: false,
            outbox,
            tokens,
        }
    }

    /// Runs until the server ends the subscription.
    pub(crate) async fn run(mut self) -> Outcome {
        loop {
            match self.next_event().await {
                SubscriptionEvent::Edited(count) => {
                    self.edits = count;
                    self.next = Some(self.resubscribe());
                }
                SubscriptionEvent::Active(Event::Done(outcome)) => return outcome,
                SubscriptionEvent::Active(Event::Notify(notification)) => {
                    self.forward(notification).await
                }
                SubscriptionEvent::Active(_) => {}
                // The server rejected the changed filter: the old subscription stays.
                SubscriptionEvent::Next(Event::Done(Outcome::Failed(_))) => self.next = None,
                SubscriptionEvent::Next(Event::Done(outcome)) => return outcome,
                SubscriptionEvent::Next(Event::Notify(notification)) => {
                    self.switch_to_next();
                    self.forward(notification).await;
                }
                SubscriptionEvent::Next(_) => {}
            }
        }
    }

    async fn next_event(&mut self) -> SubscriptionEvent {
        let mut edited = pin!(self.live.edited(self.edits));
        poll_fn(|cx| {
            if let Poll::Ready(count) = edited.as_mut().poll(cx) {
                return Poll::Ready(SubscriptionEvent::Edited(count));
            }
            if let Some(Poll::Ready(event)) = self.next.as_mut().map(|next| next.poll_event(cx)) {
                return Poll::Ready(SubscriptionEvent::Next(event));
            }
            self.active.poll_event(cx).map(SubscriptionEvent::Active)
        })
        .await
    }

    async fn forward(&mut self, notification: Notification) {
        let again = matches!(notification, Notification::Acknowledged(_))
            && std::mem::replace(&mut self.acknowledged, true);
        let translated = self.tokens.translate(notification).filter(|_| !again);
        if let Some(notification) = translated {
            self.outbox.notify(notification);
            self.outbox.wait_for_capacity().await;
        }
    }

    fn resubscribe(&self) -> ActiveCall {
        listen(&self.caller, &self.scope, &self.peer, &self.live)
    }

    fn switch_to_next(&mut self) {
        let Some(next) = self.next.take() else { return };
        // Its remaining notifications precede those of the new subscription.
        let cx = &mut Context::from_waker(Waker::noop());
        while let Poll::Ready(Event::Notify(remaining)) = self.active.poll_event(cx) {
            self.tokens.translate(remaining).into_iter().for_each(|it| self.outbox.notify(it));
        }
        self.active = next;
        // The downstream client subscribed to these before the server did: they may have changed in
        // between.
        let promised = self.live.read(|filter| filter.uris.clone());
        for uri in promised.difference(&self.subscribed_uris) {
            self.outbox.notify(Notification::ResourceUpdated { uri: (&**uri).into() });
        }
        self.subscribed_uris = promised;
    }
}

/// Starts a subscription without deadlines; dropping it ends it.
fn listen(
    caller: &ClientHandle,
    scope: &RequestExtensions,
    peer: &Arc<Peer>,
    live: &LiveSubscriptionFilter,
) -> ActiveCall {
    let mut request = RequestBuilder::new(Method::Listen).build().from_peer(peer.clone());
    request.scope = scope.clone();
    let wanted = live.read(SubscriptionFilter::clone);
    if !wanted.tasks.is_empty() {
        request.tasking = TaskRequest::Welcome;
    }
    request.filter = Some(LiveSubscriptionFilter::new(wanted));
    let no_limits = Deadlines::NONE;
    caller.start_request(&*caller.transport(), request, no_limits)
}
