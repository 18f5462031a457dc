//! Heartbeat: detects processes of the cluster that have died.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, timeout};
use wharf_model::{Error, Record};

use crate::server::http::cluster::{Cluster, StoreUnavailable, store_availability::jitter};

/// Interval of the heartbeat.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(3);
/// Time after which a process without a heartbeat counts as dead.
const HEARTBEAT_TTL: Duration = Duration::from_secs(15);
/// Time that the stores must have answered before a missing heartbeat counts. A live process has reconnected
/// and written one by then.
const STORES_STABLE_AFTER: Duration = Duration::from_secs(8);
/// TTL of the record that the stores are up. It is shorter than an outage that expires heartbeats, so that such
/// an outage restarts the period.
const STORES_UP_TTL: Duration = Duration::from_secs(10);
/// Key of the record whose age is the time that the stores have answered without interruption.
const STORES_UP_RECORD: &str = "node.up";
/// Longest duration of a heartbeat.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(2);
/// Largest number of expired sessions that one heartbeat removes.
const MAX_SWEPT_SESSIONS: usize = 500;
/// Largest number of processes that a mail is sent to.
const MAX_NODES: usize = 1024;
/// Shortest delay before an unavailable store is retried.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// Owner of the heartbeat records.
const NODE_OWNER: &str = "nodes";

/// Writes the heartbeat of this process at intervals, and tracks the health of the stores.
pub(super) async fn run(cluster: Arc<Cluster>) {
    // Errors of the stores are reported by the stores; only a store that does not answer is logged here.
    let mut has_hung = false;
    loop {
        let result = timeout(HEARTBEAT_TIMEOUT, heartbeat(&cluster)).await;
        let is_up = matches!(result, Ok(Ok(())));
        let changed = cluster.health.send_if_modified(|health| {
            let changed = is_up != health.is_some();
            if changed {
                *health = is_up.then(Instant::now);
            }
            changed
        });
        match result {
            Ok(Ok(())) if has_hung => {
                has_hung = false;
                tracing::info!("reached the stores of the cluster again");
            }
            Err(_) if changed => {
                has_hung = true;
                tracing::error!("cannot reach the stores of the cluster: heartbeat timed out");
            }
            _ => {}
        }
        let wait = if is_up { HEARTBEAT_INTERVAL } else { jitter(RETRY_DELAY) };
        tokio::select! {
            () = sleep(wait) => {}
            () = cluster.check_now.notified(), if is_up => {}
        }
    }
}

async fn heartbeat(cluster: &Cluster) -> Result<(), Error> {
    let sessions = &cluster.stores.sessions;
    let id = node_record(cluster.node);
    let now = sessions.now().await?;
    let expires = now + HEARTBEAT_TTL.as_millis() as u64;
    let kept = match sessions.load(&id).await? {
        Some(record) => sessions.swap(record.expires(expires)).await?,
        None => {
            let record = Record::new(id).owner(NODE_OWNER).created(now).expires(expires);
            sessions.insert(record, usize::MAX).await?
        }
    };
    // False only if the record has just expired, because no other process writes it. The next heartbeat inserts
    // it again.
    let _ = kept;
    record_stores_up(cluster, now).await?;
    // The next heartbeat retries.
    let _ = sessions.sweep(MAX_SWEPT_SESSIONS).await;
    Ok(())
}

/// Records for all processes that the stores answer. A process that has just started reads from it for how long
/// they have.
async fn record_stores_up(cluster: &Cluster, now: u64) -> Result<(), Error> {
    let sessions = &cluster.stores.sessions;
    let expires = now + STORES_UP_TTL.as_millis() as u64;
    // If another process wins the swap, it has written the same.
    let _ = match sessions.load(STORES_UP_RECORD).await? {
        Some(record) => sessions.swap(record.expires(expires)).await?,
        None => {
            let record =
                Record::new(STORES_UP_RECORD).owner("cluster").created(now).expires(expires);
            sessions.insert(record, usize::MAX).await?
        }
    };
    Ok(())
}

impl Cluster {
    /// Returns true if a process is certainly dead. A missing heartbeat does not count after an outage of the
    /// stores, because no process could write one.
    pub(crate) async fn is_gone(&self, node: u32) -> bool {
        let sessions = &self.stores.sessions;
        node != self.node
            && matches!(self.store_call(sessions.load(&node_record(node))).await, Ok(None))
            && self.are_stores_stable().await
    }

    /// Returns true if the stores have answered for long enough, as seen by this process or any other.
    async fn are_stores_stable(&self) -> bool {
        if self.health.borrow().is_some_and(|since| since.elapsed() >= STORES_STABLE_AFTER) {
            return true;
        }
        let sessions = &self.stores.sessions;
        match (
            self.store_call(sessions.load(STORES_UP_RECORD)).await,
            self.store_call(sessions.now()).await,
        ) {
            (Ok(Some(up)), Ok(now)) => {
                now.saturating_sub(up.created) >= STORES_STABLE_AFTER.as_millis() as u64
            }
            _ => false,
        }
    }

    /// Returns the node numbers of the other live processes.
    pub(crate) async fn other_nodes(&self) -> Result<Vec<u32>, StoreUnavailable> {
        let nodes = self.store_call(self.stores.sessions.list(NODE_OWNER, None, MAX_NODES)).await?;
        let nodes = nodes.iter().filter_map(|record| node_of_record(&record.id));
        Ok(nodes.filter(|node| *node != self.node).collect())
    }
}

fn node_record(node: u32) -> String {
    format!("node.{node:08x}")
}

fn node_of_record(node_record: &str) -> Option<u32> {
    u32::from_str_radix(node_record.strip_prefix("node.")?, 16).ok()
}
