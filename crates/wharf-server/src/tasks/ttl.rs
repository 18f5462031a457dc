//! Lifetime of a task: what the caller requests, within the options and the memory budget.

use wharf_model::Caller;

use crate::tasks::{
    options::{TaskOptions, millis},
    scheduler::TaskScheduler,
};

impl TaskOptions {
    /// Lifetime in milliseconds of a task whose caller requests `wanted` milliseconds.
    pub(crate) fn task_ttl(&self, wanted: Option<u64>) -> u64 {
        wanted.unwrap_or(millis(self.ttl)).clamp(1, millis(self.longest_ttl).max(1))
    }
}

impl TaskScheduler {
    /// Lifetime of a task of this caller, in milliseconds.
    pub(crate) fn ttl(&self, caller: &Caller, wanted: Option<u64>) -> u64 {
        let ttl = self.options.task_ttl(wanted);
        if self.memory.is_nearly_full(caller) { ttl.min(self.options.task_ttl(None)) } else { ttl }
    }
}
