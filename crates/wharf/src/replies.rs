//! One message in, its notifications and its reply out, without a connection.

use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll},
};

use futures_core::Stream;
use wharf_model::{Error, Event, Exchange, Request};
use wharf_transport::Host;
use wharf_wire::{Codec, Received};

/// What comes of one message: its notifications, then its reply. A message without a reply, such
/// as a notification, gives an empty stream.
///
/// Dropping it cancels the call.
#[derive(Debug, Default)]
#[must_use = "a call makes progress only while its stream is polled"]
pub struct Replies {
    calls: Vec<(Exchange, Codec)>,
    ready: VecDeque<Vec<u8>>,
    /// The replies to a batch so far, without the brackets.
    batch: Option<Vec<u8>>,
}

impl Replies {
    pub(crate) fn start(
        host: &Host,
        received: Received,
        prepare: &mut dyn FnMut(&mut Request),
    ) -> Self {
        let mut replies = Replies::default();
        match received {
            Received::Batch(members) => {
                replies.batch = Some(Vec::new());
                members.into_iter().for_each(|member| replies.take(host, member, prepare));
            }
            received => replies.take(host, received, prepare),
        }
        replies
    }

    fn take(&mut self, host: &Host, received: Received, prepare: &mut dyn FnMut(&mut Request)) {
        match received {
            Received::Call(mut request, codec) if !codec.is_silent() => {
                prepare(&mut request);
                let timer = host.timer.clone();
                let exchange = Exchange::start(&*host.service, request, timer, host.deadlines);
                self.calls.push((exchange, codec));
            }
            Received::Reply(reply, _) => self.reply(reply),
            // Without a connection there is nothing that could be answered or cancelled.
            _ => {}
        }
    }

    /// Whether a call would go on for as long as somebody listens.
    pub(crate) fn has_listen(&self) -> bool {
        self.calls.iter().any(|(_, codec)| codec.is_listen())
    }

    /// Ends every listen with an error.
    pub(crate) fn refuse_listens(&mut self, error: &Error) {
        let (listens, calls) =
            std::mem::take(&mut self.calls).into_iter().partition(|(_, codec)| codec.is_listen());
        self.calls = calls;
        let listens: Vec<(Exchange, Codec)> = listens;
        for (_, codec) in listens {
            let mut reply = Vec::new();
            codec.refuse(error, &mut reply);
            self.reply(reply);
        }
    }

    fn reply(&mut self, reply: Vec<u8>) {
        match &mut self.batch {
            None => self.ready.push_back(reply),
            Some(replies) => {
                if !replies.is_empty() {
                    replies.push(b',');
                }
                replies.extend_from_slice(&reply);
            }
        }
    }

    /// Polls one call once. True if it has come to its end.
    fn poll_call(&mut self, index: usize, cx: &mut Context<'_>) -> bool {
        let (exchange, codec) = &mut self.calls[index];
        while let Poll::Ready(event) = exchange.poll_event(cx) {
            match event {
                Event::Notify(notification) => {
                    let mut message = Vec::new();
                    if codec.notify(&notification, &mut message) {
                        self.ready.push_back(message);
                        return false;
                    }
                }
                Event::Ask(id, ask) => {
                    // A question cannot reach a client that is not there to be asked.
                    let error = Error::missing_capability(ask.needs());
                    exchange.answers().deliver(id, Err(error));
                }
                Event::Withdraw(_) => {}
                Event::Done(outcome) => {
                    let mut message = Vec::new();
                    codec.encode(&outcome, &mut message);
                    self.reply(message);
                    return true;
                }
            }
        }
        false
    }
}

impl Stream for Replies {
    type Item = Vec<u8>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
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
        Poll::Ready(batch.map(|replies| [b"[", &*replies, b"]"].concat()))
    }
}
