//! Real processes, killed repeatedly. `WHARF_CHAOS=120` kills for two minutes instead of a few
//! seconds, `WHARF_RESTARTS=200` restarts a single node this number of times instead of a few.

use std::time::Duration;

use tokio::time::Instant;
use wharf_cluster_tests::{
    load::Load,
    node_group::TestCluster,
    processes::{RedisProcess, TestDirectory},
    recording_client::LegacySession,
    task_history::TaskTally,
};

const NODE: &str = env!("CARGO_BIN_EXE_cluster-node");
/// Leases of the nodes, in milliseconds.
const LEASE: u64 = 1500;
/// Timeout of operations that should be fast.
const SOON: Duration = Duration::from_secs(20);

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Asserts that the history has no violations.
fn assert_history(cluster: &TestCluster, load: &Load, times: usize) {
    cluster.read_journal(&load.history).expect("the journal can be read");
    let tally = TaskTally::of(&load.history);
    println!("{times} times: {tally:?}\n{:?}\n{:?}", load.counts, load.notification_counts());
    let mut problems = load.history.problems(Duration::from_millis(LEASE * 3));
    problems.extend(load.problems(&cluster.deaths()));
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
    assert!(tally.completed > 0 && tally.taken_over > 0, "nothing was proved: {tally:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_on_redis_loses_nothing_when_nodes_are_killed() {
    let redis = RedisProcess::start().await.expect("a Redis");
    let cluster = TestCluster::start(NODE, &RedisProcess::url(redis.address()), 3, LEASE)
        .await
        .expect("a cluster");
    let end = Instant::now() + Duration::from_secs(number("WHARF_CHAOS").unwrap_or(12));
    let load = Load::new(cluster.url(), cluster.proxy().address(), end);
    let kills = async {
        let kills = cluster.kill_randomly(Duration::from_secs(1), end).await;
        load.run_on_stable_cluster().await;
        kills
    };
    let (kills, ()) = tokio::join!(kills, load.run());
    assert_history(&cluster, &load, kills.expect("nodes come back"));
    // The nodes encrypt their store: no message content is in it, however briefly.
    assert!(redis.has_stored("{wharf}").expect("what Redis wrote"), "nothing was proved");
    for said in ["heidi to heidi-q", "note://judy", "dave 3", "Go on?", "mike-c", "bob-1"] {
        assert!(!redis.has_stored(said).expect("what Redis wrote"), "{said:?} is in the store");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_were_frozen_do_nothing_more_for_tasks_that_others_have() {
    let redis = RedisProcess::start().await.expect("a Redis");
    let cluster = TestCluster::start(NODE, &RedisProcess::url(redis.address()), 3, LEASE)
        .await
        .expect("a cluster");
    let end = Instant::now() + Duration::from_secs(number("WHARF_CHAOS").unwrap_or(12));
    let load = Load::new(cluster.url(), cluster.proxy().address(), end);
    let pause = Duration::from_millis(LEASE * 2);
    let (times, ()) = tokio::join!(cluster.freeze(pause, end), load.without_sessions());
    assert_history(&cluster, &load, times.expect("nodes can be frozen"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_on_sqlite_loses_nothing_when_it_is_killed() {
    let directory = TestDirectory::new().expect("a directory");
    let store = format!("sqlite:{}", directory.path().join("store.db").display());
    let cluster = TestCluster::start(NODE, &store, 1, LEASE).await.expect("a node");
    let restarts = usize::try_from(number("WHARF_RESTARTS").unwrap_or(20)).expect("a number");
    let pause = Duration::from_millis(500);
    // Restarts take time too: callers start nothing new after the last kill.
    let end = Instant::now() + pause * u32::try_from(restarts).expect("a small number") * 3 / 2;
    let load = Load::new(cluster.url(), cluster.proxy().address(), end);
    let kill = async {
        for _ in 0..restarts {
            tokio::time::sleep(pause).await;
            cluster.kill(0).await.expect("the node comes back");
        }
    };
    let ((), ()) = tokio::join!(kill, load.without_sessions());
    assert_history(&cluster, &load, restarts);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_has_one_rate_in_all_processes_and_keeps_it_when_they_are_killed() {
    const RATE: u32 = 4;
    let redis = RedisProcess::start().await.expect("a Redis");
    let url = RedisProcess::url(redis.address());
    let cluster = TestCluster::limited(NODE, &url, 3, LEASE, Some(RATE)).await.expect("a cluster");
    let session =
        LegacySession::open(cluster.proxy().address(), "greedy", SOON).await.expect("a session");
    let begun = Instant::now();
    let end = begun + Duration::from_secs(6);
    let call = async {
        let (mut granted, mut refused) = (0, 0);
        for number in 1.. {
            if Instant::now() > end {
                break;
            }
            let heard = session.call(number, "whoami", &serde_json::json!({}), SOON).await;
            granted += u32::from(heard.is_whole());
            refused += u32::from(!heard.is_whole());
        }
        (granted, refused)
    };
    let (kills, (granted, refused)) =
        tokio::join!(cluster.kill_randomly(Duration::from_secs(1), end), call);
    kills.expect("nodes come back");
    // The initial tokens, and those added since.
    let most = f64::from(RATE) * (2.0 + begun.elapsed().as_secs_f64());
    println!("{granted} granted, {refused} refused, at most {most}");
    assert!(f64::from(granted) <= most, "{granted} calls of {most}");
    assert!(granted > RATE && refused > RATE, "nothing was proved");
}
