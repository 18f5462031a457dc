//! Real processes, killed again and again. `WHARF_CHAOS=120` kills for two minutes instead of a few
//! seconds, `WHARF_RESTARTS=200` restarts a node of its own so often instead of a few times.
#![allow(clippy::expect_used)]

use std::time::Duration;

use tokio::time::Instant;
use wharf_fleet_tests::{
    fleet::Fleet,
    history::Tally,
    load::Load,
    processes::{Directory, Redis},
};

const NODE: &str = env!("CARGO_BIN_EXE_fleet-node");
/// Leases of the nodes, in milliseconds.
const LEASE: u64 = 1500;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// What happened, held against what may.
fn judge(fleet: &Fleet, load: &Load, times: usize) {
    fleet.read_journal(&load.history).expect("the journal can be read");
    let tally = Tally::of(&load.history);
    println!("{times} times: {tally:?}\n{:?}", load.counts);
    let problems = load.history.problems(Duration::from_millis(LEASE * 3));
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
    assert!(tally.completed > 0 && tally.taken_over > 0, "nothing was proved: {tally:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_on_redis_loses_nothing_when_nodes_are_killed() {
    let redis = Redis::start().await.expect("a Redis");
    let fleet = Fleet::start(NODE, &Redis::url(redis.address()), 3, LEASE).await.expect("a fleet");
    let end = Instant::now() + Duration::from_secs(number("WHARF_CHAOS").unwrap_or(12));
    let load = Load::new(fleet.url(), fleet.proxy().address(), end);
    let (kills, ()) = tokio::join!(fleet.rampage(Duration::from_secs(1), end), load.run());
    judge(&fleet, &load, kills.expect("nodes come back"));
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_were_frozen_do_nothing_more_for_tasks_that_others_have() {
    let redis = Redis::start().await.expect("a Redis");
    let fleet = Fleet::start(NODE, &Redis::url(redis.address()), 3, LEASE).await.expect("a fleet");
    let end = Instant::now() + Duration::from_secs(number("WHARF_CHAOS").unwrap_or(12));
    let load = Load::new(fleet.url(), fleet.proxy().address(), end);
    let pause = Duration::from_millis(LEASE * 2);
    let (times, ()) = tokio::join!(fleet.freeze(pause, end), load.without_sessions());
    judge(&fleet, &load, times.expect("nodes can be frozen"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_on_sqlite_loses_nothing_when_it_is_killed() {
    let directory = Directory::new().expect("a directory");
    let store = format!("sqlite:{}", directory.path().join("store.db").display());
    let fleet = Fleet::start(NODE, &store, 1, LEASE).await.expect("a node");
    let restarts = usize::try_from(number("WHARF_RESTARTS").unwrap_or(20)).expect("a number");
    let pause = Duration::from_millis(500);
    // Starting takes its time too: callers begin nothing new once all kills should be over.
    let end = Instant::now() + pause * u32::try_from(restarts).expect("a small number") * 3 / 2;
    let load = Load::new(fleet.url(), fleet.proxy().address(), end);
    let kill = async {
        for _ in 0..restarts {
            tokio::time::sleep(pause).await;
            fleet.kill(0).await.expect("the node comes back");
        }
    };
    let ((), ()) = tokio::join!(kill, load.without_sessions());
    judge(&fleet, &load, restarts);
}
