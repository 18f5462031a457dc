//! State of the connection to a server, as observers see it.

use std::sync::{
    MutexGuard,
    atomic::{AtomicBool, Ordering},
};

use wharf_model::{Error, Lock, ObservedEvent, Observers, UpstreamChange as Change};
#[cfg(feature = "http")]
use wharf_model::{FailureOrigin, Outcome};

/// Reports each change of the connection to observers, who may be added at any time.
#[derive(Debug, Default)]
pub(crate) struct UpstreamState {
    is_up: AtomicBool,
    watching: Lock<UpstreamWatch>,
}

/// Observers, and the name of the server for them.
#[derive(Debug, Default)]
struct UpstreamWatch {
    name: String,
    observers: Vec<Observers>,
}

impl UpstreamState {
    /// Adds observers, who receive the present state at once.
    pub(crate) fn observe(&self, name: &str, observers: &Observers) {
        if observers.is_empty() {
            return;
        }
        let mut watching = self.lock();
        name.trim_matches('`').clone_into(&mut watching.name);
        watching.observers.push(observers.clone());
        if self.is_up.load(Ordering::Acquire) {
            let name = &*watching.name;
            observers.emit(|| ObservedEvent::Upstream { name, change: Change::Up });
        }
    }

    /// Reports that the server is connected, unless it was before.
    #[inline]
    pub(crate) fn up(&self) {
        if !self.is_up.load(Ordering::Acquire) {
            self.change(true, Change::Up);
        }
    }

    /// Reports that the connection was lost, unless it was before.
    #[cold]
    pub(crate) fn down(&self, error: &Error) {
        self.change(false, Change::Down { error });
    }

    /// Reports that this side closed the connection.
    pub(crate) fn close(&self) {
        self.change(false, Change::Closed);
    }

    /// Reports that the server's process is started again.
    pub(crate) fn restarting(&self) {
        Self::emit(&self.lock(), Change::Restarting);
    }

    /// Derives the state from the end of a call, for a transport whose requests are independent.
    #[cfg(feature = "http")]
    pub(crate) fn call_ended(&self, outcome: &Outcome) {
        match outcome {
            Outcome::Failed(error) => match error.origin() {
                Some(FailureOrigin::NotSent | FailureOrigin::Interrupted) => self.down(error),
                // The server answered.
                None => self.up(),
                Some(_) => {}
            },
            _ => self.up(),
        }
    }

    fn change(&self, is_up: bool, change: Change<'_>) {
        // Under the lock, so that observers receive the changes in their order.
        let watching = self.lock();
        if self.is_up.swap(is_up, Ordering::AcqRel) != is_up {
            Self::emit(&watching, change);
        }
    }

    fn emit(watching: &UpstreamWatch, change: Change<'_>) {
        let name = &*watching.name;
        watching
            .observers
            .iter()
            .for_each(|observers| observers.emit(|| ObservedEvent::Upstream { name, change }));
    }

    fn lock(&self) -> MutexGuard<'_, UpstreamWatch> {
        self.watching.lock()
    }
}
