//! The loop in which a process looks after tasks: what it hears, what it holds, what it takes up.

use std::{
    mem,
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use wharf_model::{Error, ErrorKind, Timer};

use super::Engine;
use crate::{
    core::Core,
    tasks::{
        ledger::{Update, chance},
        link::Stop,
        options::millis,
        record::{Changed, Claim, Refusal, TaskRecord},
        tell::{self, short},
        worker,
    },
};

/// How many tasks one look at the store takes up.
const BATCH: usize = 32;
/// How soon there is another look, if one found all it could take.
const AGAIN: Duration = Duration::from_millis(20);
/// How often what has expired is forgotten, and how much at once.
const SWEEP: (Duration, usize) = (Duration::from_secs(60), 1000);

impl Engine {
    pub(super) async fn look_after(self: &Arc<Self>, core: &Weak<Core>, timer: &Arc<dyn Timer>) {
        let soon = |wait: Duration| timer.now() + wait.mul_f64(0.75 + chance() / 4.0);
        let (mut look, mut sweep) = (timer.now(), soon(SWEEP.0));
        loop {
            let Some(core) = core.upgrade().filter(|_| !self.is_stopped()) else { return };
            let (news, work) = self.take_news(&core);
            for id in news {
                self.refresh(&core, &id).await;
            }
            if work || timer.now() >= look {
                let next = self.take_up(&core, timer).await;
                look = next.map_or_else(|| soon(self.beat()), |wait| timer.now() + wait);
            }
            if timer.now() >= sweep {
                if let Err(error) = self.ledger.sweep(SWEEP.1).await {
                    tracing::debug!(%error, "expired tasks were not forgotten");
                }
                sweep = soon(SWEEP.0);
            }
            drop(core);
            let until = self.is_busy().then(|| look.min(sweep));
            self.bell.wait(&**timer, until).await;
        }
    }

    /// Whether there is anything that time alone could change.
    fn is_busy(&self) -> bool {
        let state = self.lock();
        self.is_durable() || state.places > 0 || !state.originals.is_empty()
    }

    /// The tasks that may have changed and that somebody here follows, and whether there may be
    /// something to take up.
    fn take_news(&self, core: &Core) -> (Vec<String>, bool) {
        let (mut news, missed, work) = {
            let mut state = self.lock();
            let (missed, work) = (mem::take(&mut state.missed), mem::take(&mut state.work));
            (mem::take(&mut state.news), missed, work)
        };
        if news.is_empty() && !missed {
            return (Vec::new(), work);
        }
        // There may be many listeners: while they are looked through, nothing is locked.
        let followed = core.hub.followed_tasks(|id| missed || news.contains(id));
        let state = self.lock();
        if missed {
            news.extend(state.runs.keys().cloned());
        }
        news.retain(|id| state.runs.contains_key(id));
        drop(state);
        news.extend(followed);
        (news.into_iter().collect(), work)
    }

    /// Looks a task up, and tells those who follow it.
    async fn refresh(&self, core: &Core, id: &str) {
        let record = match self.ledger.load(id).await {
            Ok(record) => record,
            // Signs of life will find out.
            Err(error) => {
                return tracing::debug!(task = short(id), %error, "a task was not looked up");
            }
        };
        let link = self.lock().runs.get(id).cloned();
        match (record, link) {
            (Some(record), link) => {
                tell::listeners(core, &record);
                if let Some(link) = link {
                    link.absorb(record);
                }
            }
            (None, Some(link)) => link.stop(Stop::Lost),
            (None, None) => {}
        }
    }

    /// Takes up what is due and finds room; says when to look again, if that is known.
    async fn take_up(
        self: &Arc<Self>,
        core: &Arc<Core>,
        timer: &Arc<dyn Timer>,
    ) -> Option<Duration> {
        let room = self.options.running.saturating_sub(self.lock().places).min(BATCH);
        if room == 0 || self.draining.load(Ordering::Acquire) {
            return None;
        }
        let due = match self.ledger.due(room).await {
            Ok(due) => due,
            Err(error) => {
                tracing::warn!(%error, "tasks that are due were not found out");
                return None;
            }
        };
        // There may be more than were asked for.
        let mut next = (due.len() == room).then_some(AGAIN);
        for id in &due {
            let wait = self.take_up_one(core, id, timer).await;
            next = next.into_iter().chain(wait).min();
        }
        next
    }

    async fn take_up_one(
        self: &Arc<Self>,
        core: &Arc<Core>,
        id: &str,
        timer: &Arc<dyn Timer>,
    ) -> Option<Duration> {
        let held = self.lock().runs.get(id).cloned();
        if let Some(link) = held {
            // Our own: its signs of life did not get through in time, and nobody else took it.
            link.renew().await;
            return None;
        }
        let place = self.enter()?;
        let (mut rest, since) = (None, timer.now());
        let claimed = match self.claim() {
            Ok(claim) => {
                let change = |record: &mut TaskRecord, now| {
                    rest = None;
                    self.try_claim(record, &claim, now, &mut rest)
                };
                self.ledger.update(id, None, &**timer, change).await
            }
            Err(error) => Err(error),
        };
        let record = match claimed {
            Ok(Update::Done(record, _)) => *record,
            // Somebody else was faster.
            Ok(_) => return None,
            Err(error) => {
                tracing::warn!(task = short(id), %error, "a task cannot be taken up");
                let _ = self.ledger.put_off(id, millis(self.options.lease)).await;
                return None;
            }
        };
        if record.end.is_some() {
            self.ledger.tell(id).await;
            return None;
        }
        if record.node.is_some() {
            worker::resume(core, (record, since), self.original(id), place, timer.clone());
        }
        rest
    }

    /// Claims a task that nobody holds; one whose holder is gone may have to rest first, and one
    /// that was begun too often has failed.
    fn try_claim(
        &self,
        record: &mut TaskRecord,
        claim: &Claim,
        now: u64,
        resting: &mut Option<Duration>,
    ) -> Result<Changed, Refusal> {
        if record.attempts >= self.options.attempts.max(1) {
            let text = format!(
                "The task was begun {} times, and no server that worked on it came to an end",
                record.attempts
            );
            return record.give_up(&Error::new(ErrorKind::TaskFailed).with_message(text), now);
        }
        let rest = self.options.rest(record.attempts, chance());
        if record.node.is_some() && !rest.is_zero() {
            *resting = Some(rest);
            return record.lapse(millis(rest), now);
        }
        record.claim(claim, now)
    }
}
