//! Time and memory of a partially received message, on every connection but stdio.

use std::time::Duration;

use tokio::io::AsyncWrite;
use wharf_model::{BudgetFull, Error, ErrorKind, RefusalReason};

use crate::server::{
    admission::overloaded,
    jsonl::reader::{LineReader, MIN_BUFFER_ROOM_BYTES},
    limits::{message_memory::PartialCharge, read_timeout::time_for},
};

/// State of a partially received message.
#[derive(Default)]
pub(super) struct PartialLine {
    /// Remaining time for its next bytes; `None` before the first wait.
    pub(super) left: Option<Duration>,
    pub(super) charge: Option<PartialCharge>,
}

impl<W: AsyncWrite + Unpin> LineReader<W> {
    /// Timeout for the next bytes of a partially received message.
    pub(super) fn read_timeout(&self) -> Option<Duration> {
        self.budget.as_ref()?;
        if self.lines.is_between() {
            return None;
        }
        let left = self.partial.as_ref().and_then(|partial| partial.left);
        Some(left.unwrap_or(self.shared.context.limits.arrival))
    }

    /// Extends the timeout for the `size` bytes that arrived, up to its initial value. A fast start
    /// therefore does not allow a longer pause.
    pub(super) fn extend_timeout(&mut self, size: usize) {
        if let Some(left) = self.partial.as_mut().and_then(|partial| partial.left.as_mut()) {
            *left = left.saturating_add(time_for(size)).min(self.shared.context.limits.arrival);
        }
    }

    /// Charges a partially received message to the budget. If the budget is used up, the message is
    /// dropped.
    pub(super) async fn count_partial(&mut self) {
        let Some(budget) = &self.budget else { return };
        let length = self.lines.buffer().len();
        if length <= MIN_BUFFER_ROOM_BYTES {
            return;
        }
        let partial = self.partial.get_or_insert_default();
        let counted = match &mut partial.charge {
            Some(charge) => charge.grow_to(length, &self.scope),
            None => PartialCharge::new(budget, length, &self.scope)
                .map(|charge| partial.charge = Some(charge)),
        };
        match counted {
            // Decoded alone when it is complete, so that its memory is charged to its own call.
            Ok(()) => self.read_ahead_limit = 1,
            Err(BudgetFull) => {
                partial.charge = None;
                self.lines.abandon();
                self.refuse(RefusalReason::MessageMemory, &no_memory()).await;
            }
        }
    }

    pub(super) async fn too_slow(&mut self) {
        let read_timeout = self.shared.context.limits.arrival;
        let problem = format!(
            "The message took too long to arrive: send it within {read_timeout:?}, plus its length at \
             64 KiB per second"
        );
        self.shared.observed.fail("timeout");
        let error = Error::new(ErrorKind::InvalidRequest).with_message(problem);
        self.refuse(RefusalReason::RequestTimeout, &error).await;
    }
}

/// Error for a message that exceeds the memory budget.
fn no_memory() -> Error {
    overloaded().with_message(
        "The server is full: it has no memory for a message of this length now. Try again later",
    )
}
