//! Slots of the scheduler, with a fair share per owner, and the guards of its registered runs and watches.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::Instant,
};

use wharf_model::{BusSubscriber, TaskChange, Timer};

use crate::tasks::scheduler::TaskScheduler;
use crate::{
    router::caller_shares::CallerShare,
    tasks::{
        run::{lease_renewal::heartbeat_interval, state::TaskRun},
        storage::owner::counted_caller,
        wakeup::WakeSignal,
    },
};

/// Slot of a run, released when dropped.
pub(crate) struct RunSlot {
    pub(super) scheduler: Arc<TaskScheduler>,
    pub(super) used: bool,
    pub(super) share: CallerShare,
}

impl RunSlot {
    /// Releases a slot that the loop did not need. It does not scan again at once, because the
    /// result would be the same.
    pub(super) fn release_unused(mut self) {
        self.used = false;
    }
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        // First, since the next task may have the same owner.
        drop(self.share.take());
        let mut state = self.scheduler.lock();
        state.work |= self.used && state.slots_full;
        state.slots -= 1;
        let work = state.work;
        drop(state);
        if work {
            self.scheduler.wake_signal.notify();
        }
    }
}

/// Registration of a run, removed when dropped.
pub(crate) struct RegisteredRun(pub(super) Arc<TaskScheduler>, pub(super) Arc<TaskRun>);

impl Drop for RegisteredRun {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        // Another run of the same task may have replaced it.
        if state.runs.get(self.1.id()).is_some_and(|task_run| Arc::ptr_eq(task_run, &self.1)) {
            state.runs.remove(self.1.id());
        }
        drop(state);
        self.1.observe(TaskChange::Stopped);
    }
}

/// Watch of one task for changes.
pub(crate) struct TaskWatch {
    pub(super) scheduler: Arc<TaskScheduler>,
    pub(super) key: (String, u64),
    pub(crate) wake_signal: Arc<WakeSignal>,
}

impl TaskWatch {
    /// Time of the next check without a notification: one may have been lost.
    pub(crate) fn next_check(&self, timer: &dyn Timer) -> Instant {
        timer.now() + heartbeat_interval(&self.scheduler.options)
    }
}

impl Drop for TaskWatch {
    fn drop(&mut self) {
        self.scheduler.lock().watchers.remove(&self.key);
    }
}

/// Slot of a call that waits for the end of a task.
pub(crate) struct WaitSlot {
    pub(super) scheduler: Arc<TaskScheduler>,
    pub(super) _share: CallerShare,
}

impl Drop for WaitSlot {
    fn drop(&mut self) {
        self.scheduler.lock().waiting -= 1;
    }
}

/// Marks the loop as ended when dropped, for example with its runtime, so that another can start.
pub(super) struct LoopGuard(pub(super) Arc<TaskScheduler>);

impl Drop for LoopGuard {
    fn drop(&mut self) {
        self.0.lifecycle.started.store(false, Ordering::Release);
    }
}

/// Forwards bus messages about tasks to the scheduler while it exists.
pub(super) struct TaskBusSubscriber(pub(super) Weak<TaskScheduler>);

impl BusSubscriber for TaskBusSubscriber {
    fn receive(&self, _topic: &str, message: &[u8]) {
        if let Some(scheduler) = self.0.upgrade() {
            scheduler.receive(message);
        }
    }

    fn missed(&self) {
        if let Some(scheduler) = self.0.upgrade() {
            scheduler.on_missed();
        }
    }
}

impl TaskScheduler {
    /// Acquires a slot for one run of this owner; `None` if none is free, or the owner has used its
    /// share.
    pub(crate) fn acquire_slot(self: &Arc<Self>, owner: &str) -> Option<RunSlot> {
        let mut state = self.lock();
        if self.is_stopped() {
            return None;
        }
        match self.slots.claim(state.slots, &counted_caller(owner)) {
            Some(share) => {
                state.slots += 1;
                Some(RunSlot { scheduler: self.clone(), used: true, share })
            }
            None => {
                state.slots_full = true;
                None
            }
        }
    }
}
