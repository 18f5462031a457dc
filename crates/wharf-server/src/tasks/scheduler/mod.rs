//! One process's share in the tasks of its server: what it runs, what it takes up, whom it tells.

pub(crate) mod poll_loop;
pub(crate) mod slots;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak, atomic::Ordering},
    time::{Duration, Instant},
};

use wharf_model::{Bus, Caller, Error, RecordStore, Request, Sharing, Timer};
use wharf_store::{MemoryBus, MemoryRecords};

use crate::tasks::scheduler::slots::{Hearing, Looking};
pub(crate) use crate::tasks::scheduler::slots::{Place, Running, Waiting, Watch};
use crate::{
    key_ring::random_name,
    router::{caller_shares::Shares, state::Core},
    tasks::{
        memory_budget::Room,
        options::{TaskOptions, millis},
        run::state::{Link, Stop},
        runtime::Stage,
        storage,
        storage::{
            Ledger, TOPIC, WORK,
            record::{Claim, TaskRecord},
        },
        wakeup::{Bell, spawn},
    },
};

/// How many pieces of news wait for the loop; past that it looks at everything.
const NEWS: usize = 4096;
/// How many calls whose tasks found no room are remembered as they came.
const ORIGINALS: usize = 1024;

/// What the engine keeps, and where: by default in memory.
#[derive(Clone)]
pub(crate) struct TaskStorage {
    pub(crate) store: Arc<dyn RecordStore>,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) reach: Sharing,
}

impl Default for TaskStorage {
    fn default() -> Self {
        TaskStorage {
            store: Arc::new(MemoryRecords::default()),
            bus: Arc::new(MemoryBus::default()),
            reach: Sharing::Process,
        }
    }
}

pub(crate) struct Engine {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) options: Arc<TaskOptions>,
    pub(crate) room: Room,
    places: Shares,
    waits: Shares,
    reach: Sharing,
    node: OnceLock<String>,
    stage: Arc<Stage>,
    /// Wakes the loop.
    bell: Bell,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    runs: BTreeMap<String, Arc<Link>>,
    /// Places taken by runs, those included that have yet to begin.
    places: usize,
    /// True if a task found no place since the last look at the store.
    crowded: bool,
    /// Owners of due tasks that found no place, so that their records are not loaded on each look.
    waiting_owners: BTreeMap<String, String>,
    /// Calls whose tasks found no room yet: they still have what outer layers added to them.
    originals: VecDeque<Original>,
    news: BTreeSet<String>,
    missed: bool,
    /// Whether there may be something to take up.
    work: bool,
    watchers: BTreeMap<(String, u64), Arc<Bell>>,
    next_watcher: u64,
    waiting: usize,
    subscription: Option<Box<dyn std::any::Any + Send + Sync>>,
}

/// A call whose task waits for room, until it expires.
struct Original {
    id: String,
    request: Request,
    expires: Instant,
}

impl Engine {
    pub(crate) fn new(
        keeping: TaskStorage,
        options: Arc<TaskOptions>,
        stage: Arc<Stage>,
    ) -> Arc<Self> {
        let TaskStorage { store, bus, reach } = keeping;
        Arc::new(Engine {
            ledger: Arc::new(Ledger::new(store, bus)),
            room: Room::new(options.bytes),
            places: Shares::new(options.running),
            waits: Shares::new(options.waiting),
            options,
            reach,
            node: OnceLock::new(),
            stage,
            bell: Bell::default(),
            state: Mutex::default(),
        })
    }

    /// Whether tasks outlive this process.
    fn is_durable(&self) -> bool {
        self.reach > Sharing::Process
    }

    /// Begins to look after tasks, if nobody does so yet.
    pub(crate) fn start(self: &Arc<Self>, core: &Arc<Core>, timer: &Arc<dyn Timer>) {
        if self.is_stopped() || self.stage.started.swap(true, Ordering::AcqRel) {
            return;
        }
        let hearing: Weak<Engine> = Arc::downgrade(self);
        let subscription = self.ledger.bus().subscribe(TOPIC, Arc::new(Hearing(hearing)));
        let old = {
            let mut state = self.lock();
            state.work = true;
            state.subscription.replace(subscription)
        };
        drop(old);
        let looking = Looking(self.clone());
        let (core, timer) = (Arc::downgrade(core), timer.clone());
        if !spawn(async move { looking.0.look_after(&core, &timer).await }) {
            self.stage.started.store(false, Ordering::Release);
        }
    }

    /// Drops every run, after it was said that all is stopped.
    pub(crate) fn stop(&self) {
        let (runs, subscription, originals) = {
            let mut state = self.lock();
            let originals = mem::take(&mut state.originals);
            (mem::take(&mut state.runs), state.subscription.take(), originals)
        };
        runs.into_values().for_each(|link| link.stop(Stop::Lost));
        drop((subscription, originals));
        self.bell.ring();
    }

    /// Gives every run back in good order, after it was said that nothing more is taken up.
    pub(crate) async fn release(&self) {
        if !self.is_durable() {
            return;
        }
        let mut given = BTreeSet::new();
        loop {
            let runs = self.lock().runs.values().cloned().collect::<Vec<Arc<Link>>>();
            // A call may have become a task meanwhile.
            let Some(link) = runs.into_iter().find(|link| given.insert(link.id().to_owned()))
            else {
                return;
            };
            if link.hand_back().await {
                self.ledger.offer(link.id()).await;
            }
        }
    }

    /// Whether what begins now should begin elsewhere: this process is about to end, and the store
    /// outlives it.
    pub(crate) fn is_leaving(&self) -> bool {
        self.is_durable() && self.stage.draining.load(Ordering::Acquire)
    }

