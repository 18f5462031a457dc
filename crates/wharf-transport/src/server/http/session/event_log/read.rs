//! Functions of [`StreamReader`] that read its event log, and the position up to which it has read.

use std::{
    mem,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use crate::server::http::{
    response_body::MAX_CHUNK_BYTES,
    session::{
        event_log::{EVENT_OVERHEAD_BYTES, EventLog, LogReader, LogState, ReplyStatus, wake},
        idle_time::SessionGuard,
        stream_reader::StreamReader,
    },
};

/// First event of a stream.
pub(crate) enum FirstEvent {
    /// The reply, so that a stream is not needed.
    Reply(ReplyStatus),
    /// Another message, or the early end of the response.
    Message,
    /// The stream ended without a message.
    Nothing,
}

/// Result of a read.
pub(crate) enum ReadResult {
    /// Events were passed to the caller.
    Events,
    /// The connection is released; the client reads the rest when it resumes.
    Released,
    End,
}

impl StreamReader {
    /// Attaches to a stream where the last reader stopped. None if another reader is attached.
    pub(crate) fn attach(guard: SessionGuard, log: Arc<EventLog>) -> Option<Self> {
        let mut state = log.lock();
        let sent = state.sent;
        let ticket = state.reader.is_none().then(|| state.attach_reader(sent))?;
        drop(state);
        Some(StreamReader::new(guard, log, ticket))
    }

    /// Resumes the stream `number` after event `after`, and detaches the current reader. None if the event never
    /// existed or the stream was discarded.
    pub(crate) fn resume(guard: SessionGuard, number: u64, after: u64) -> Option<Self> {
        let log = guard.stream(number)?;
        let mut state = log.lock();
        if after > state.visible() || state.discarded {
            return None;
        }
        // The store may have events that were dropped here.
        if state.persist_state.is_some() && after + 1 < state.oldest() {
            return None;
        }
        if let Some(persist_state) = &mut state.persist_state {
            persist_state.read_from_store = false;
        }
        let reader = state.set_reader(None);
        let ticket = state.attach_reader(after);
        drop(state);
        log.notify_detached(reader);
        Some(StreamReader::new(guard, log, ticket))
    }

    /// Returns the number of the last event that this reader read.
    pub(crate) fn position(&self) -> u64 {
        self.log.lock().reader(self.ticket).map_or(0, |reader| reader.at)
    }

    /// Polls for the first event of the stream.
    pub(crate) fn poll_first(&self, cx: &mut Context<'_>) -> Poll<FirstEvent> {
        let mut state = self.log.lock();
        let (newest, ended, reply_status) = (state.newest, state.ended, state.reply_status.clone());
        let Some(reader) = state.reader(self.ticket) else {
            return Poll::Ready(FirstEvent::Nothing);
        };
        match (newest, reply_status) {
            (1, Some(reply_status)) => Poll::Ready(FirstEvent::Reply(reply_status)),
            (1.., ..) => Poll::Ready(FirstEvent::Message),
            _ if reader.release_after.is_some() => Poll::Ready(FirstEvent::Message),
            _ if ended => Poll::Ready(FirstEvent::Nothing),
            _ => {
                reader.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Takes the newest message, the reply, which is sent as JSON and cannot be resumed.
    pub(crate) fn take_reply(&self) -> Vec<u8> {
        self.log.lock().events.back_mut().map(mem::take).unwrap_or_default()
    }

    /// Passes unread events to `write`, up to the size of one chunk.
    pub(crate) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        mut write: impl FnMut(u64, &[u8]),
    ) -> Poll<ReadResult> {
        let mut state = self.log.lock();
        let visible = state.visible();
        let LogState { events, newest, sent, ended, reader, .. } = &mut *state;
        let Some(reader) = reader.as_mut().filter(|reader| reader.ticket == self.ticket) else {
            return Poll::Ready(ReadResult::End);
        };
        let until =
            reader.release_after.map_or(visible, |release_after| release_after.min(visible));
        if reader.at < until {
            let first = events.len() - (*newest - reader.at) as usize;
            let mut size = 0;
            for event in events.range(first..).take((until - reader.at) as usize) {
                reader.at += 1;
                write(reader.at, event);
                size += event.len() + EVENT_OVERHEAD_BYTES;
                if size >= MAX_CHUNK_BYTES {
                    break;
                }
            }
            reader.unread -= size;
            *sent = reader.at.max(*sent);
            drop(state);
            self.log.room.notify_waiters();
            return Poll::Ready(ReadResult::Events);
        }
        if reader.release_after.is_some_and(|release_after| release_after <= reader.at) {
            return Poll::Ready(ReadResult::Released);
        }
        if *ended && visible == *newest {
            return Poll::Ready(ReadResult::End);
        }
        reader.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// Detaches the reader.
impl Drop for StreamReader {
    fn drop(&mut self) {
        let mut state = self.log.lock();
        if state.reader(self.ticket).is_some() {
            state.set_reader(None);
            self.log.trim_to_limits(&mut state);
            self.log.enqueue_ended(&mut state);
            drop(state);
            self.log.room.notify_waiters();
        }
    }
}

impl EventLog {
    /// Wakes a reader that was detached, and the calls that waited for it.
    pub(super) fn notify_detached(&self, reader: Option<LogReader>) {
        wake(reader.and_then(|reader| reader.waker));
        self.room.notify_waiters();
    }
}

impl LogState {
    /// Takes the reader that has fallen behind. A reader that waits for the store is not behind.
    pub(super) fn late_reader(&mut self) -> Option<LogReader> {
        let visible = self.visible();
        let is_late = self.reader.as_ref().is_some_and(|reader| reader.at < visible);
        if is_late { self.set_reader(None) } else { None }
    }

    /// Replaces the reader. Returns the one before.
    pub(super) fn set_reader(&mut self, reader: Option<LogReader>) -> Option<LogReader> {
        self.share.set_read(reader.is_some());
        mem::replace(&mut self.reader, reader)
    }

    fn reader(&mut self, ticket: u64) -> Option<&mut LogReader> {
        self.reader.as_mut().filter(|reader| reader.ticket == ticket)
    }

    /// Takes the waker of the reader.
    pub(super) fn waker(&mut self) -> Option<Waker> {
        self.reader.as_mut()?.waker.take()
    }

    /// Attaches a reader that has read everything up to event `at`. Returns its ticket.
    pub(super) fn attach_reader(&mut self, at: u64) -> u64 {
        // Dropped events cannot be read.
        let at = at.max(self.oldest() - 1);
        let left = (self.newest - at) as usize;
        let unread = self
            .events
            .iter()
            .rev()
            .take(left)
            .map(|event| event.len() + EVENT_OVERHEAD_BYTES)
            .sum();
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        self.set_reader(Some(LogReader { ticket, at, unread, release_after: None, waker: None }));
        ticket
    }
}
