//! This process among others that serve the same clients, with stores that all of them share.
//!
//! Whatever another process must know is in the stores before it counts; the bus only says where to
//! look, so that a word that is lost costs time and nothing else. A process says that it is alive
//! ([`beat`]), and whoever waits for one that is not stops waiting.

pub(crate) mod heartbeat;
pub(crate) mod message;

use std::{
    future::Future,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use sha2::{Digest, Sha256};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, timeout},
};
use wharf_model::{Error, ErrorKind, Sharing, Stored, Stores};

use crate::Shutdown;
use crate::task_set::TaskSet;

pub(crate) use crate::server::http::cluster::message::{ALL_NODES, BusReceiver, ClusterMessage};

/// How long a store may take.
const STORE_TIMEOUT: Duration = Duration::from_secs(5);
/// After how long what somebody waits for is looked for, if nobody tells.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// When a client may try again that needs a store which is gone.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How many bits of a question's number count the questions; the others name the process.
const REQUEST_COUNTER_BITS: u32 = 20;

/// This process among others.
pub(crate) struct Cluster {
    pub(crate) stores: Stores,
    /// Names this process among those that are alive.
    pub(crate) node: u32,
    /// Since when the stores answer; none while they do not.
    health: watch::Sender<Option<Instant>>,
    /// Told when a store failed somebody.
    check_now: Notify,
    /// Told when there may be something in this process's mailbox.
    pub(crate) mail_arrived: Notify,
    tickets: AtomicU64,
    started: AtomicBool,
    /// What is spawned there knows this, and must not keep it alive.
    tasks: Weak<TaskSet>,
    pub(crate) shutdown: Shutdown,
}

/// The stores cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoreUnavailable;

impl StoreUnavailable {
    /// What a client is told whose call needs the stores.
    pub(crate) fn error(self) -> Error {
        let millis = RETRY_AFTER.as_millis() as u64;
        let data = serde_json::json!({ "retryAfterMs": millis });
        Error::new(ErrorKind::TemporarilyUnavailable)
            .with_message(STORE_UNAVAILABLE)
            .with_data(data)
    }
}

/// Why something is refused for want of a store.
pub(crate) const STORE_UNAVAILABLE: &str =
    "The store that this needs cannot be reached, or is full: try again later";

impl Cluster {
    /// None unless the stores are shared, or if the system has no randomness to give.
    pub(crate) fn new(
        stores: Option<&Stores>,
        tasks: &Arc<TaskSet>,
        shutdown: &Shutdown,
    ) -> Option<Arc<Self>> {
        let stores = stores.filter(|stores| stores.reach == Sharing::Fleet)?.clone();
        let mut node = [0; 4];
        getrandom::fill(&mut node).ok()?;
        Some(Arc::new(Cluster {
            stores,
            // Zero is nobody's: questions of servers without a fleet are numbered from one.
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

    /// Begins to be alive for the others, once.
    pub(crate) fn start(self: &Arc<Self>) -> bool {
        let first = !self.started.swap(true, Ordering::AcqRel);
        if first {
            self.spawn_background(heartbeat::run(self.clone()));
        }
        first
    }

    /// Runs something for as long as calls may be under way.
    pub(crate) fn spawn_background(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(tasks) = self.tasks.upgrade() {
            tasks.spawn_background(task);
        }
    }

    /// Runs something to its end, within the grace if the server shuts down.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(tasks) = self.tasks.upgrade() {
            tasks.spawn(task);
        }
    }

    /// What a store says, unless it is gone, or takes too long.
    pub(crate) async fn store_call<T>(&self, operation: Stored<T>) -> Result<T, StoreUnavailable> {
        if self.stores_unavailable() {
            return Err(StoreUnavailable);
        }
        match timeout(STORE_TIMEOUT, operation).await {
            Ok(Ok(answer)) => Ok(answer),
            _ => {
                self.check_now.notify_one();
                Err(StoreUnavailable)
            }
        }
    }

    /// Whether the stores were gone when somebody last looked.
    pub(crate) fn stores_unavailable(&self) -> bool {
        self.health.borrow().is_none()
    }

    /// Whether the stores answer now.
    pub(crate) async fn is_ready(&self) -> bool {
        !self.stores_unavailable() && self.store_call(self.stores.sessions.now()).await.is_ok()
    }

    /// Waits a while, and until the stores are back.
    pub(crate) async fn wait_until_available(&self) {
        tokio::time::sleep(jitter(RETRY_AFTER / 4)).await;
        let _ = self.health.subscribe().wait_for(Option::is_some).await;
    }

    /// Tells the other processes something. Nothing is lost if they do not hear it but time.
    pub(crate) async fn publish(
        &self,
        message: &ClusterMessage<'_>,
    ) -> Result<(), StoreUnavailable> {
        self.store_call(self.stores.bus.publish(message::TOPIC, message.to_bytes())).await
    }

    /// A number that no other process gives, and that this one gives once.
    pub(crate) fn next_ticket(&self) -> u64 {
        u64::from(self.node) << 32 | self.tickets.fetch_add(1, Ordering::Relaxed) & 0xffff_ffff
    }

    /// From where on this process numbers its questions: whoever gets the answer knows whose it is.
    pub(crate) fn first_request_number(&self) -> u64 {
        u64::from(self.node) << REQUEST_COUNTER_BITS
    }

    /// The process that asked the question of this number, if it is another.
    pub(crate) fn request_owner(&self, question: u64) -> Option<u32> {
        let node = u32::try_from(question >> REQUEST_COUNTER_BITS).ok()?;
        (node != 0 && node != self.node).then_some(node)
    }
}

/// Between one and two times as long, so that not all processes come back at once.
fn jitter(least: Duration) -> Duration {
    let mut random = [0; 1];
    let _ = getrandom::fill(&mut random);
    least + least * u32::from(random[0]) / 256
}

/// By what stores know something whose name only its owner should know.
pub(crate) fn digest(name: &[u8]) -> [u8; 32] {
    Sha256::digest(name).into()
}

/// The digits of a digest.
pub(crate) fn hex(digest: &[u8]) -> String {
    use std::fmt::Write as _;
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
