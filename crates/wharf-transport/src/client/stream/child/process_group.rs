//! Process group of a child: its other members outlive a child that does not end them itself.
//!
//! The kernel reuses no id that a process or a process group has. So the id stays valid until the child is reaped,
//! and afterwards as long as the group has a member; groups are signalled when the child is reaped, or before.

#[cfg(unix)]
use std::{collections::BTreeSet, time::Duration};

#[cfg(unix)]
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
#[cfg(unix)]
use wharf_model::Lock;

/// Groups of this process's children, for the end of a process that cannot wait for them.
#[cfg(unix)]
static GROUPS: Lock<BTreeSet<i32>> = Lock::new(BTreeSet::new());

/// Time that the other members get to exit, and the interval of the checks for that.
#[cfg(unix)]
const MEMBERS_TIMEOUT: Duration = Duration::from_secs(2);
#[cfg(unix)]
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Process group of a child, killed on drop.
pub(super) struct ProcessGroup {
    #[cfg(unix)]
    id: Option<Pid>,
}

impl ProcessGroup {
    /// The group of the child with this process id.
    #[cfg_attr(not(unix), expect(unused_variables))]
    pub(super) fn of(child: Option<u32>) -> Self {
        #[cfg(unix)]
        {
            let id = child.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
            GROUPS.lock().extend(id.map(|id| id.as_raw_nonzero().get()));
            ProcessGroup { id }
        }
        #[cfg(not(unix))]
        ProcessGroup {}
    }

    #[cfg(unix)]
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    pub(super) fn kill(&self) {
        #[cfg(unix)]
        self.signal(Signal::KILL);
    }

    /// Ends the members that are left when the child has exited: with SIGTERM, and two seconds later with SIGKILL.
    pub(super) async fn end_members(&mut self) {
        #[cfg(unix)]
        {
            self.signal(Signal::TERM);
            let checks = MEMBERS_TIMEOUT.as_millis() / CHECK_INTERVAL.as_millis();
            for _ in 0..checks {
                if !self.has_members() {
                    break;
                }
                tokio::time::sleep(CHECK_INTERVAL).await;
            }
            if self.has_members() {
                self.signal(Signal::KILL);
            }
            self.forget();
        }
    }

    #[cfg(unix)]
    fn has_members(&self) -> bool {
        self.id.is_some_and(|id| test_kill_process_group(id).is_ok())
    }

    #[cfg(unix)]
    fn signal(&self, signal: Signal) {
        if let Some(id) = self.id {
            let _ = kill_process_group(id, signal);
        }
    }

    #[cfg(unix)]
    fn forget(&mut self) {
        if let Some(id) = self.id.take() {
            GROUPS.lock().remove(&id.as_raw_nonzero().get());
        }
    }
}

#[cfg(unix)]
impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        self.forget();
    }
}

/// Kills the process groups of all children that this process started and that have not ended: for a process that
/// ends at once, without closing its clients. On systems without process groups it does nothing.
///
/// ```
/// # mod wharf { pub use wharf_transport::client; }
/// // A second signal does not wait for the servers that this process started.
/// wharf::client::kill_children();
/// ```
pub fn kill_children() {
    #[cfg(unix)]
    for id in GROUPS.lock().iter().copied().filter_map(Pid::from_raw) {
        let _ = kill_process_group(id, Signal::KILL);
    }
}
