//! Minimal session table.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub(crate) struct Sessions {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    last: u64,
    open: HashSet<u64>,
}

impl Sessions {
    /// Opens a session and returns its id.
    pub(crate) fn open(&self) -> String {
        let mut table = self.lock();
        table.last += 1;
        let id = table.last;
        table.open.insert(id);
        format!("{id:032x}")
    }

    pub(crate) fn has(&self, id: &[u8]) -> bool {
        number(id).is_some_and(|id| self.lock().open.contains(&id))
    }

    pub(crate) fn close(&self, id: &[u8]) -> bool {
        number(id).is_some_and(|id| self.lock().open.remove(&id))
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn number(id: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(id).ok()?, 16).ok()
}
