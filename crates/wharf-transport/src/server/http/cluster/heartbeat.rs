//! How processes know of each other that they are alive.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, timeout};
use wharf_model::{Error, Record};

use crate::server::http::cluster::{Cluster, StoreUnavailable, jitter};

/// How often a process says that it is alive.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(3);
/// For how long the others believe it.
const HEARTBEAT_TTL: Duration = Duration::from_secs(15);
/// How long the stores must have answered before silence means death: whoever lives has come back to
/// them by then, and said so.
const STORES_STABLE_AFTER: Duration = Duration::from_secs(8);
/// How long the stores are known to have answered after the last process said so: shorter than an outage that
/// ends a lease, so that such an outage begins the time anew.
const STORES_UP_TTL: Duration = Duration::from_secs(10);
/// The record whose age is the time for which the stores have answered some process without a gap.
const STORES_UP_RECORD: &str = "node.up";
/// How long the store may take to note it.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(2);
/// How many sessions that are over are forgotten with one beat, at most.
const MAX_SWEPT_SESSIONS: usize = 500;
/// How many processes are told of something, at most.
const MAX_NODES: usize = 1024;
/// How soon a store that is gone is asked again, at least.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// Whose the signs of life are.
const NODE_OWNER: &str = "nodes";

/// Says that this process is alive for as long as anything of it is under way, and finds out how the
/// stores are.
pub(super) async fn run(cluster: Arc<Cluster>) {
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
            Ok(Ok(())) if changed => tracing::info!("the fleet's stores are back"),
            Ok(Err(why)) if changed => tracing::error!(%why, "the fleet's stores fail"),
            Err(_) if changed => tracing::error!("the fleet's stores do not answer in time"),
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
    let expires = Some(now + HEARTBEAT_TTL.as_millis() as u64);
    let kept = match sessions.load(&id).await? {
        Some(record) => sessions.swap(Record { expires, ..record }).await?,
        None => {
            let owner = NODE_OWNER.to_owned();
            let record = Record { id, owner, created: now, expires, ..Record::default() };
            sessions.insert(record, usize::MAX).await?
        }
    };
    // Nobody else writes it, so it has just lapsed: the next beat makes it anew.
    let _ = kept;
    record_stores_up(cluster, now).await?;
    // What fails here the next beat does.
    let _ = sessions.sweep(MAX_SWEPT_SESSIONS).await;
    Ok(())
}

/// Notes for all processes that the stores answer. One that has just started knows from it for how long they have.
async fn record_stores_up(cluster: &Cluster, now: u64) -> Result<(), Error> {
    let sessions = &cluster.stores.sessions;
    let expires = Some(now + STORES_UP_TTL.as_millis() as u64);
    // Where another process is faster, it has done the same.
    let _ = match sessions.load(STORES_UP_RECORD).await? {
        Some(record) => sessions.swap(Record { expires, ..record }).await?,
        None => {
            let (id, owner) = (STORES_UP_RECORD.to_owned(), "fleet".to_owned());
            let record = Record { id, owner, created: now, expires, ..Record::default() };
            sessions.insert(record, usize::MAX).await?
        }
    };
    Ok(())
}

impl Cluster {
    /// Whether a process is gone for certain: while the stores were, nobody could say that it lives.
    pub(crate) async fn is_gone(&self, node: u32) -> bool {
        let sessions = &self.stores.sessions;
        node != self.node
            && matches!(self.store_call(sessions.load(&node_record(node))).await, Ok(None))
            && self.are_stores_stable().await
    }

    /// Whether the stores have answered for long enough, as this process knows or any other.
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

    /// The other processes that are alive.
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
