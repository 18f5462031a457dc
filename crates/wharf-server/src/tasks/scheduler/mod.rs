//! Task scheduler of one process: claims due tasks, tracks runs and notifies subscribers.

pub(crate) mod claim;
mod original_calls;
pub(crate) mod poll_loop;
pub(crate) mod slots;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    sync::{Arc, MutexGuard, OnceLock, Weak, atomic::Ordering},
};

use wharf_model::{Bus, Caller, Lock, Observers, RecordStore, Sharing, TaskChange, Timer};
use wharf_store::{MemoryBus, MemoryRecords};

pub(crate) use crate::tasks::scheduler::slots::{RegisteredRun, RunSlot, TaskWatch, WaitSlot};
use crate::tasks::scheduler::{
    original_calls::OriginalCall,
    slots::{LoopGuard, TaskBusSubscriber},
};
use crate::{
    router::{caller_shares::CallerShares, state::ServerState},
    tasks::{
        memory_budget::TaskMemoryBudget,
        options::TaskOptions,
        run::state::{StopReason, TaskRun},
        runtime::LifecycleFlags,
        storage::{DUE_MARK, TOPIC, TaskStore},
        wakeup::{WakeSignal, spawn},
    },
};

/// Maximum number of changed tasks queued for the loop; beyond that it checks all tasks.
const MAX_CHANGED_TASKS: usize = 4096;

/// Record store and bus of the tasks; in memory by default.
#[derive(Clone)]
pub(crate) struct TaskStorage {
    pub(crate) store: Arc<dyn RecordStore>,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) sharing: Sharing,
}

impl Default for TaskStorage {
    fn default() -> Self {
        TaskStorage {
            store: Arc::new(MemoryRecords::default()),
            bus: Arc::new(MemoryBus::default()),
            sharing: Sharing::Process,
        }
    }
}

pub(crate) struct TaskScheduler {
    pub(crate) task_store: Arc<TaskStore>,
    pub(crate) options: Arc<TaskOptions>,
    pub(crate) memory: TaskMemoryBudget,
    slots: CallerShares,
    waits: CallerShares,
    sharing: Sharing,
    node: OnceLock<String>,
    lifecycle: Arc<LifecycleFlags>,
    /// Wakes the loop.
    wake_signal: WakeSignal,
    state: Lock<SchedulerState>,
}

#[derive(Default)]
struct SchedulerState {
    runs: BTreeMap<String, Arc<TaskRun>>,
    /// Slots in use, including those of runs that have not started yet.
    slots: usize,
    /// True if a task found no free slot since the last scan of the store.
    slots_full: bool,
    /// Owners of due tasks without a free slot, so that their records are not loaded in each scan.
    waiting_owners: BTreeMap<String, String>,
    /// Original requests of tasks without a free slot: they still have the extensions of outer
    /// layers.
    originals: VecDeque<OriginalCall>,
    changed: BTreeSet<String>,
    missed: bool,
    /// True if there may be due tasks.
    work: bool,
    watchers: BTreeMap<(String, u64), Arc<WakeSignal>>,
    next_watcher: u64,
    waiting: usize,
    subscription: Option<Box<dyn std::any::Any + Send + Sync>>,
}

impl TaskScheduler {
    pub(crate) fn new(
        task_storage: TaskStorage,
        options: Arc<TaskOptions>,
        lifecycle: Arc<LifecycleFlags>,
        observers: Observers,
    ) -> Arc<Self> {
        let TaskStorage { store, bus, sharing } = task_storage;
        Arc::new(TaskScheduler {
            task_store: Arc::new(TaskStore::new(store, bus, observers)),
            memory: TaskMemoryBudget::new(options.bytes),
            slots: CallerShares::new(options.running),
            waits: CallerShares::new(options.waiting),
            options,
            sharing,
            node: OnceLock::new(),
            lifecycle,
            wake_signal: WakeSignal::default(),
            state: Lock::default(),
        })
    }

    /// Returns whether tasks outlive this process.
    fn is_durable(&self) -> bool {
        self.sharing > Sharing::Process
    }

    /// Starts the loop, unless it is running.
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

    /// Drops every run. The stopped flag must be set before.
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

    /// Releases every run for graceful shutdown. The draining flag must be set before.
    pub(crate) async fn release(&self) {
        if !self.is_durable() {
            return;
        }
        let mut given = BTreeSet::new();
        loop {
            let runs = self.lock().runs.values().cloned().collect::<Vec<Arc<TaskRun>>>();
            // A call may have been promoted to a task meanwhile.
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

    /// Returns whether new tasks should start in another process: this one is shutting down, and
    /// the store is durable.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_durable() && self.lifecycle.draining.load(Ordering::Acquire)
    }

    fn is_stopped(&self) -> bool {
        self.lifecycle.stopped.load(Ordering::Acquire)
    }

    /// Registers a run, so that it is notified of responses, until the returned guard is dropped. A
    /// task that is not new may have changed in the meantime.
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
        task_run.observe(TaskChange::Started);
        self.wake_signal.notify();
        RegisteredRun(self.clone(), task_run.clone())
    }

    /// Returns whether a task runs here, so that its end will still be published.
    pub(crate) fn is_running(&self, id: &str) -> bool {
        self.lock().runs.contains_key(id)
    }

    /// Drops the local run of a task that has ended.
    pub(crate) fn drop_run(&self, id: &str) {
        let task_run = self.lock().runs.remove(id);
        drop(self.take_original(id));
        // Cannot fail: the size shrinks, since there is no result.
        let _ = self.memory.resize(id, 0);
        if let Some(task_run) = task_run {
            task_run.stop(StopReason::Lost);
        }
    }

    /// Watches a task: the signal is notified when the task may have changed.
    pub(crate) fn watch(self: &Arc<Self>, id: &str) -> TaskWatch {
        let mut state = self.lock();
        let key = (id.to_owned(), state.next_watcher);
        state.next_watcher += 1;
        let wake_signal = Arc::new(WakeSignal::default());
        state.watchers.insert(key.clone(), wake_signal.clone());
        TaskWatch { scheduler: self.clone(), key, wake_signal }
    }

    /// Acquires a slot for a call that waits for the end of a task.
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
        self.state.lock()
    }
}
