//! Claims due tasks: new ones, and those whose lease has expired because their process does not run any more.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use wharf_model::{Error, ErrorKind, Timer};

use crate::tasks::scheduler::TaskScheduler;
use crate::{
    key_ring::random_name,
    router::state::ServerState,
    tasks::{
        options::millis,
        run, storage,
        storage::{
            UpdateResult, random_fraction,
            record::{ChangeRejection, RecordChanged, TaskClaim, TaskRecord},
        },
    },
};

/// Maximum number of tasks claimed in one scan of the store.
const CLAIM_BATCH: usize = 32;

/// Maximum number of due tasks listed in one scan, to find those whose owners have a free slot.
const MAX_DUE_LISTED: usize = 4096;

/// Delay before the next scan, if one found as many tasks as it could claim.
const RESCAN_DELAY: Duration = Duration::from_millis(20);

/// Outcome for a task that was due.
enum ClaimOutcome {
    /// It is not due any more.
    NotDue,
    /// It will be due again after this time.
    DueAgain(Duration),
    /// The store failed.
    Failed,
    /// Its owner has used its share of the slots.
    OwnerLimit,
}

impl TaskScheduler {
    /// Claims due tasks while slots are free; returns when to scan again, if that is known.
    pub(super) async fn claim_due(
        self: &Arc<Self>,
        server: &Arc<ServerState>,
        timer: &Arc<dyn Timer>,
    ) -> Option<Duration> {
        if self.lifecycle.draining.load(Ordering::Acquire) {
            return None;
        }
        let mut limit = self.free_slots()?;
        loop {
            let due = match self.task_store.due(limit).await {
                Ok(due) => due,
                Err(error) => {
                    storage::log_failure(&error, "list due tasks");
                    return None;
                }
            };
            let (mut moved, mut slots_full, mut next) = (false, false, None);
            for id in &due {
                match self.claim_one(server, id, timer).await {
                    ClaimOutcome::Failed => {}
                    ClaimOutcome::OwnerLimit => slots_full = true,
                    ClaimOutcome::NotDue => moved = true,
                    ClaimOutcome::DueAgain(rest) => {
                        (moved, next) = (true, next.into_iter().chain([rest]).min());
                    }
                }
            }
            let is_all = due.len() < limit;
            if is_all {
                self.lock().waiting_owners.retain(|id, _| due.contains(id));
            }
            // Tasks of other owners may follow those of an owner that has used its share.
            if slots_full && !moved && !is_all && limit < MAX_DUE_LISTED && !self.is_stopped() {
                limit = (limit * 4).min(MAX_DUE_LISTED);
                continue;
            }
            // There may be more due tasks than requested, unless they are the same again.
            let more = (moved && !is_all).then_some(RESCAN_DELAY);
            return next.into_iter().chain(more).min();
        }
    }

    /// Number of tasks that a scan may claim; `None` if no slot is free.
    fn free_slots(&self) -> Option<usize> {
        let mut state = self.lock();
        let free = self.options.running.saturating_sub(state.slots).min(CLAIM_BATCH);
        state.slots_full = free == 0;
        if state.waiting_owners.len() > MAX_DUE_LISTED {
            state.waiting_owners.clear();
        }
        (free > 0).then_some(free)
    }

    async fn claim_one(
        self: &Arc<Self>,
        server: &Arc<ServerState>,
        id: &str,
        timer: &Arc<dyn Timer>,
    ) -> ClaimOutcome {
        let held = self.lock().runs.get(id).cloned();
        if let Some(task_run) = held {
            // Our own task: its heartbeats did not arrive in time, and no other process claimed it.
            return if task_run.renew().await {
                ClaimOutcome::NotDue
            } else {
                ClaimOutcome::Failed
            };
        }
        let waiting = self.lock().waiting_owners.get(id).cloned();
        let (owner, known) = match waiting {
            Some(owner) => (owner, None),
            None => match self.task_store.load(id).await {
                Ok(Some(record)) => (record.owner.clone(), Some(record)),
                Ok(None) => return ClaimOutcome::NotDue,
                Err(error) => return self.postpone(id, &error).await,
            },
        };
        let Some(slot) = self.acquire_slot(&owner) else {
            self.lock().waiting_owners.insert(id.to_owned(), owner);
            return ClaimOutcome::OwnerLimit;
        };
        self.lock().waiting_owners.remove(id);
        let (mut rest, since) = (None, timer.now());
        let claimed = match self.claim() {
            Ok(claim) => {
                let change = |record: &mut TaskRecord, now| {
                    rest = None;
                    self.try_claim(record, &claim, now, &mut rest)
                };
                self.task_store.update(id, known, &**timer, change).await
            }
            Err(error) => Err(error),
        };
        let record = match claimed {
            Ok(UpdateResult::Done(record, _)) => *record,
            // Another process claimed it first.
            Ok(_) => {
                slot.release_unused();
                return ClaimOutcome::NotDue;
            }
            Err(error) => {
                slot.release_unused();
                return self.postpone(id, &error).await;
            }
        };
        if record.node.is_some() && record.end.is_none() {
            run::resume(server, (record, since), self.take_original(id), slot, timer.clone());
            return ClaimOutcome::NotDue;
        }
        slot.release_unused();
        if record.end.is_some() {
            self.task_store.publish_changed(id).await;
        }
        rest.map_or(ClaimOutcome::NotDue, ClaimOutcome::DueAgain)
    }

    /// Postpones a task that cannot be claimed here: another process may be able to.
    async fn postpone(&self, id: &str, error: &Error) -> ClaimOutcome {
        storage::log_failure(error, "claim a task");
        let postpone = self.task_store.postpone(id, millis(self.options.lease)).await;
        if postpone.is_ok() { ClaimOutcome::NotDue } else { ClaimOutcome::Failed }
    }

    /// Claims a task without a holder. If its lease expired, a backoff may come first; after too
    /// many attempts the task fails.
    fn try_claim(
        &self,
        record: &mut TaskRecord,
        claim: &TaskClaim,
        now: u64,
        resting: &mut Option<Duration>,
    ) -> Result<RecordChanged, ChangeRejection> {
        if record.attempts >= self.options.attempts.max(1) {
            let text = format!(
                "The task was started {} times, and no server finished it",
                record.attempts
            );
            return record.fail(&Error::new(ErrorKind::TaskFailed).with_message(text), now);
        }
        let rest = self.options.retry_delay(record.attempts, random_fraction());
        if record.node.is_some() && !rest.is_zero() {
            *resting = Some(rest);
            return record.lapse(millis(rest), now);
        }
        record.claim(claim, now)
    }

    /// Claim with the identity of this process.
    pub(crate) fn claim(&self) -> Result<TaskClaim, Error> {
        let node = match self.node.get() {
            Some(node) => node.clone(),
            None => {
                let name = random_name()?;
                self.node.get_or_init(|| name).clone()
            }
        };
        Ok(TaskClaim { node, lease: millis(self.options.lease) })
    }
}
