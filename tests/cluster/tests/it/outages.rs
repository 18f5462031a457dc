//! Outages of Redis: killed, suspended, cut off, silent. `WHARF_OUTAGE=30` makes it thirty seconds
//! instead of a few.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout};
use wharf::{Client, Era, ErrorKind};
use wharf_cluster_tests::{
    load::Load,
    node_group::TestCluster,
    processes::RedisProcess,
    proxy::{Proxy, WireState},
    recording_client::{self, LegacySession},
    recording_tools::WorkArgs,
    task_history::TaskTally,
};

const NODE: &str = env!("CARGO_BIN_EXE_cluster-node");
const LEASE: u64 = 3000;
/// Timeout of operations that should be fast, on a busy machine.
const SOON: Duration = Duration::from_secs(20);
/// Maximum growth of a node's memory during an outage, in KiB.
const GROWTH: u64 = 24 * 1024;

fn outage() -> Duration {
    let seconds = std::env::var("WHARF_OUTAGE").ok().and_then(|it| it.parse().ok());
    Duration::from_secs(seconds.unwrap_or(6))
}

/// Kind of the outage.
#[derive(Clone, Copy, Debug)]
enum OutageKind {
    Killed,
    Stopped,
    Cut,
    Silent,
}

struct OutageTest {
    kind: OutageKind,
    redis: RedisProcess,
    wire: Proxy,
    cluster: TestCluster,
}

impl OutageTest {
    async fn new(kind: OutageKind) -> Self {
        let redis = RedisProcess::start().await.expect("a Redis");
        let wire = Proxy::start(vec![redis.address()]).await.expect("a wire");
        let url = RedisProcess::url(wire.address());
        let cluster = TestCluster::start(NODE, &url, 2, LEASE).await.expect("a cluster");
        OutageTest { kind, redis, wire, cluster }
    }

    async fn begin(&mut self) {
        match self.kind {
            OutageKind::Killed => self.redis.kill().await.expect("it can be killed"),
            OutageKind::Stopped => self.redis.pause().await.expect("it can be stopped"),
            OutageKind::Cut => self.wire.set(WireState::Cut),
            OutageKind::Silent => self.wire.set(WireState::Silent),
        }
    }

    async fn end(&mut self) {
        match self.kind {
            OutageKind::Killed => self.redis.restart().await.expect("it starts again"),
            OutageKind::Stopped => self.redis.go_on().await.expect("it can go on"),
            OutageKind::Cut | OutageKind::Silent => self.wire.set(WireState::Whole),
        }
    }

    async fn is_ready(&self) -> bool {
        // Every node directly: the balancer would take turns.
        for address in self.cluster.addresses().await {
            if recording_client::status(address, "/ready").await.ok() != Some(200) {
                return false;
            }
        }
        true
    }

    async fn memory(&self) -> u64 {
        let mut most = 0;
        for number in 0..2 {
            most = most.max(self.cluster.memory(number).await.unwrap_or(0));
        }
        most
    }
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) -> Duration {
    let begun = Instant::now();
    let waited = timeout(SOON, async {
        while !is_so().await {
            sleep(Duration::from_millis(20)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("{what}: not in time"));
    begun.elapsed()
}

async fn client(outage_test: &OutageTest, who: &str) -> Client {
    let client = Client::builder()
        .era(Era::Modern)
        .header("authorization", format!("Bearer {who}"))
        .timeout(SOON);
    client.connect(outage_test.cluster.url().as_str()).await.expect("a connection")
}

/// Checks the behaviour during an outage: new durable work is rejected with a reason, other calls
/// continue, and memory does not grow. Returns the longest time of a rejection.
async fn endure(outage_test: &OutageTest, client: &Client, length: Duration) -> Duration {
    let (end, before) = (Instant::now() + length, outage_test.memory().await);
    let address = outage_test.cluster.proxy().address();
    let noticed = until("readiness fails", async || !outage_test.is_ready().await).await;
    println!("{:?}: readiness failed after {noticed:?}", outage_test.kind);
    let mut longest = Duration::ZERO;
    let mut refusals = 0;
    while Instant::now() < end {
        let asked = Instant::now();
        let job = WorkArgs { key: "zoe-refused".into(), steps: 1, pause: 0, ask: false };
        let refused = client.call_task("work", &job).await;
        let error = refused.expect_err("no task can be made");
        assert_eq!(error.kind(), ErrorKind::TemporarilyUnavailable, "{error:?}");
        assert!(error.message().contains("store"), "{error:?}");
        longest = longest.max(asked.elapsed());
        refusals += 1;
        let name: String = client.call_as("whoami", serde_json::json!({})).await.expect("no store");
        assert_eq!(name, "zoe");
        let (status, after) = LegacySession::refused(address, "zoe").await.expect("an answer");
        assert_eq!(status, 503, "a new session");
        assert!(after.is_some(), "a session that is refused says when to come back");
        assert_eq!(recording_client::status(address, "/live").await.ok(), Some(200));
        assert!(!outage_test.is_ready().await, "it says that it is ready");
        sleep(Duration::from_millis(50)).await;
    }
    let after = outage_test.memory().await;
    println!(
        "{:?}: {refusals} refusals, the longest took {longest:?}; memory {before} → {after} KiB",
        outage_test.kind
    );
    assert!(after < before + GROWTH, "memory grew from {before} to {after} KiB");
    longest
}

async fn survive(kind: OutageKind) {
    let mut outage_test = OutageTest::new(kind).await;
    let zoe = client(&outage_test, "zoe").await;
    until("the cluster is ready", async || outage_test.is_ready().await).await;
    let end = Instant::now() + Duration::from_secs(2) + outage() + Duration::from_secs(4);
    let load = Load::new(outage_test.cluster.url(), outage_test.cluster.proxy().address(), end);
    let running = tokio::spawn({
        let load = load.clone();
        async move { load.run().await }
    });
    sleep(Duration::from_secs(2)).await;
    outage_test.begin().await;
    let longest = endure(&outage_test, &zoe, outage()).await;
    outage_test.end().await;
    let recovered = until("readiness comes back", async || outage_test.is_ready().await).await;
    let again = until("a task can be made", async || {
        let job = WorkArgs { key: "zoe-again".into(), steps: 1, pause: 0, ask: false };
        zoe.call_task("work", &job).await.is_ok()
    });
    println!("{kind:?}: ready again after {recovered:?}, a task after {:?} more", again.await);
    // Subscribers stop at the end of the stable phase: no change may come after it.
    sleep_until(end).await;
    load.run_on_stable_cluster().await;
    running.await.expect("the load ends");
    outage_test.cluster.read_journal(&load.history).expect("the journal can be read");
    let tally = TaskTally::of(&load.history);
    println!("{kind:?}: {tally:?}\n{:?}\n{:?}", load.counts, load.notification_counts());
    let mut problems = load.history.problems(Duration::from_millis(LEASE * 3));
    problems.extend(load.problems(&outage_test.cluster.deaths()));
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
    assert!(tally.completed > 0, "nothing was proved: {tally:?}");
    assert!(longest < Duration::from_secs(5), "a refusal took {longest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_is_killed_and_comes_back() {
    survive(OutageKind::Killed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_is_stopped_and_goes_on() {
    survive(OutageKind::Stopped).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_is_cut_off_in_the_middle_of_a_message() {
    survive(OutageKind::Cut).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_falls_silent() {
    survive(OutageKind::Silent).await;
}
