//! [`Lock`]: a mutex that ignores poison.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Mutex whose value stays usable after a panic in a thread that held it: the panic of one call must not fail the
/// others. What it protects is therefore valid between any two statements.
///
/// ```
/// use wharf_model::Lock;
///
/// let calls = Lock::new(0);
/// *calls.lock() += 1;
/// assert_eq!(calls.into_inner(), 1);
/// ```
#[derive(Debug, Default)]
pub struct Lock<T: ?Sized>(Mutex<T>);

impl<T> Lock<T> {
    /// Creates a lock.
    pub const fn new(value: T) -> Self {
        Lock(Mutex::new(value))
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Lock<T> {
    /// Waits for the value.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value without waiting, because nothing else has it.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        sync::Arc,
    };

    use super::*;

    #[test]
    fn a_panic_does_not_make_the_value_unusable() {
        let lock = Arc::new(Lock::new(1));
        let shared = lock.clone();
        let panicked = catch_unwind(AssertUnwindSafe(move || {
            let _held = shared.lock();
            panic!("while it is held");
        }));
        assert!(panicked.is_err());
        *lock.lock() += 1;
        let mut lock = Arc::into_inner(lock).unwrap();
        *lock.get_mut() += 1;
        assert_eq!(lock.into_inner(), 3);
    }
}
