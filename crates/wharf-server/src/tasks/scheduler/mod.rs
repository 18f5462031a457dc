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

use crate::tasks::scheduler::slots::{LoopGuard, TaskBusSubscriber};
pub(crate) use crate::tasks::scheduler::slots::{RegisteredRun, RunSlot, TaskWatch, WaitSlot};
use crate::{
    key_ring::random_name,
    router::{caller_shares::CallerShares, state::ServerState},
    tasks::{
        memory_budget::TaskMemoryBudget,
        options::{TaskOptions, millis},
        run::state::{StopReason, TaskRun},
        runtime::LifecycleFlags,
        storage,
        storage::{
            DUE_MARK, TOPIC, TaskStore,
            record::{TaskClaim, TaskRecord},
        },
        wakeup::{WakeSignal, spawn},
    },
};

/// How many pieces of news wait for the loop; past that it looks at everything.
const MAX_CHANGED_TASKS: usize = 4096;
/// How many calls whose tasks found no room are remembered as they came.
const MAX_ORIGINAL_CALLS: usize = 1024;

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

pub(crate) struct TaskScheduler {
    pub(crate) task_store: Arc<TaskStore>,
    pub(crate) options: Arc<TaskOptions>,
    pub(crate) memory: TaskMemoryBudget,
    slots: CallerShares,
    waits: CallerShares,
    reach: Sharing,
    node: OnceLock<String>,
    lifecycle: Arc<LifecycleFlags>,
    /// Wakes the loop.
    wake_signal: WakeSignal,
    state: Mutex<SchedulerState>,
}

#[derive(Default)]
struct SchedulerState {
    runs: BTreeMap<String, Arc<TaskRun>>,
    /// Places taken by runs, those included that have yet to begin.
    slots: usize,
    /// True if a task found no place since the last look at the store.
    slots_full: bool,
    /// Owners of due tasks that found no place, so that their records are not loaded on each look.
    waiting_owners: BTreeMap<String, String>,
    /// Calls whose tasks found no room yet: they still have what outer layers added to them.
    originals: VecDeque<OriginalCall>,
    changed: BTreeSet<String>,
    missed: bool,
    /// Whether there may be something to take up.
    work: bool,
    watchers: BTreeMap<(String, u64), Arc<WakeSignal>>,
    next_watcher: u64,
    waiting: usize,
    subscription: Option<Box<dyn std::any::Any + Send + Sync>>,
}

/// A call whose task waits for room, until it expires.
struct OriginalCall {
    id: String,
    request: Request,
    expires: Instant,
}

impl TaskScheduler {
    pub(crate) fn new(
        task_storage: TaskStorage,
        options: Arc<TaskOptions>,
        lifecycle: Arc<LifecycleFlags>,
    ) -> Arc<Self> {
        let TaskStorage { store, bus, reach } = task_storage;
        Arc::new(TaskScheduler {
            task_store: Arc::new(TaskStore::new(store, bus)),
            memory: TaskMemoryBudget::new(options.bytes),
            slots: CallerShares::new(options.running),
            waits: CallerShares::new(options.waiting),
            options,
            reach,
            node: OnceLock::new(),
            lifecycle,
            wake_signal: WakeSignal::default(),
            state: Mutex::default(),
        })
    }

    /// Whether tasks outlive this process.
    fn is_durable(&self) -> bool {
        self.reach > Sharing::Process
    }

    /// Begins to look after tasks, if nobody does so yet.
    pub(crate) fn start(self: &Arc<Self>, server: &Arc<ServerState>, timer: &Arc<dyn Timer>) {
        if self.is_stopped() || self.lifecycle.started.swap(true, Ordering::AcqRel) {
            return;
        }
        let weak: Weak<TaskScheduler> = Arc::downgrade(self);
        let subscription =
            self.task_store.bus().subscribe(TOPIC, Arc::new(TaskBusSubscriber(weak)));
        let old = {
            let mut state = self.lock();
            state.work = true;
            state.subscription.replace(subscription)
        };
        drop(old);
        let guard = LoopGuard(self.clone());
        let (server, timer) = (Arc::downgrade(server), timer.clone());
        if !spawn(async move { guard.0.run_loop(&server, &timer).await }) {
            self.lifecycle.started.store(false, Ordering::Release);
        }
    }

    /// Drops every run, after it was said that all is stopped.
    pub(crate) fn stop(&self) {
        let (runs, subscription, originals) = {
            let mut state = self.lock();
            let originals = mem::take(&mut state.originals);
            (mem::take(&mut state.runs), state.subscription.take(), originals)
        };
        runs.into_values().for_each(|task_run| task_run.stop(StopReason::Lost));
        drop((subscription, originals));
        self.wake_signal.notify();
    }

    /// Gives every run back in good order, after it was said that nothing more is taken up.
    pub(crate) async fn release(&self) {
        if !self.is_durable() {
            return;
        }
        let mut given = BTreeSet::new();
        loop {
            let runs = self.lock().runs.values().cloned().collect::<Vec<Arc<TaskRun>>>();
            // A call may have become a task meanwhile.
            let Some(task_run) =
                runs.into_iter().find(|task_run| given.insert(task_run.id().to_owned()))
            else {
                return;
            };
            if task_run.release_for_shutdown().await {
                self.task_store.publish_due(task_run.id()).await;
            }
        }
    }

