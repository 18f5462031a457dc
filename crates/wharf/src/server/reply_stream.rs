//! Stream of the notifications and the reply to one message.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use futures_core::Stream;

/// Stream of the notifications of one message, then its reply. It is empty for a message without a
/// reply, such as a notification.
///
/// Dropping it cancels the call.
#[derive(Debug, Default)]
#[must_use = "a call makes progress only while its stream is polled"]
pub struct ReplyStream(pub(crate) wharf_transport::MessageReplies);

impl Stream for ReplyStream {
    type Item = Vec<u8>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        self.0.poll_message(cx).map(|said| said.map(|said| said.message))
    }
}
