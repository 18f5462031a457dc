//! Loop of the scheduler: handles changed tasks, and decides when to claim due ones and to sweep expired ones.

use std::{
    mem,
    sync::{Arc, Weak},
    time::Duration,
};

use wharf_model::Timer;

use crate::tasks::scheduler::TaskScheduler;
use crate::{
    router::state::ServerState,
    tasks::{
        notify,
        notify::short_id,
        run::{lease_renewal::heartbeat_interval, state::StopReason},
        storage::random_fraction,
    },
};
/// Interval of the sweeps of expired records.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// Number of expired records that one sweep removes.
const SWEEP_BATCH: usize = 1000;

impl TaskScheduler {
    pub(super) async fn run_loop(
        self: &Arc<Self>,
        server: &Weak<ServerState>,
        timer: &Arc<dyn Timer>,
    ) {
        let soon = |wait: Duration| timer.now() + wait.mul_f64(0.75 + random_fraction() / 4.0);
        let (mut look, mut sweep) = (timer.now(), soon(SWEEP_INTERVAL));
        loop {
            let Some(server) = server.upgrade().filter(|_| !self.is_stopped()) else { return };
            let (changed, work) = self.take_changed(&server);
            for id in changed {
                self.refresh(&server, &id).await;
            }
            if work || timer.now() >= look {
                let next = self.claim_due(&server, timer).await;
                look = next.map_or_else(
                    || soon(heartbeat_interval(&self.options)),
                    |wait| timer.now() + wait,
                );
            }
            if timer.now() >= sweep {
                self.remove_expired(timer.now());
                if let Err(error) = self.task_store.sweep(SWEEP_BATCH).await {
                    tracing::debug!(%error, "cannot remove expired tasks");
                }
                sweep = soon(SWEEP_INTERVAL);
            }
            drop(server);
            let until = self.is_busy().then(|| look.min(sweep));
            self.wake_signal.wait(&**timer, until).await;
        }
    }

    /// Returns whether the loop must wake up by time.
    fn is_busy(&self) -> bool {
        let state = self.lock();
        self.is_durable() || state.slots > 0 || !state.originals.is_empty()
    }

    /// Takes the changed tasks that run here or have subscribers here, and whether there may be due
    /// tasks.
    fn take_changed(&self, server: &ServerState) -> (Vec<String>, bool) {
        let (mut changed, missed, work) = {
            let mut state = self.lock();
            let (missed, work) = (mem::take(&mut state.missed), mem::take(&mut state.work));
            (mem::take(&mut state.changed), missed, work)
        };
        if changed.is_empty() && !missed {
            return (Vec::new(), work);
        }
        // There may be many subscribers, so no lock is held while they are searched.
        let followed =
            server.subscription_table.followed_tasks(|id| missed || changed.contains(id));
        let state = self.lock();
        if missed {
            changed.extend(state.runs.keys().cloned());
        }
        changed.retain(|id| state.runs.contains_key(id));
        drop(state);
        changed.extend(followed);
        (changed.into_iter().collect(), work)
    }

    /// Loads a task and notifies its subscribers and its run.
    async fn refresh(&self, server: &ServerState, id: &str) {
        let record = match self.task_store.load(id).await {
            Ok(record) => record,
            // The next heartbeat will get the change.
            Err(error) => {
                return tracing::debug!(task = short_id(id), %error, "cannot load a changed task");
            }
        };
        let task_run = self.lock().runs.get(id).cloned();
        match (record, task_run) {
            (Some(record), task_run) => {
                notify::notify_subscribers(server, &record);
                if let Some(task_run) = task_run {
                    task_run.update_from(record);
                }
            }
            (None, Some(task_run)) => task_run.stop(StopReason::Lost),
            (None, None) => {}
        }
    }
}
