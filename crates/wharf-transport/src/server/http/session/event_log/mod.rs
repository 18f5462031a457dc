//! Event log of one stream: the events kept for replay (resumability), and the position of its reader.

mod persist;
mod read;

use std::{
    collections::VecDeque,
    pin::pin,
    sync::{Arc, MutexGuard, Weak},
    task::Waker,
};

use tokio::{sync::Notify, time::timeout};
use wharf_model::{Caller, Error, Lock};

use crate::server::http::session::{
    cluster::event_writer::EventWriter,
    event_log::persist::PersistState,
    live_session::{Session, SessionContext},
    replay_budget::ReplayShare,
};

pub(crate) use crate::server::http::session::event_log::{
    persist::UnstoredEvent,
    read::{FirstEvent, ReadResult},
};

/// Memory of an event beside its message: its entry in the queue, which may have as many free ones, the
/// overhead of the allocator, and unused capacity that is not released.
const EVENT_OVERHEAD_BYTES: usize = 128;
/// Unused capacity of a message that is not worth releasing, in bytes.
const MAX_UNUSED_BYTES: usize = 64;
/// Largest number of expired streams that are discarded when a stream ends. The rest is left to the table of sessions.
const MAX_EXPIRED_AT_ONCE: usize = 4;
/// Memory of a stream beside its events.
const STREAM_OVERHEAD_BYTES: usize = 512;

/// One stream of a session. Its events are numbered from 1.
pub(crate) struct EventLog {
    pub(crate) number: u64,
    common: Arc<SessionContext>,
    state: Lock<LogState>,
    room: Notify,
    /// Writes events to the store before they are sent, where several processes serve the session.
    writer: Option<Box<EventWriter>>,
    /// The session that keeps this log among its call streams.
    session: Weak<Session>,
}

struct LogState {
    /// The newest events.
    events: VecDeque<Vec<u8>>,
    /// Size of the events, with their overhead.
    bytes: usize,
    /// Part of the replay budget that this stream takes.
    share: ReplayShare,
    /// True if the caller's open streams exceeded their share of the replay budget when this one last changed.
    is_over_share: bool,
    /// Number of the newest event.
    newest: u64,
    /// Number of the newest event that was read.
    sent: u64,
    reader: Option<LogReader>,
    last_ticket: u64,
    ended: bool,
    reply_status: Option<ReplyStatus>,
    /// True once the events have been dropped.
    discarded: bool,
    /// Progress in the store, once the stream is persisted.
    persist_state: Option<PersistState>,
}

/// Position of the reader that is attached.
struct LogReader {
    ticket: u64,
    /// Number of the last event that was read.
    at: u64,
    /// Size of the events after it.
    unread: usize,
    /// Event after which the response ends although the stream goes on.
    release_after: Option<u64>,
    waker: Option<Waker>,
}

/// HTTP status of a reply that is the only message of its stream.
#[derive(Clone, Debug)]
pub(crate) struct ReplyStatus {
    pub(crate) status: u16,
    /// Error of a rejected call, for headers such as `Retry-After`.
    pub(crate) refused: Option<Box<Error>>,
}

impl EventLog {
    pub(crate) fn new(
        number: u64,
        common: Arc<SessionContext>,
        caller: &Caller,
        writer: Option<EventWriter>,
        session: Weak<Session>,
    ) -> Arc<Self> {
        let state = Lock::new(LogState::new(common.replay_budget.share(caller)));
        let (room, writer) = (Notify::new(), writer.map(Box::new));
        Arc::new(EventLog { number, common, state, room, writer, session })
    }

    /// Appends a message. Waits first while the reader has too much unread (back-pressure).
    pub(crate) async fn send(self: &Arc<Self>, message: &[u8]) {
        if !self.has_room() {
            // Boxed: few calls wait, and the others would carry the memory of this future.
            Box::pin(self.wait_for_room()).await;
        }
        self.push(message.to_vec());
    }

    /// Waits for the reader. Detaches a reader that makes no progress within the write timeout.
    async fn wait_for_room(&self) {
        while !self.has_room() {
            let mut room = pin!(self.room.notified());
            room.as_mut().enable();
            if self.has_room() {
                break;
            }
            if timeout(self.common.limits.write, room).await.is_err() {
                let reader = self.lock().late_reader();
                self.notify_detached(reader);
            }
        }
    }

    fn has_room(&self) -> bool {
        // Half of the limit: the other half may be in the buffers of the connection.
        let most = self.common.context.limits.output.div_ceil(2);
        let state = self.lock();
        // Beyond the caller's share of the replay budget, its readers still get every event, one at a time.
        let unread = if state.is_over_share { 1 } else { most };
        state.reader.as_ref().is_none_or(|reader| reader.unread < unread)
            && state
                .persist_state
                .as_ref()
                .is_none_or(|persist_state| persist_state.unstored_bytes < most)
    }

    /// Returns true if an equal message is still unread.
    pub(crate) fn has_unread(&self, message: &[u8]) -> bool {
        let state = self.lock();
        let unread = (state.newest - state.sent) as usize;
        let same = |event: &Vec<u8>| event == message;
        state.persist_state.is_none() && state.events.iter().rev().take(unread).any(same)
    }

    /// Appends a message, even without room.
    pub(crate) fn push(self: &Arc<Self>, message: Vec<u8>) {
        let mut state = self.lock();
        self.append(&mut state, message);
        if state.is_over_share {
            let least = usize::from(state.ended || state.reader.is_some());
            state.trim(least, 0, 0);
        }
        let waker = state.waker();
        drop(state);
        wake(waker);
        self.persist_pending();
        self.make_room();
    }

