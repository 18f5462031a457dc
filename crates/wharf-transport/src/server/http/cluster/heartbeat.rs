//! How processes know of each other that they are alive.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, timeout};
use wharf_model::{Error, Record};

use crate::server::http::cluster::{Away, Fleet, jitter};

/// How often a process says that it is alive.
const EVERY: Duration = Duration::from_secs(3);
/// For how long the others believe it.
const LEASE: Duration = Duration::from_secs(15);
/// How long the stores must have answered before silence means death: whoever lives has come back to
/// them by then, and said so.
const SETTLED: Duration = Duration::from_secs(8);
/// How long the stores are known to have answered after the last process said so: shorter than an outage that
/// ends a lease, so that such an outage begins the time anew.
const WITNESSED: Duration = Duration::from_secs(10);
/// The record whose age is the time for which the stores have answered some process without a gap.
const UP: &str = "node.up";
/// How long the store may take to note it.
const PATIENCE: Duration = Duration::from_secs(2);
/// How many sessions that are over are forgotten with one beat, at most.
const SWEPT: usize = 500;
/// How many processes are told of something, at most.
const TOLD: usize = 1024;
/// How soon a store that is gone is asked again, at least.
const AGAIN: Duration = Duration::from_millis(500);

/// Whose the signs of life are.
const OWNER: &str = "nodes";

/// Says that this process is alive for as long as anything of it is under way, and finds out how the
/// stores are.
pub(super) async fn run(fleet: Arc<Fleet>) {
    loop {
        let beaten = timeout(PATIENCE, beat(&fleet)).await;
        let well = matches!(beaten, Ok(Ok(())));
        let changed = fleet.health.send_if_modified(|health| {
            let changed = well != health.is_some();
            if changed {
                *health = well.then(Instant::now);
            }
            changed
        });
        match beaten {
            Ok(Ok(())) if changed => tracing::info!("the fleet's stores are back"),
            Ok(Err(why)) if changed => tracing::error!(%why, "the fleet's stores fail"),
            Err(_) if changed => tracing::error!("the fleet's stores do not answer in time"),
            _ => {}
        }
        let wait = if well { EVERY } else { jitter(AGAIN) };
        tokio::select! {
            () = sleep(wait) => {}
            () = fleet.doubt.notified(), if well => {}
        }
    }
}

async fn beat(fleet: &Fleet) -> Result<(), Error> {
    let sessions = &fleet.stores.sessions;
    let id = name(fleet.node);
    let now = sessions.now().await?;
    let expires = Some(now + LEASE.as_millis() as u64);
    let kept = match sessions.load(&id).await? {
        Some(record) => sessions.swap(Record { expires, ..record }).await?,
        None => {
            let owner = OWNER.to_owned();
            let record = Record { id, owner, created: now, expires, ..Record::default() };
            sessions.insert(record, usize::MAX).await?
        }
    };
    // Nobody else writes it, so it has just lapsed: the next beat makes it anew.
    let _ = kept;
    witness(fleet, now).await?;
    // What fails here the next beat does.
    let _ = sessions.sweep(SWEPT).await;
    Ok(())
}

/// Notes for all processes that the stores answer. One that has just started knows from it for how long they have.
async fn witness(fleet: &Fleet, now: u64) -> Result<(), Error> {
    let sessions = &fleet.stores.sessions;
    let expires = Some(now + WITNESSED.as_millis() as u64);
    // Where another process is faster, it has done the same.
    let _ = match sessions.load(UP).await? {
        Some(record) => sessions.swap(Record { expires, ..record }).await?,
        None => {
            let (id, owner) = (UP.to_owned(), "fleet".to_owned());
            let record = Record { id, owner, created: now, expires, ..Record::default() };
            sessions.insert(record, usize::MAX).await?
        }
    };
    Ok(())
}

impl Fleet {
    /// Whether a process is gone for certain: while the stores were, nobody could say that it lives.
    pub(crate) async fn is_gone(&self, node: u32) -> bool {
        let sessions = &self.stores.sessions;
        node != self.node
            && matches!(self.ask(sessions.load(&name(node))).await, Ok(None))
            && self.is_settled().await
    }

    /// Whether the stores have answered for long enough, as this process knows or any other.
    async fn is_settled(&self) -> bool {
        if self.health.borrow().is_some_and(|since| since.elapsed() >= SETTLED) {
            return true;
        }
        let sessions = &self.stores.sessions;
        match (self.ask(sessions.load(UP)).await, self.ask(sessions.now()).await) {
            (Ok(Some(up)), Ok(now)) => now.saturating_sub(up.created) >= SETTLED.as_millis() as u64,
            _ => false,
        }
    }

    /// The other processes that are alive.
    pub(crate) async fn others(&self) -> Result<Vec<u32>, Away> {
        let nodes = self.ask(self.stores.sessions.list(OWNER, None, TOLD)).await?;
        let nodes = nodes.iter().filter_map(|record| number(&record.id));
        Ok(nodes.filter(|node| *node != self.node).collect())
    }
}

fn name(node: u32) -> String {
    format!("node.{node:08x}")
}

fn number(name: &str) -> Option<u32> {
    u32::from_str_radix(name.strip_prefix("node.")?, 16).ok()
}
