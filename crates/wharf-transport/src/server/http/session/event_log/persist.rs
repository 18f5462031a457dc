//! The way of a stream into the store, where several processes serve its session.

use std::sync::Arc;

use crate::server::http::session::cluster::event_writer::EventWriter;
use crate::server::http::session::event_log::{EVENT_OVERHEAD_BYTES, EventLog, LogState, wake};

/// How far a stream is in the store.
#[derive(Default)]
pub(super) struct PersistState {
    /// The number of the newest event that is there.
    pub(super) stored: u64,
    /// How many bytes the events after it take.
    pub(super) unstored_bytes: usize,
    /// Whether its end is there.
    pub(super) ended: bool,
    /// Whether somebody stores it right now.
    active: bool,
    /// Whether it is read through the store.
    pub(super) read_from_store: bool,
}

/// What the store should have next.
pub(crate) struct UnstoredEvent {
    pub(crate) number: u64,
    /// Empty if the stream ends without a word.
    pub(crate) message: Vec<u8>,
    pub(crate) end: bool,
}

/// The way into the store, where several processes serve the session.
impl EventLog {
    pub(crate) fn writer(&self) -> Option<&EventWriter> {
        self.writer.as_deref()
    }

    /// From now on readers see only what the store has.
    pub(crate) fn start_persisting(self: &Arc<Self>) {
        let mut state = self.lock();
        let (unstored_bytes, active) = (state.bytes, true);
        let newest = state.newest;
        // What was said and dropped before anybody could read it is as good as stored.
        let stored = newest - state.events.len() as u64;
        state.persist_state =
            Some(PersistState { stored, unstored_bytes, active, ..PersistState::default() });
        drop(state);
        if let Some(writer) = self.writer() {
            writer.run(self.clone());
        }
    }

    /// Stores what is there to be stored, unless somebody is at it.
    pub(super) fn persist_pending(self: &Arc<Self>) {
        let Some(writer) = self.writer() else { return };
        let mut state = self.lock();
        let discarded = state.discarded;
        let due =
            state.persist_state.as_mut().is_some_and(|it| !it.active && !it.ended && !discarded);
        if let (true, Some(persist_state)) = (due, &mut state.persist_state) {
            persist_state.active = true;
            drop(state);
            writer.run(self.clone());
        }
    }

    /// What the store should have next. None if it has all, or needs no more.
    pub(crate) fn next_unstored(&self) -> Option<UnstoredEvent> {
        let mut state = self.lock();
        let LogState { events, newest, ended, discarded, persist_state, .. } = &mut *state;
        let persist_state = persist_state.as_mut()?;
        let number = persist_state.stored + 1;
        if *discarded || persist_state.ended || number > *newest && !*ended {
            persist_state.active = false;
            return None;
        }
        let index = events.len().checked_sub((*newest - persist_state.stored) as usize);
        let message = index.and_then(|index| events.get(index)).cloned().unwrap_or_default();
        Some(UnstoredEvent { number, message, end: *ended && number >= *newest })
    }

    /// The store has it: readers may. True if somebody reads it there.
    pub(crate) fn mark_stored(self: &Arc<Self>, it: &UnstoredEvent) -> bool {
        let mut state = self.lock();
        let newest = state.newest;
        let Some(persist_state) = &mut state.persist_state else { return false };
        if it.number <= newest {
            persist_state.stored = it.number;
            persist_state.unstored_bytes = persist_state
                .unstored_bytes
                .saturating_sub(it.message.len() + EVENT_OVERHEAD_BYTES);
        }
        persist_state.ended |= it.end;
        let read_from_store = persist_state.read_from_store;
        self.trim_to_limits(&mut state);
        if it.end {
            // It may be dropped from now on, if it could not be before.
            self.enqueue_ended(&mut state);
        }
        let waker = state.waker();
        drop(state);
        wake(waker);
        self.room.notify_waiters();
        if it.end {
            self.common.replay_budget.reserve_for();
        }
        read_from_store
    }

    /// Somebody reads the stream through the store from now on.
    pub(crate) fn detach_for_store(&self) {
        let mut state = self.lock();
        let Some(persist_state) = &mut state.persist_state else { return };
        persist_state.read_from_store = true;
        let reader = state.reader.take();
        drop(state);
        self.notify_detached(reader);
    }

    /// Whether the store has all of it, and nobody reads it there.
    pub(crate) fn is_disposable(&self) -> bool {
        let state = self.lock();
        state
            .persist_state
            .as_ref()
            .is_none_or(|persist_state| persist_state.ended && !persist_state.read_from_store)
    }

    /// Whether the stream was ended here and now.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().discarded
    }
}
