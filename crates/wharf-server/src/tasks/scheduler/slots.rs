//! What is held of an engine, and given up when it is dropped.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::Instant,
};

use wharf_model::{BusSubscriber, Timer};

use crate::tasks::scheduler::Engine;
use crate::{
    router::caller_shares::Share,
    tasks::{run::state::Link, wakeup::Bell},
};

/// A place among the runs, given up when dropped.
pub(crate) struct Place {
    pub(super) engine: Arc<Engine>,
    pub(super) used: bool,
    pub(super) share: Share,
}

impl Place {
    /// Gives up a place that the loop took and found nothing for. It need not look again at once:
    /// the same would happen.
    pub(super) fn give_back(mut self) {
        self.used = false;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // First: the next task may be of the same owner.
        drop(self.share.take());
        let mut state = self.engine.lock();
        state.work |= self.used && state.crowded;
        state.places -= 1;
        let work = state.work;
        drop(state);
        if work {
            self.engine.bell.ring();
        }
    }
}

/// A run that is noted.
pub(crate) struct Running(pub(super) Arc<Engine>, pub(super) Arc<Link>);

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        // Another run of the same task may have taken its place.
        if state.runs.get(self.1.id()).is_some_and(|link| Arc::ptr_eq(link, &self.1)) {
            state.runs.remove(self.1.id());
        }
    }
}

/// Somebody who waits for news of one task.
pub(crate) struct Watch {
    pub(super) engine: Arc<Engine>,
    pub(super) key: (String, u64),
    pub(crate) bell: Arc<Bell>,
}

impl Watch {
    /// When to look without news: some may have been lost.
    pub(crate) fn patience(&self, timer: &dyn Timer) -> Instant {
        timer.now() + self.engine.beat()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.engine.lock().watchers.remove(&self.key);
    }
}

/// A place among those who wait for the end of a task.
pub(crate) struct Waiting {
    pub(super) engine: Arc<Engine>,
    pub(super) _share: Share,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.engine.lock().waiting -= 1;
    }
}

/// The loop is over when this is dropped: with its runtime, perhaps. Another may begin.
pub(super) struct Looking(pub(super) Arc<Engine>);

impl Drop for Looking {
    fn drop(&mut self) {
        self.0.stage.started.store(false, Ordering::Release);
    }
}

/// Hears news of tasks for an engine, for as long as there is one.
pub(super) struct Hearing(pub(super) Weak<Engine>);

impl BusSubscriber for Hearing {
    fn hear(&self, _topic: &str, message: &[u8]) {
        if let Some(engine) = self.0.upgrade() {
            engine.hear(message);
        }
    }

    fn missed(&self) {
        if let Some(engine) = self.0.upgrade() {
            engine.missed();
        }
    }
}
