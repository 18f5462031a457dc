//! Handles a single message without a connection: notifications, then the reply.

use std::{
    collections::VecDeque,
    fmt,
    task::{Context, Poll},
};

#[cfg(feature = "http")]
use std::time::Duration;

#[cfg(feature = "http")]
use crate::Shutdown;
use wharf_model::Request;
use wharf_wire::Received;

use crate::{
    ServerContext,
    server::{
        call_driver::{CallDriver, CallStep, MessagesOnly},
        context::PendingNotification,
    },
};

/// Messages in response to a single message: its notifications, then its reply. A message without a
/// reply, such as a notification, yields nothing, and ends with its handler.
///
/// Dropping it cancels the call.
#[derive(Default)]
#[must_use = "a call makes progress only while it is polled"]
pub struct MessageReplies {
    calls: Vec<CallDriver>,
    /// Handlers of notifications that are pending. They have no reply.
    notifications: Vec<PendingNotification>,
    ready: VecDeque<ReplyMessage>,
    /// Replies to a batch so far, without the brackets.
    batch: Option<Vec<u8>>,
}

/// A message to the client.
#[derive(Debug)]
#[non_exhaustive]
pub struct ReplyMessage {
    /// Its bytes.
    pub message: Vec<u8>,
    /// True if this is the reply, the last message.
    pub end: bool,
}

impl MessageReplies {
    /// Starts the calls of the message; `prepare` is applied to each request first.
    pub fn start(
        context: &ServerContext,
        received: Received,
        prepare: &mut dyn FnMut(&mut Request),
    ) -> Self {
        let mut replies = MessageReplies::default();
        match received {
            Received::Batch(members) => {
                replies.batch = Some(Vec::new());
                members
                    .into_iter()
                    .for_each(|member| replies.start_received(context, member, prepare));
            }
            received => replies.start_received(context, received, prepare),
        }
        replies
    }

    fn start_received(
        &mut self,
        context: &ServerContext,
        received: Received,
        prepare: &mut dyn FnMut(&mut Request),
    ) {
        match received {
            Received::Call(mut request, codec) if !codec.is_silent() => {
                prepare(&mut request);
                self.calls.push(CallDriver::start(context, request, codec, false));
            }
            Received::Notify(mut request) => {
                prepare(&mut request);
                self.notifications.extend(context.start_notification(request));
            }
            Received::Reply(reply, ..) => self.reply(reply),
            // Without a connection, responses and cancellations have no target.
            _ => {}
        }
    }

    fn reply(&mut self, message: Vec<u8>) {
        match &mut self.batch {
            None => self.ready.push_back(ReplyMessage { message, end: true }),
            Some(replies) => {
                if !replies.is_empty() {
                    replies.push(b',');
                }
                replies.extend_from_slice(&message);
            }
        }
    }

    /// Polls one call. True if it has ended.
    fn poll_call(&mut self, index: usize, cx: &mut Context<'_>) -> bool {
        let call = &mut self.calls[index];
        let mut message = Vec::new();
        while let Poll::Ready(step) = call.poll_step(cx, &MessagesOnly, &mut message) {
            match step {
                CallStep::Message | CallStep::Change => {
                    self.ready.push_back(ReplyMessage { message, end: false });
                    return false;
                }
                CallStep::Nothing | CallStep::ConnectionMayClose => {}
                CallStep::Ended(outcome) => {
                    call.codec().encode(&outcome, &mut message);
                    self.reply(message);
                    return true;
                }
                CallStep::Cancelled => return true,
            }
        }
        false
    }

    /// Takes the pending handlers of notifications, to run them apart from the replies.
    #[cfg(feature = "http")]
    pub(crate) fn take_notifications(&mut self) -> Vec<PendingNotification> {
        std::mem::take(&mut self.notifications)
    }

    /// Ends all calls with an error once the server stops and `grace` is over.
    #[cfg(feature = "http")]
    pub(crate) fn end_early(&mut self, shutdown: &Shutdown, grace: Duration) {
        self.calls.iter_mut().for_each(|call| call.end_early(shutdown, grace, None));
    }

    /// Polls the next message to the client; `None` after the last.
    pub fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Option<ReplyMessage>> {
        let mut index = 0;
        while self.ready.is_empty() && index < self.calls.len() {
            if self.poll_call(index, cx) {
                self.calls.swap_remove(index);
            } else {
                index += 1;
            }
        }
        if let Some(message) = self.ready.pop_front() {
            return Poll::Ready(Some(message));
        }
        if !self.calls.is_empty() {
            return Poll::Pending;
        }
        let batch = self.batch.take().filter(|replies| !replies.is_empty());
        if let Some(replies) = batch {
            let message = [b"[", &*replies, b"]"].concat();
            return Poll::Ready(Some(ReplyMessage { message, end: true }));
        }
        self.notifications.retain_mut(|run| run.as_mut().poll(cx).is_pending());
        match self.notifications.is_empty() {
            true => Poll::Ready(None),
            false => Poll::Pending,
        }
    }
}

impl fmt::Debug for MessageReplies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageReplies").field("calls", &self.calls).finish_non_exhaustive()
    }
}