    /// Whether what begins now should begin elsewhere: this process is about to end, and the store
    /// outlives it.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_durable() && self.lifecycle.draining.load(Ordering::Acquire)
    }

    fn is_stopped(&self) -> bool {
        self.lifecycle.stopped.load(Ordering::Acquire)
    }

    /// How often there is a look for tasks whose holder is gone.
    pub(crate) fn heartbeat_interval(&self) -> Duration {
        self.options.lease / 3
    }

    /// A place for one run of this owner; `None` if none is free, or the owner has its share.
    pub(crate) fn acquire_slot(self: &Arc<Self>, owner: &str) -> Option<RunSlot> {
        let mut state = self.lock();
        if self.is_stopped() {
            return None;
        }
        match self.slots.claim(state.slots, &storage::counted_caller(owner)) {
            Some(share) => {
                state.slots += 1;
                Some(RunSlot { scheduler: self.clone(), used: true, share })
            }
            None => {
                state.slots_full = true;
                None
            }
        }
    }

    /// How long a task of this caller is kept, in milliseconds.
    pub(crate) fn ttl(&self, caller: &Caller, wanted: Option<u64>) -> u64 {
        let ttl = self.options.ttl(wanted);
        if self.memory.is_nearly_full(caller) { ttl.min(self.options.ttl(None)) } else { ttl }
    }

    /// As whom this process claims tasks.
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

    /// Notes a run, so that it is renewed and hears of answers; until what it returns is dropped.
    /// Of a task that others knew before, news may have come in the meantime.
    pub(crate) fn register_run(
        self: &Arc<Self>,
        task_run: &Arc<TaskRun>,
        is_new: bool,
    ) -> RegisteredRun {
        let stopped = {
            let mut state = self.lock();
            let id = task_run.id().to_owned();
            if !is_new {
                state.changed.insert(id.clone());
            }
            state.runs.insert(id, task_run.clone());
            self.is_stopped()
        };
        if stopped {
            task_run.stop(StopReason::Lost);
        }
        self.wake_signal.notify();
        RegisteredRun(self.clone(), task_run.clone())
    }

    /// Whether a task runs here, and its end has yet to be told.
    pub(crate) fn is_running(&self, id: &str) -> bool {
        self.lock().runs.contains_key(id)
    }

    /// Drops the run of a task that is over, if it is here.
    pub(crate) fn drop_run(&self, id: &str) {
        let task_run = self.lock().runs.remove(id);
        drop(self.take_original(id));
        // Less than it took, for nothing came of it.
        let _ = self.memory.resize(id, 0);
        if let Some(task_run) = task_run {
            task_run.stop(StopReason::Lost);
        }
    }

    /// Remembers a call whose task found no room. The oldest gives way, and is made again from its
    /// record.
    pub(crate) fn keep_original(&self, record: &TaskRecord, request: Request, expires: Instant) {
        let gone = {
            let mut state = self.lock();
            let id = record.id.clone();
            state.waiting_owners.insert(id.clone(), record.owner.clone());
            state.originals.push_back(OriginalCall { id, request, expires });
            let full = state.originals.len() > MAX_ORIGINAL_CALLS;
            if full { state.originals.pop_front() } else { None }
        };
        drop(gone);
    }

    fn take_original(&self, id: &str) -> Option<Request> {
        let mut state = self.lock();
        let index = state.originals.iter().position(|take_original| take_original.id == id)?;
        state.originals.remove(index).map(|take_original| take_original.request)
    }

    /// Forgets calls whose tasks expired before there was room for them.
    fn remove_expired(&self, now: Instant) {
        self.memory.remove_expired(now);
        let mut state = self.lock();
        let (gone, kept) = mem::take(&mut state.originals)
            .into_iter()
            .partition::<VecDeque<_>, _>(|take_original| take_original.expires <= now);
        state.originals = kept;
        drop(state);
        drop(gone);
    }

    /// Rings when something may have happened to a task.
    pub(crate) fn watch(self: &Arc<Self>, id: &str) -> TaskWatch {
        let mut state = self.lock();
        let key = (id.to_owned(), state.next_watcher);
        state.next_watcher += 1;
        let wake_signal = Arc::new(WakeSignal::default());
        state.watchers.insert(key.clone(), wake_signal.clone());
        TaskWatch { scheduler: self.clone(), key, wake_signal }
    }

    /// A place among those who wait for the end of a task.
    pub(crate) fn acquire_wait_slot(self: &Arc<Self>, caller: &Caller) -> Option<WaitSlot> {
        let mut state = self.lock();
        let _share = self.waits.claim(state.waiting, caller)?;
        state.waiting += 1;
        Some(WaitSlot { scheduler: self.clone(), _share })
    }

    fn receive(&self, message: &[u8]) {
        let (work, id) = match message {
            [DUE_MARK, id @ ..] => (true, id),
            id => (false, id),
        };
        let Ok(id) = std::str::from_utf8(id) else { return };
        let mut state = self.lock();
        state.work |= work;
        if state.changed.len() < MAX_CHANGED_TASKS {
            state.changed.insert(id.to_owned());
        } else {
            state.missed = true;
        }
        let first = (id.to_owned(), 0);
        let signals = state.watchers.range(first..).take_while(|((it, _), _)| it == id);
        let signals: Vec<Arc<WakeSignal>> =
            signals.map(|(_, wake_signal)| wake_signal.clone()).collect();
        drop(state);
        signals.iter().for_each(|wake_signal| wake_signal.notify());
        self.wake_signal.notify();
    }

    fn on_missed(&self) {
        let mut state = self.lock();
        (state.missed, state.work) = (true, true);
        let signals: Vec<Arc<WakeSignal>> = state.watchers.values().cloned().collect();
        drop(state);
        signals.iter().for_each(|wake_signal| wake_signal.notify());
        self.wake_signal.notify();
    }

    fn lock(&self) -> MutexGuard<'_, SchedulerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