    fn append(&self, state: &mut LogState, mut message: Vec<u8>) {
        if state.ended {
            return;
        }
        if message.capacity() - message.len() > MAX_UNUSED_BYTES {
            message.shrink_to_fit();
        }
        let size = message.len() + EVENT_OVERHEAD_BYTES;
        state.events.push_back(message);
        state.newest += 1;
        state.bytes += size;
        self.trim_to_limits(state);
        if let Some(reader) = &mut state.reader {
            reader.unread += size;
        }
        if let Some(persist_state) = &mut state.persist_state {
            persist_state.unstored_bytes += size;
        }
    }

    /// Drops events beyond the replay limits.
    fn trim_to_limits(&self, state: &mut LogState) {
        // The newest event is kept, because the client may wait for it.
        state.trim(1, self.common.limits.replay_events, self.common.limits.replay_bytes);
    }

    /// Ends the stream, with a reply if there is one.
    pub(crate) fn end(self: &Arc<Self>, reply: Option<(Vec<u8>, ReplyStatus)>) {
        let mut state = self.lock();
        if let Some((message, reply_status)) = reply {
            state.reply_status = Some(reply_status);
            self.append(&mut state, message);
        }
        state.ended = true;
        self.enqueue_ended(&mut state);
        let waker = state.waker();
        drop(state);
        wake(waker);
        self.persist_pending();
        self.common.replay_budget.expire(self.common.now(), MAX_EXPIRED_AT_ONCE);
        self.make_room();
    }

    /// Discards ended streams if the replay budget is used up. Must be called without the lock.
    fn make_room(&self) {
        if self.common.replay_budget.is_full() {
            let position = self.lock().share.position();
            self.common.replay_budget.make_room(position, self.common.now());
        }
    }

    /// Ends the response after the events so far. The stream goes on.
    pub(crate) fn release_connection(&self) {
        let mut state = self.lock();
        let newest = state.newest;
        let Some(reader) = &mut state.reader else { return };
        reader.release_after.get_or_insert(newest);
        let waker = state.waker();
        drop(state);
        wake(waker);
    }

    /// Ends the stream and drops its events, because the session has ended.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.ended = true;
        state.clear();
        let reader = state.set_reader(None);
        drop(state);
        self.notify_detached(reader);
    }

    /// Drops the events of an ended stream that was removed from the queue, unless it is not yet stored, or being
    /// read and not to be detached from its reader.
    pub(crate) fn discard(&self, even_if_read: bool) {
        let mut state = self.lock();
        state.share.dequeue();
        let is_stored =
            state.persist_state.as_ref().is_none_or(|persist_state| persist_state.ended);
        if is_stored && (even_if_read || state.reader.is_none()) {
            let reader = state.set_reader(None);
            state.clear();
            drop(state);
            self.notify_detached(reader);
            // The copy in the store expires by its TTL.
            if let Some(session) = self.session.upgrade() {
                session.release_stream(self.number);
            }
        } else {
            state.charge();
        }
    }

    fn enqueue_ended(self: &Arc<Self>, state: &mut LogState) {
        if state.ended && !state.discarded && state.share.position().is_none() {
            let is_read = state.reader.is_some();
            state.share.enqueue(Arc::downgrade(self), is_read, self.common.now());
        }
    }

    fn lock(&self) -> MutexGuard<'_, LogState> {
        self.state.lock()
    }
}

impl LogState {
    fn new(share: ReplayShare) -> Self {
        let mut state = LogState {
            events: VecDeque::new(),
            bytes: 0,
            share,
            is_over_share: false,
            newest: 0,
            sent: 0,
            reader: None,
            last_ticket: 0,
            ended: false,
            reply_status: None,
            discarded: false,
            persist_state: None,
        };
        state.charge();
        state
    }

    /// Updates the part of the replay budget that this stream takes.
    fn charge(&mut self) {
        self.is_over_share = self.share.resize(STREAM_OVERHEAD_BYTES + self.bytes);
    }

    /// Drops the oldest events beyond `events` and `bytes`. Keeps events that are unread or not stored, and the
    /// newest `least`.
    fn trim(&mut self, least: usize, events: usize, bytes: usize) {
        while self.events.len() > least && (self.events.len() > events || self.bytes > bytes) {
            let oldest = self.oldest();
            if self.reader.as_ref().is_some_and(|reader| reader.at < oldest)
                || self.visible() < oldest
            {
                break;
            }
            let dropped = self.events.pop_front().unwrap_or_default();
            self.bytes -= dropped.len() + EVENT_OVERHEAD_BYTES;
        }
        if self.events.capacity() > 4 * self.events.len() + 16 {
            self.events.shrink_to(2 * self.events.len());
        }
        self.charge();
    }

    /// Drops all events.
    fn clear(&mut self) {
        self.discarded = true;
        (self.events, self.bytes) = (VecDeque::new(), 0);
        self.charge();
    }

    /// Number of the newest event that may be read: a persisted stream shows only stored events.
    fn visible(&self) -> u64 {
        self.persist_state.as_ref().map_or(self.newest, |persist_state| persist_state.stored)
    }

    /// Number of the oldest event in the log.
    fn oldest(&self) -> u64 {
        self.newest + 1 - self.events.len() as u64
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
