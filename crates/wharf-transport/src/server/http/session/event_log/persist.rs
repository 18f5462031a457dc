//! The way of a stream into the store, where several processes serve its session.

use std::sync::Arc;

use crate::server::http::session::cluster::event_writer::Journal;
use crate::server::http::session::event_log::{Log, OVERHEAD, State, wake};

/// How far a stream is in the store.
#[derive(Default)]
pub(super) struct Storing {
    /// The number of the newest event that is there.
    pub(super) stored: u64,
    /// How many bytes the events after it take.
    pub(super) waiting: usize,
    /// Whether its end is there.
    pub(super) ended: bool,
    /// Whether somebody stores it right now.
    active: bool,
    /// Whether it is read through the store.
    pub(super) followed: bool,
}

/// What the store should have next.
pub(crate) struct Unstored {
    pub(crate) number: u64,
    /// Empty if the stream ends without a word.
    pub(crate) message: Vec<u8>,
    pub(crate) end: bool,
}

/// The way into the store, where several processes serve the session.
impl Log {
    pub(crate) fn journal(&self) -> Option<&Journal> {
        self.journal.as_deref()
    }

    /// From now on readers see only what the store has.
    pub(crate) fn begin_to_store(self: &Arc<Self>) {
        let mut state = self.lock();
        let (waiting, active) = (state.bytes, true);
        let newest = state.newest;
        // What was said and dropped before anybody could read it is as good as stored.
        let stored = newest - state.events.len() as u64;
        state.storing = Some(Storing { stored, waiting, active, ..Storing::default() });
        drop(state);
        if let Some(journal) = self.journal() {
            journal.run(self.clone());
        }
    }

    /// Stores what is there to be stored, unless somebody is at it.
    pub(super) fn store(self: &Arc<Self>) {
        let Some(journal) = self.journal() else { return };
        let mut state = self.lock();
        let forgotten = state.forgotten;
        let due = state.storing.as_mut().is_some_and(|it| !it.active && !it.ended && !forgotten);
        if let (true, Some(storing)) = (due, &mut state.storing) {
            storing.active = true;
            drop(state);
            journal.run(self.clone());
        }
    }

    /// What the store should have next. None if it has all, or needs no more.
    pub(crate) fn next_unstored(&self) -> Option<Unstored> {
        let mut state = self.lock();
        let State { events, newest, ended, forgotten, storing, .. } = &mut *state;
        let storing = storing.as_mut()?;
        let number = storing.stored + 1;
        if *forgotten || storing.ended || number > *newest && !*ended {
            storing.active = false;
            return None;
        }
        let index = events.len().checked_sub((*newest - storing.stored) as usize);
        let message = index.and_then(|index| events.get(index)).cloned().unwrap_or_default();
        Some(Unstored { number, message, end: *ended && number >= *newest })
    }

    /// The store has it: readers may. True if somebody reads it there.
    pub(crate) fn stored(self: &Arc<Self>, it: &Unstored) -> bool {
        let mut state = self.lock();
        let newest = state.newest;
        let Some(storing) = &mut state.storing else { return false };
        if it.number <= newest {
            storing.stored = it.number;
            storing.waiting = storing.waiting.saturating_sub(it.message.len() + OVERHEAD);
        }
        storing.ended |= it.end;
        let followed = storing.followed;
        self.bound(&mut state);
        if it.end {
            // It may be dropped from now on, if it could not be before.
            self.line_up(&mut state);
        }
        let waker = state.waker();
        drop(state);
        wake(waker);
        self.room.notify_waiters();
        if it.end {
            self.common.kept.make_room();
        }
        followed
    }

    /// Somebody reads the stream through the store from now on.
    pub(crate) fn follow_elsewhere(&self) {
        let mut state = self.lock();
        let Some(storing) = &mut state.storing else { return };
        storing.followed = true;
        let reader = state.reader.take();
        drop(state);
        self.part(reader);
    }

    /// Whether the store has all of it, and nobody reads it there.
    pub(crate) fn is_spare(&self) -> bool {
        let state = self.lock();
        state.storing.as_ref().is_none_or(|storing| storing.ended && !storing.followed)
    }

    /// Whether the stream was ended here and now.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().forgotten
    }
}
