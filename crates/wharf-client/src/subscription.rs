//! [`Subscription`]: a stream of change notifications.

use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_core::Stream;
use wharf_model::{
    ActiveCall, Deadlines, Error, ErrorKind, Event, FailureOrigin, LiveSubscriptionFilter, Method,
    Notification, Outcome, SubscriptionFilter, TaskRequest, TimeoutKind,
};

use crate::{
    CallError, ClientHandle,
    cache::server_state::ServerState,
    call::{
        events::{MAX_EVENTS_PER_POLL, refuse_here},
        request::CallSpec,
        total_timeout,
    },
};

/// A stream of change notifications. It ends when the server ends the subscription, and with an
/// error when the connection is lost. Dropping it unsubscribes.
///
/// ```
/// # mod wharf { pub use {wharf_client::ClientHandle as Client, wharf_model::{SubscriptionFilter, Error}}; pub mod model { pub use super::*; } }
/// # async fn example(client: wharf::Client) -> Result<(), wharf::Error> {
/// let mut changes = client.listen(wharf::model::SubscriptionFilter::default().tools(true)).await?;
/// while let Some(change) = changes.next().await {
///     println!("{:?}", change?);
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "the stream does nothing unless polled"]
pub struct Subscription {
    active_call: Option<ActiveCall>,
    server_state: Arc<ServerState>,
    /// The transport passes notifications of extensions to its listener, and so to the handler.
    listener_gets_custom: bool,
    agreed: SubscriptionFilter,
    /// Events handled without returning `Pending`.
    events_in_a_row: usize,
}

impl Subscription {
    pub(crate) async fn begin(
        caller: &ClientHandle,
        filter: SubscriptionFilter,
    ) -> Result<Self, Error> {
        let mut request =
            CallSpec::new(Method::Listen).build(None).from_peer(caller.peer().clone());
        request.scope = caller.transport().scope();
        if !filter.tasks.is_empty() {
            request.tasking = TaskRequest::Welcome;
        }
        request.filter = Some(LiveSubscriptionFilter::new(filter));
        // The caller decides how long the subscription lasts.
        let deadlines = Deadlines::NONE;
        let transport = caller.transport();
        let active_call = caller.start_request(&*transport, request, deadlines).for_caller();
        let (active_call, server_state) = (Some(active_call), caller.server_state().clone());
        let listener_gets_custom = transport.has_listeners();
        let mut subscription = Subscription {
            active_call,
            server_state,
            listener_gets_custom,
            agreed: SubscriptionFilter::default(),
            events_in_a_row: 0,
        };
        let acknowledged = subscription.acknowledged();
        let idle = caller.options().idle;
        subscription.agreed =
            total_timeout::within(caller.timer(), idle, (TimeoutKind::Idle, "idle"), acknowledged)
                .await?;
        Ok(subscription)
    }

    /// The filter that the server acknowledged.
    #[must_use]
    pub fn agreed(&self) -> &SubscriptionFilter {
        &self.agreed
    }

    /// The next notification; `None` after the server ended the subscription.
    pub async fn next(&mut self) -> Option<Result<Notification, CallError>> {
        poll_fn(|cx| self.poll_change(cx)).await
    }

    async fn acknowledged(&mut self) -> Result<SubscriptionFilter, Error> {
        loop {
            match poll_fn(|cx| self.poll_event(cx)).await {
                // Changes before the acknowledgement are dropped: the subscriber has not read any
                // state yet.
                Some(Ok(Notification::Acknowledged(agreed))) => return Ok(agreed),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => {
                    let message = "The server ended the subscription before it acknowledged it";
                    let error = Error::new(ErrorKind::ValidationFailed).with_message(message);
                    return Err(error.from_client(FailureOrigin::Protocol));
                }
            }
        }
    }

    fn poll_change(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Notification, CallError>>> {
        loop {
            let event = std::task::ready!(self.poll_event(cx));
            let is_none_of_ours = matches!(
                event,
                Some(Ok(Notification::Acknowledged(_) | Notification::Progress { .. }))
            );
            if !is_none_of_ours {
                return Poll::Ready(event.map(|event| event.map_err(CallError::of_outcome)));
            }
        }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Notification, Error>>> {
        let Some(active_call) = &mut self.active_call else { return Poll::Ready(None) };
        loop {
            if self.events_in_a_row >= MAX_EVENTS_PER_POLL {
                self.events_in_a_row = 0;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.events_in_a_row += 1;
            let Poll::Ready(event) = active_call.poll_event(cx) else {
                self.events_in_a_row = 0;
                return Poll::Pending;
            };
            match event {
                Event::Notify(notification) => {
                    let is_custom = matches!(notification, Notification::Custom(_));
                    if !(is_custom && self.listener_gets_custom) {
                        self.server_state.on_notification(&notification);
                    }
                    return Poll::Ready(Some(Ok(notification)));
                }
                Event::ClientRequest(id, ask) => {
                    active_call.response_sender().deliver(id, Err(refuse_here(&ask)));
                }
                Event::Withdraw(_) | Event::ConnectionMayClose => {}
                Event::Done(outcome) => {
                    self.active_call = None;
                    return Poll::Ready(match outcome {
                        Outcome::Complete(_) => None,
                        Outcome::Failed(error) => Some(Err(*error)),
                        _ => Some(Err(crate::call::result::unexpected())),
                    });
                }
            }
        }
    }
}

impl Stream for Subscription {
    type Item = Result<Notification, CallError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_change(cx)
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("agreed", &self.agreed).finish_non_exhaustive()
    }
}
