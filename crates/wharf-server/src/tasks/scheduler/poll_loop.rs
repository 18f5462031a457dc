//! The loop in which a process looks after tasks: what it hears, what it holds, what it takes up.

use std::{
    mem,
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use wharf_model::{Error, ErrorKind, Timer};

use crate::tasks::scheduler::Engine;
use crate::{
    router::state::Core,
    tasks::{
        notify,
        notify::short,
        options::millis,
        run,
        run::state::Stop,
        storage,
        storage::{
            Update, chance,
            record::{Changed, Claim, Refusal, TaskRecord},
        },
    },
};

/// How many tasks one look at the store takes up.
const BATCH: usize = 32;
/// How many due tasks one look lists at most, to find those whose owners may have a place.
const MOST_DUE: usize = 4096;
/// How soon there is another look, if one found all it could take.
const AGAIN: Duration = Duration::from_millis(20);
/// How often what has expired is forgotten, and how much at once.
const SWEEP: (Duration, usize) = (Duration::from_secs(60), 1000);

/// What became of a task that was due.
enum Taken {
    /// It is not due any more.
    Moved,
    /// It will be due again after this time.
    Rests(Duration),
    /// Nothing could be done about it.
    Stuck,
    /// Its owner has its share of the places.
    Crowded,
}

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
                self.forget_expired(timer.now());
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
                notify::listeners(core, &record);
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
        if self.stage.draining.load(Ordering::Acquire) {
            return None;
        }
        let mut limit = self.begin_look()?;
        loop {
            let due = match self.ledger.due(limit).await {
                Ok(due) => due,
                Err(error) => {
                    storage::log_failure(&error, "list due tasks");
                    return None;
                }
            };
            let (mut moved, mut crowded, mut next) = (false, false, None);
            for id in &due {
                match self.take_up_one(core, id, timer).await {
                    Taken::Stuck => {}
                    Taken::Crowded => crowded = true,
                    Taken::Moved => moved = true,
                    Taken::Rests(rest) => {
                        (moved, next) = (true, next.into_iter().chain([rest]).min());
                    }
                }
            }
            let is_all = due.len() < limit;
            if is_all {
                self.lock().waiting_owners.retain(|id, _| due.contains(id));
            }
            // Tasks of other owners may come after those of an owner that has its share.
            if crowded && !moved && !is_all && limit < MOST_DUE && !self.is_stopped() {
                limit = (limit * 4).min(MOST_DUE);
                continue;
            }
            // There may be more than were asked for, unless they are the same again.
            let more = (moved && !is_all).then_some(AGAIN);
            return next.into_iter().chain(more).min();
        }
    }

    /// How many tasks a look may take up; `None` if no place is free.
    fn begin_look(&self) -> Option<usize> {
        let mut state = self.lock();
        let room = self.options.running.saturating_sub(state.places).min(BATCH);
        state.crowded = room == 0;
        if state.waiting_owners.len() > MOST_DUE {
            state.waiting_owners.clear();
        }
        (room > 0).then_some(room)
    }

    async fn take_up_one(
        self: &Arc<Self>,
        core: &Arc<Core>,
        id: &str,
        timer: &Arc<dyn Timer>,
    ) -> Taken {
        let held = self.lock().runs.get(id).cloned();
        if let Some(link) = held {
            // Our own: its signs of life did not get through in time, and nobody else took it.
            return if link.renew().await { Taken::Moved } else { Taken::Stuck };
        }
        let waiting = self.lock().waiting_owners.get(id).cloned();
        let (owner, known) = match waiting {
            Some(owner) => (owner, None),
            None => match self.ledger.load(id).await {
                Ok(Some(record)) => (record.owner.clone(), Some(record)),
                Ok(None) => return Taken::Moved,
                Err(error) => return self.put_off(id, &error).await,
            },
        };
        let Some(place) = self.enter(&owner) else {
            self.lock().waiting_owners.insert(id.to_owned(), owner);
            return Taken::Crowded;
        };
        self.lock().waiting_owners.remove(id);
        let (mut rest, since) = (None, timer.now());
        let claimed = match self.claim() {
            Ok(claim) => {
                let change = |record: &mut TaskRecord, now| {
                    rest = None;
                    self.try_claim(record, &claim, now, &mut rest)
                };
                self.ledger.update(id, known, &**timer, change).await
            }
            Err(error) => Err(error),
        };
        let record = match claimed {
            Ok(Update::Done(record, _)) => *record,
            // Somebody else was faster.
            Ok(_) => {
                place.give_back();
                return Taken::Moved;
            }
            Err(error) => {
                place.give_back();
                return self.put_off(id, &error).await;
            }
        };
        if record.node.is_some() && record.end.is_none() {
            run::resume(core, (record, since), self.original(id), place, timer.clone());
            return Taken::Moved;
        }
        place.give_back();
        if record.end.is_some() {
            self.ledger.tell(id).await;
        }
        rest.map_or(Taken::Moved, Taken::Rests)
    }

    /// Postpones a task that cannot be claimed here: another process may be able to.
    async fn put_off(&self, id: &str, error: &Error) -> Taken {
        storage::log_failure(error, "claim a task");
        let put_off = self.ledger.put_off(id, millis(self.options.lease)).await;
        if put_off.is_ok() { Taken::Moved } else { Taken::Stuck }
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
