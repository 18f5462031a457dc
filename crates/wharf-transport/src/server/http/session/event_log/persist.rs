//! Persistence of a stream: the part of the event log that tracks which events the store has.

use std::sync::Arc;

use crate::server::http::session::{
    cluster::event_writer::EventWriter,
    event_log::{EVENT_OVERHEAD_BYTES, EventLog, LogState, wake},
};

/// Progress of a stream in the store.
#[derive(Default)]
pub(super) struct PersistState {
    /// Number of the newest stored event.
    pub(super) stored: u64,
    /// Size of the events after it.
    pub(super) unstored_bytes: usize,
    /// True once the end of the stream is stored.
    pub(super) ended: bool,
    /// True while a task writes to the store.
    active: bool,
    /// True if a client reads the stream from the store.
    pub(super) read_from_store: bool,
}

/// Next event to store.
pub(crate) struct UnstoredEvent {
    pub(crate) number: u64,
    /// Empty if the stream ends without a reply.
    pub(crate) message: Vec<u8>,
    pub(crate) end: bool,
}

/// Persistence, where several processes serve the session.
impl EventLog {
    pub(crate) fn writer(&self) -> Option<&EventWriter> {
        self.writer.as_deref()
    }

    /// Marks the events as not stored yet: from now on, readers see only stored events. The task that stores them
    /// is the caller's to start.
    pub(crate) fn begin_storing(&self) {
        let mut state = self.lock();
        let (unstored_bytes, active) = (state.bytes, true);
        let newest = state.newest;
        // Events that were dropped before a reader saw them count as stored.
        let stored = newest - state.events.len() as u64;
        state.persist_state =
            Some(PersistState { stored, unstored_bytes, active, ..PersistState::default() });
    }

    /// Stores pending events, unless a task already does.
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

    /// Returns the next event to store. None if all events are stored, or the stream was discarded.
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

    /// Makes a stored event visible to readers. True if a client reads the stream from the store.
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
            // From now on the replay budget may drop the stream.
            self.enqueue_ended(&mut state);
        }
        let waker = state.waker();
        drop(state);
        wake(waker);
        self.room.notify_waiters();
        if it.end {
            self.make_room();
        }
        read_from_store
    }

    /// Detaches the reader of this process, because a client reads the stream from the store.
    pub(crate) fn detach_for_store(self: &Arc<Self>) {
        let mut state = self.lock();
        let Some(persist_state) = &mut state.persist_state else { return };
        persist_state.read_from_store = true;
        let reader = state.set_reader(None);
        // A stream that ended and was not discarded, because it was read here, can be now.
        self.enqueue_ended(&mut state);
        drop(state);
        self.notify_detached(reader);
    }

    /// Returns true if the whole stream is stored and no client reads it from the store.
    pub(crate) fn is_disposable(&self) -> bool {
        let state = self.lock();
        state
            .persist_state
            .as_ref()
            .is_none_or(|persist_state| persist_state.ended && !persist_state.read_from_store)
    }

    /// Returns true if the events have been dropped.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().discarded
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::sync::Weak;

    use wharf_model::{
        BoxFuture, Caller, Error, ErrorKind, Implementation, Outbox, Outcome, Request, Service,
    };
    use wharf_wire::ServerProtocol;

    use super::*;
    use crate::{
        ServerContext, Shutdown,
        server::http::{HttpLimits, session::live_session::SessionContext},
        task_set::TaskSet,
    };

    struct NoService;

    impl Service for NoService {
        fn call(&self, _: Request, _: Outbox) -> BoxFuture<Outcome> {
            Box::pin(std::future::ready(Error::new(ErrorKind::InternalError).into()))
        }
    }

    /// The whole stream is stored, and its time is up while a client of this process reads it. When the client
    /// has resumed in another process, nothing keeps the events here.
    #[tokio::test]
    async fn a_stored_stream_whose_reader_moved_is_discarded() {
        let wire = ServerProtocol::new(Implementation::new("harbour", "1.0.0"));
        let context = Arc::new(ServerContext::new(Arc::new(wire), NoService));
        let tasks = Arc::new(TaskSet::default());
        let common = SessionContext::new(context, HttpLimits::default(), &tasks, Shutdown::new());
        let log = EventLog::new(1, common.clone(), &Caller::Local, None, Weak::new());
        log.push(b"one".to_vec());
        log.begin_storing();
        log.lock().attach_reader(0);
        log.end(None);
        while let Some(event) = log.next_unstored() {
            log.mark_stored(&event);
        }
        let expire = || common.replay_budget.expire(u64::MAX, 1);
        expire();
        assert!(!log.is_closed(), "it is being read");
        log.detach_for_store();
        expire();
        assert!(log.is_closed());
    }
}
