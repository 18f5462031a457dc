//! Connection slots of a listening socket, shared fairly between callers.

use std::sync::{
    Arc, MutexGuard, Weak,
    atomic::{AtomicBool, Ordering},
};

use tokio::{task::AbortHandle, time::Instant};
use wharf_model::{Caller, Lock, LogThrottle};

use crate::server::{
    jsonl::call::ConnectionState,
    limits::fair_eviction::{SlotTable, SlotUse},
};

/// Connection slots of one listening socket.
#[derive(Debug)]
pub(crate) struct ConnectionSlots {
    table: Lock<SlotTable<Arc<ConnectionSlot>>>,
    started: Instant,
}

/// Slot of one connection. Requests carry it in their scope.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    caller: Caller,
    slots: Weak<ConnectionSlots>,
    created: u64,
    gone: AtomicBool,
    /// True if the client did not read in time.
    #[cfg(feature = "http")]
    stalled: AtomicBool,
    /// True if the client did not end the head of a request in time.
    #[cfg(feature = "http")]
    slow_head: AtomicBool,
    state: Lock<SlotState>,
}

#[derive(Debug, Default)]
struct SlotState {
    activity: ConnectionActivity,
    /// Task of the connection; `None` until it is spawned.
    task: Option<AbortHandle>,
    /// True if the connection was evicted before the task was set.
    ended: bool,
    /// True once the connection is closed.
    closed: bool,
}

/// Source of the connection's activity.
#[derive(Debug, Default)]
pub(crate) enum ConnectionActivity {
    /// No messages yet.
    #[default]
    Unknown,
    #[cfg(feature = "http")]
    Http1(crate::server::http::Http1State),
    #[cfg(feature = "http")]
    Http2(crate::server::http::Http2StreamsObserver),
    Lines(Weak<ConnectionState>),
}

impl ConnectionSlots {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(ConnectionSlots {
            table: Lock::new(SlotTable::new(most)),
            started: Instant::now(),
        })
    }

    /// Takes a slot for a connection of `caller`. At the limit, an idle connection is evicted.
    /// `None` if all candidates are in use.
    pub(crate) fn take(self: &Arc<Self>, caller: Caller) -> Option<SlotGuard> {
        let now = self.now();
        let mut table = self.lock();
        if !table.has_room(1) {
            let victim = table.victim(&caller, now, |slot| self.slot_use(slot, now));
            let victim = victim?;
            log_eviction(&victim);
            victim.gone.store(true, Ordering::Release);
            table.remove(&victim.caller, 1, |slot| slot.is_gone());
            drop(table);
            victim.abort();
            table = self.lock();
        }
        let slot = Arc::new(ConnectionSlot {
            caller,
            slots: Arc::downgrade(self),
            created: now,
            gone: AtomicBool::new(false),
            #[cfg(feature = "http")]
            stalled: AtomicBool::new(false),
            #[cfg(feature = "http")]
            slow_head: AtomicBool::new(false),
            state: Lock::default(),
        });
        table.add(&slot.caller, 1, now, slot.clone());
        Some(SlotGuard(slot))
    }

    fn slot_use(&self, slot: &ConnectionSlot, now: u64) -> SlotUse {
        if slot.is_gone() {
            return SlotUse::Gone;
        }
        match &mut slot.lock().activity {
            ConnectionActivity::Unknown => SlotUse::Idle(slot.created),
            #[cfg(feature = "http")]
            ConnectionActivity::Http1(state) => match state.waiting_since(Instant::now()) {
                Some(since) => SlotUse::Idle(self.ticks(since)),
                None => SlotUse::Busy,
            },
            #[cfg(feature = "http")]
            ConnectionActivity::Http2(streams) => match (streams.are_open(), streams.take_used()) {
                (true, _) => SlotUse::Busy,
                (false, true) => SlotUse::Idle(now),
                (false, false) => SlotUse::Idle(slot.created),
            },
            ConnectionActivity::Lines(line) => match line.upgrade() {
                Some(line) if line.in_flight.has_calls() => SlotUse::Busy,
                Some(line) if line.take_used() => SlotUse::Idle(now),
                _ => SlotUse::Idle(slot.created),
            },
        }
    }

    fn now(&self) -> u64 {
        self.ticks(Instant::now())
    }

    fn ticks(&self, instant: Instant) -> u64 {
        let since = instant.saturating_duration_since(self.started);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, SlotTable<Arc<ConnectionSlot>>> {
        self.table.lock()
    }
}

fn log_eviction(slot: &ConnectionSlot) {
    static LINE: LogThrottle = LogThrottle::new();
    if let Some(suppressed) = LINE.due() {
        tracing::warn!(
            caller = ?slot.caller,
            suppressed,
            "closing the longest idle connection of the caller with the most: the connection limit is reached"
        );
    }
}

impl ConnectionSlot {
    /// Sets the task that is aborted to close the connection.
    pub(crate) fn set_task(&self, task: AbortHandle) {
        let mut state = self.lock();
        if state.ended {
            task.abort();
        }
        if !state.closed {
            state.task = Some(task);
        }
    }

    /// Releases the connection's state. An abort handle keeps the memory of its task, and whatever outlives the
    /// connection, such as the subscription of a session, has the slot among its request extensions.
    fn close(&self) {
        let state = std::mem::replace(
            &mut *self.lock(),
            SlotState { closed: true, ..SlotState::default() },
        );
        drop(state);
    }

    /// Sets the source of the connection's activity.
    pub(crate) fn set_activity(&self, activity: ConnectionActivity) {
        self.lock().activity = activity;
    }

    /// Records that the client did not read in time.
    #[cfg(feature = "http")]
    pub(crate) fn set_stalled(&self) {
        self.stalled.store(true, Ordering::Relaxed);
    }

    /// Returns whether the client did not read in time.
    #[cfg(feature = "http")]
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed)
    }

    /// Records that the client did not end the head of a request in time.
    #[cfg(feature = "http")]
    pub(crate) fn set_slow_head(&self) {
        self.slow_head.store(true, Ordering::Relaxed);
    }

    /// Returns whether the client did not end the head of a request in time.
    #[cfg(feature = "http")]
    pub(crate) fn has_slow_head(&self) -> bool {
        self.slow_head.load(Ordering::Relaxed)
    }

    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    fn abort(&self) {
        let mut state = self.lock();
        state.ended = true;
        if let Some(task) = &state.task {
            task.abort();
        }
    }

    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock()
    }
}

/// Occupies a slot until it is dropped.
#[derive(Debug)]
pub(crate) struct SlotGuard(Arc<ConnectionSlot>);

impl SlotGuard {
    pub(crate) fn slot(&self) -> &Arc<ConnectionSlot> {
        &self.0
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        self.0.close();
        if self.0.gone.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(slots) = self.0.slots.upgrade() {
            slots.lock().remove(&self.0.caller, 1, |slot| slot.is_gone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slot_that_outlives_its_connection_keeps_no_task() {
        let slots = ConnectionSlots::new(10);
        // The task is set before the connection is closed, or only afterwards.
        for early in [true, false] {
            let guard = slots.take(Caller::Local).unwrap();
            let slot = guard.slot().clone();
            let task = tokio::spawn(async {});
            if early {
                slot.set_task(task.abort_handle());
            }
            drop(guard);
            if !early {
                slot.set_task(task.abort_handle());
            }
            assert!(slot.lock().task.is_none(), "{early}");
        }
    }
}
