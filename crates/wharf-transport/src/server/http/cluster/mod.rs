//! Cluster: several processes that serve the same clients with shared stores.
//!
//! State that another process needs is in the stores before it takes effect. The bus only announces changes,
//! and every process also polls, so a lost message delays a process and does no other harm. Each process writes
//! a heartbeat (`heartbeat`); waits for a process without one are ended.

pub(crate) mod heartbeat;
pub(crate) mod message;
mod session_digest;
mod store_availability;

use std::{
    future::Future,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use wharf_model::{Sharing, Stores};

use crate::Shutdown;
use crate::task_set::TaskSet;

pub(crate) use crate::server::http::cluster::{
    message::{ALL_NODES, BusReceiver, ClusterMessage},
    session_digest::{digest, hex},
    store_availability::{STORE_UNAVAILABLE, StoreUnavailable},
};

/// Interval at which the store is polled, in case a bus message was lost.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Low bits of a client request's number that count requests; the high bits are the node number.
const REQUEST_COUNTER_BITS: u32 = 20;

/// Membership of this process in the cluster.
pub(crate) struct Cluster {
    pub(crate) stores: Stores,
    /// Random number of this process.
    pub(crate) node: u32,
    /// Time since when the stores have answered; none while they do not.
    health: watch::Sender<Option<Instant>>,
    /// Notified when a store operation failed, so that the heartbeat checks the stores.
    check_now: Notify,
    /// Notified when this process's mailbox may have mail.
    pub(crate) mail_arrived: Notify,
    tickets: AtomicU64,
    started: AtomicBool,
    /// Weak, because the spawned tasks hold the cluster.
    tasks: Weak<TaskSet>,
    pub(crate) shutdown: Shutdown,
}

impl Cluster {
    /// Joins a cluster. None if the stores are not shared, or if the system has no randomness.
    pub(crate) fn new(
        stores: Option<&Stores>,
        tasks: &Arc<TaskSet>,
        shutdown: &Shutdown,
    ) -> Option<Arc<Self>> {
        let stores = stores.filter(|stores| stores.sharing == Sharing::Cluster)?.clone();
        let mut node = [0; 4];
        getrandom::fill(&mut node).ok()?;
        Some(Arc::new(Cluster {
            stores,
            // Never zero: without a cluster, client requests are numbered from one and have node bits of zero.
            node: u32::from_ne_bytes(node).max(1),
            health: watch::Sender::new(Some(Instant::now())),
            check_now: Notify::new(),
            mail_arrived: Notify::new(),
            tickets: AtomicU64::new(0),
            started: AtomicBool::new(false),
            tasks: Arc::downgrade(tasks),
            shutdown: shutdown.clone(),
        }))
    }

    /// Starts the heartbeat, once.
    pub(crate) fn start(self: &Arc<Self>) -> bool {
        let first = !self.started.swap(true, Ordering::AcqRel);
        if first {
            self.spawn_background(heartbeat::run(self.clone()));
        }
        first
    }

    /// Returns whether the heartbeat was started: a process that serves no sessions needs none.
    pub(crate) fn has_started(&self) -> bool {
        self.started.load(Ordering::Acquire)
    }

    /// Spawns a task that runs while calls may be in flight, and is aborted afterwards.
    pub(crate) fn spawn_background(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(tasks) = self.tasks.upgrade() {
            tasks.spawn_background(task);
        }
    }

    /// Spawns a task that runs to its end, within the grace period on shutdown.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(tasks) = self.tasks.upgrade() {
            tasks.spawn(task);
        }
    }

    /// Publishes a message on the bus. Receivers also poll, so a lost message only delays them.
    pub(crate) async fn publish(
        &self,
        message: &ClusterMessage<'_>,
    ) -> Result<(), StoreUnavailable> {
        self.store_call(self.stores.bus.publish(message::TOPIC, message.to_bytes())).await
    }

    /// Returns a number that is unique in the cluster.
    pub(crate) fn next_ticket(&self) -> u64 {
        u64::from(self.node) << 32 | self.tickets.fetch_add(1, Ordering::Relaxed) & 0xffff_ffff
    }

    /// First number of this process's client requests. It contains the node number, so that any process can
    /// route the response.
    pub(crate) fn first_request_number(&self) -> u64 {
        u64::from(self.node) << REQUEST_COUNTER_BITS
    }

    /// Returns the node that sent the client request with this number, if it is another one.
    pub(crate) fn request_owner(&self, question: u64) -> Option<u32> {
        let node = u32::try_from(question >> REQUEST_COUNTER_BITS).ok()?;
        (node != 0 && node != self.node).then_some(node)
    }
}