    fn is_stopped(&self) -> bool {
        self.stage.stopped.load(Ordering::Acquire)
    }

    /// How often there is a look for tasks whose holder is gone.
    pub(crate) fn beat(&self) -> Duration {
        self.options.lease / 3
    }

    /// A place for one run of this owner; `None` if none is free, or the owner has its share.
    pub(crate) fn enter(self: &Arc<Self>, owner: &str) -> Option<Place> {
        let mut state = self.lock();
        if self.is_stopped() {
            return None;
        }
        match self.places.claim(state.places, &storage::counted_caller(owner)) {
            Some(share) => {
                state.places += 1;
                Some(Place { engine: self.clone(), used: true, share })
            }
            None => {
                state.crowded = true;
                None
            }
        }
    }

    /// How long a task of this caller is kept, in milliseconds.
    pub(crate) fn ttl(&self, caller: &Caller, wanted: Option<u64>) -> u64 {
        let ttl = self.options.ttl(wanted);
        if self.room.is_tight(caller) { ttl.min(self.options.ttl(None)) } else { ttl }
    }

    /// As whom this process claims tasks.
    pub(crate) fn claim(&self) -> Result<Claim, Error> {
        let node = match self.node.get() {
            Some(node) => node.clone(),
            None => {
                let name = random_name()?;
                self.node.get_or_init(|| name).clone()
            }
        };
        Ok(Claim { node, lease: millis(self.options.lease) })
    }

    /// Notes a run, so that it is renewed and hears of answers; until what it returns is dropped.
    /// Of a task that others knew before, news may have come in the meantime.
    pub(crate) fn run(self: &Arc<Self>, link: &Arc<Link>, is_new: bool) -> Running {
        let stopped = {
            let mut state = self.lock();
            let id = link.id().to_owned();
            if !is_new {
                state.news.insert(id.clone());
            }
            state.runs.insert(id, link.clone());
            self.is_stopped()
        };
        if stopped {
            link.stop(Stop::Lost);
        }
        self.bell.ring();
        Running(self.clone(), link.clone())
    }

    /// Whether a task runs here, and its end has yet to be told.
    pub(crate) fn is_running(&self, id: &str) -> bool {
        self.lock().runs.contains_key(id)
    }

    /// Drops the run of a task that is over, if it is here.
    pub(crate) fn drop_run(&self, id: &str) {
        let link = self.lock().runs.remove(id);
        drop(self.original(id));
        // Less than it took, for nothing came of it.
        let _ = self.room.end(id, 0);
        if let Some(link) = link {
            link.stop(Stop::Lost);
        }
    }

    /// Remembers a call whose task found no room. The oldest gives way, and is made again from its
    /// record.
    pub(crate) fn remember(&self, record: &TaskRecord, request: Request, expires: Instant) {
        let gone = {
            let mut state = self.lock();
            let id = record.id.clone();
            state.waiting_owners.insert(id.clone(), record.owner.clone());
            state.originals.push_back(Original { id, request, expires });
            let full = state.originals.len() > ORIGINALS;
            if full { state.originals.pop_front() } else { None }
        };
        drop(gone);
    }

    fn original(&self, id: &str) -> Option<Request> {
        let mut state = self.lock();
        let index = state.originals.iter().position(|original| original.id == id)?;
        state.originals.remove(index).map(|original| original.request)
    }

    /// Forgets calls whose tasks expired before there was room for them.
    fn forget_expired(&self, now: Instant) {
        self.room.forget_expired(now);
        let mut state = self.lock();
        let (gone, kept) = mem::take(&mut state.originals)
            .into_iter()
            .partition::<VecDeque<_>, _>(|original| original.expires <= now);
        state.originals = kept;
        drop(state);
        drop(gone);
    }

    /// Rings when something may have happened to a task.
    pub(crate) fn watch(self: &Arc<Self>, id: &str) -> Watch {
        let mut state = self.lock();
        let key = (id.to_owned(), state.next_watcher);
        state.next_watcher += 1;
        let bell = Arc::new(Bell::default());
        state.watchers.insert(key.clone(), bell.clone());
        Watch { engine: self.clone(), key, bell }
    }

    /// A place among those who wait for the end of a task.
    pub(crate) fn wait(self: &Arc<Self>, caller: &Caller) -> Option<Waiting> {
        let mut state = self.lock();
        let _share = self.waits.claim(state.waiting, caller)?;
        state.waiting += 1;
        Some(Waiting { engine: self.clone(), _share })
    }

    fn hear(&self, message: &[u8]) {
        let (work, id) = match message {
            [WORK, id @ ..] => (true, id),
            id => (false, id),
        };
        let Ok(id) = std::str::from_utf8(id) else { return };
        let mut state = self.lock();
        state.work |= work;
        if state.news.len() < NEWS {
            state.news.insert(id.to_owned());
        } else {
            state.missed = true;
        }
        let first = (id.to_owned(), 0);
        let bells = state.watchers.range(first..).take_while(|((it, _), _)| it == id);
        let bells: Vec<Arc<Bell>> = bells.map(|(_, bell)| bell.clone()).collect();
        drop(state);
        bells.iter().for_each(|bell| bell.ring());
        self.bell.ring();
    }

    fn missed(&self) {
        let mut state = self.lock();
        (state.missed, state.work) = (true, true);
        let bells: Vec<Arc<Bell>> = state.watchers.values().cloned().collect();
        drop(state);
        bells.iter().for_each(|bell| bell.ring());
        self.bell.ring();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
