//! One process's share in the tasks of its server: what it runs, what it takes up, whom it tells.

mod tend;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use wharf_model::{Bus, Ear, Error, Reach, RecordStore, Request, Timer};

use crate::{
    core::Core,
    seal::random_name,
    tasks::{
        bell::{Bell, spawn},
        ledger::{Ledger, TOPIC, WORK},
        link::{Link, Stop},
        options::{TaskOptions, millis},
        record::Claim,
    },
};

/// How many pieces of news wait for the loop; past that it looks at everything.
const NEWS: usize = 4096;
/// How many calls whose tasks found no room are remembered as they came.
const ORIGINALS: usize = 1024;

/// What the engine keeps, and where.
pub(crate) struct Keeping {
    pub(crate) store: Arc<dyn RecordStore>,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) reach: Reach,
}

pub(crate) struct Engine {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) options: Arc<TaskOptions>,
    reach: Reach,
    node: OnceLock<String>,
    started: AtomicBool,
    stopped: AtomicBool,
    /// Nothing more is taken up.
    draining: AtomicBool,
    /// Wakes the loop.
    bell: Bell,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    runs: BTreeMap<String, Arc<Link>>,
    /// Places taken by runs, those included that have yet to begin.
    places: usize,
    /// Calls whose tasks found no room yet: they still have what outer layers added to them.
    originals: VecDeque<(String, Request)>,
    news: BTreeSet<String>,
    missed: bool,
    /// Whether there may be something to take up.
    work: bool,
    watchers: BTreeMap<(String, u64), Arc<Bell>>,
    next_watcher: u64,
    waiting: usize,
    subscription: Option<Box<dyn std::any::Any + Send + Sync>>,
}

impl Engine {
    pub(crate) fn new(keeping: Keeping, options: TaskOptions) -> Arc<Self> {
        let Keeping { store, bus, reach } = keeping;
        Arc::new(Engine {
            ledger: Arc::new(Ledger::new(store, bus)),
            options: Arc::new(options),
            reach,
            node: OnceLock::new(),
            started: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            bell: Bell::default(),
            state: Mutex::default(),
        })
    }

    /// Whether tasks outlive this process.
    fn is_durable(&self) -> bool {
        self.reach > Reach::Process
    }

    /// Whether several processes share the tasks.
    pub(crate) fn is_shared(&self) -> bool {
        self.reach == Reach::Fleet
    }

    /// Whether there may be tasks of other processes, and nobody here looks after them.
    pub(crate) fn must_start(&self) -> bool {
        self.is_durable() && !self.started.load(Ordering::Acquire)
    }

    /// Begins to look after tasks, if nobody does so yet.
    pub(crate) fn start(self: &Arc<Self>, core: &Arc<Core>, timer: &Arc<dyn Timer>) {
        if self.is_stopped() || self.started.swap(true, Ordering::AcqRel) {
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
            self.started.store(false, Ordering::Release);
        }
    }

    /// Drops every run, as if the process had ended: somebody else takes over when leases lapse.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        let (runs, subscription, originals) = {
            let mut state = self.lock();
            let originals = mem::take(&mut state.originals);
            (mem::take(&mut state.runs), state.subscription.take(), originals)
        };
        runs.into_values().for_each(|link| link.stop(Stop::Lost));
        drop((subscription, originals));
        self.bell.ring();
    }

    /// Takes up nothing more. What runs goes on.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Gives every run back in good order, for another process to go on with at once.
    pub(crate) async fn release(&self) {
        self.drain();
        if !self.is_durable() {
            return;
        }
        let runs: Vec<Arc<Link>> = self.lock().runs.values().cloned().collect();
        for link in runs {
            if link.hand_back().await {
                self.ledger.offer(link.id()).await;
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// How often there is a look for tasks whose holder is gone.
    pub(crate) fn beat(&self) -> Duration {
        self.options.lease / 3
    }

    /// A place for one run; `None` if there is no room.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Place> {
        let mut state = self.lock();
        let room = state.places < self.options.running && !self.is_stopped();
        room.then(|| {
            state.places += 1;
            Place(self.clone())
        })
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

    /// Drops the run of a task that is over, if it is here.
    pub(crate) fn drop_run(&self, id: &str) {
        let link = self.lock().runs.remove(id);
        drop(self.original(id));
        if let Some(link) = link {
            link.stop(Stop::Lost);
        }
    }

    /// Remembers a call whose task found no room. The oldest gives way, and is made again from its
    /// record.
    pub(crate) fn remember(&self, id: &str, request: Request) {
        let gone = {
            let mut state = self.lock();
            state.originals.push_back((id.to_owned(), request));
            let full = state.originals.len() > ORIGINALS;
            if full { state.originals.pop_front() } else { None }
        };
        drop(gone);
    }

    fn original(&self, id: &str) -> Option<Request> {
        let mut state = self.lock();
        let index = state.originals.iter().position(|(it, _)| it == id)?;
        state.originals.remove(index).map(|(_, request)| request)
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
    pub(crate) fn wait(self: &Arc<Self>) -> Option<Waiting> {
        let mut state = self.lock();
        (state.waiting < self.options.waiting).then(|| {
            state.waiting += 1;
            Waiting(self.clone())
        })
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

/// A place among the runs, given up when dropped.
pub(crate) struct Place(Arc<Engine>);

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        // Somebody may have found no room.
        state.work |= state.places >= self.0.options.running;
        state.places -= 1;
        let work = state.work;
        drop(state);
        if work {
            self.0.bell.ring();
        }
    }
}

/// A run that is noted.
pub(crate) struct Running(Arc<Engine>, Arc<Link>);

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        // Another run of the same task may have taken its place.
        if state.runs.get(self.1.id()).is_some_and(|link| Arc::ptr_eq(link, &self.1)) {
            state.runs.remove(self.1.id());
        }
    }
}

/// Somebody who waits for news of one task.
pub(crate) struct Watch {
    engine: Arc<Engine>,
    key: (String, u64),
    pub(crate) bell: Arc<Bell>,
}

impl Watch {
    /// When to look without news: some may have been lost.
    pub(crate) fn patience(&self, timer: &dyn Timer) -> Instant {
        timer.now() + self.engine.beat()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.engine.lock().watchers.remove(&self.key);
    }
}

/// A place among those who wait for the end of a task.
pub(crate) struct Waiting(Arc<Engine>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}

/// The loop is over when this is dropped: with its runtime, perhaps. Another may begin.
struct Looking(Arc<Engine>);

impl Drop for Looking {
    fn drop(&mut self) {
        self.0.started.store(false, Ordering::Release);
    }
}

/// Hears news of tasks for an engine, for as long as there is one.
struct Hearing(Weak<Engine>);

impl Ear for Hearing {
    fn hear(&self, _topic: &str, message: &[u8]) {
        if let Some(engine) = self.0.upgrade() {
            engine.hear(message);
        }
    }

    fn missed(&self) {
        if let Some(engine) = self.0.upgrade() {
            engine.missed();
        }
    }
}
