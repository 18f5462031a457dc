//! Redis killed, paused and cut off: no acknowledged write is lost, every other operation returns
//! an error, and the stores recover by themselves.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use wharf_model::{AttachResult, BusSubscriber, Error, Rate, Record, Retention, Stores};
use wharf_store::open;

use crate::redis::{CuttingProxy, RedisServer, until};

fn record(id: &str) -> Record {
    Record::new(id).owner("o")
}

const RETENTION: Retention = Retention::new(100_000, 10_000_000, Duration::from_secs(600));

/// Subscriber that counts messages and missed-message notifications.
#[derive(Default)]
struct CountingSubscriber {
    received: AtomicUsize,
    missed: AtomicUsize,
}

impl BusSubscriber for CountingSubscriber {
    fn receive(&self, _topic: &str, _message: &[u8]) {
        self.received.fetch_add(1, Ordering::SeqCst);
    }

    fn missed(&self) {
        self.missed.fetch_add(1, Ordering::SeqCst);
    }
}

fn assert_unavailable(error: &Error) {
    assert!(error.kind.is_temporarily_unavailable() || error.kind.is_overloaded(), "{error:?}");
    assert!(error.message.contains("store"), "{error}");
}

/// Writes that were acknowledged.
#[derive(Default)]
struct AcknowledgedWrites {
    records: Vec<String>,
    kept: Vec<String>,
    events: HashMap<u64, Vec<u8>>,
}

/// Writes until `stop` is set.
async fn write(stores: Stores, writer: usize, stop: Arc<AtomicBool>) -> AcknowledgedWrites {
    let mut done = AcknowledgedWrites::default();
    for number in 0.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let id = format!("{writer}/{number}");
        match stores.tasks.insert(record(&id), usize::MAX).await {
            Ok(inserted) => {
                assert!(inserted);
                done.records.push(id.clone());
            }
            Err(error) => assert_unavailable(&error),
        }
        match stores.tasks.attach(&id, 0, "step", id.clone().into_bytes()).await {
            Ok(AttachResult::Attached) => done.kept.push(id.clone()),
            Ok(_) => {}
            Err(error) => assert_unavailable(&error),
        }
        match stores.events.append("s", id.clone().into_bytes(), RETENTION).await {
            Ok(number) => assert_eq!(done.events.insert(number, id.into_bytes()), None),
            Err(error) => assert_unavailable(&error),
        }
        tokio::task::yield_now().await;
    }
    done
}

/// Asserts that all acknowledged writes are there.
async fn check(stores: &Stores, done: AcknowledgedWrites) {
    for id in done.records {
        assert!(stores.tasks.load(&id).await.unwrap().is_some(), "{id} was acknowledged");
    }
    for id in done.kept {
        let kept = stores.tasks.attachments(&id).await.unwrap();
        assert_eq!(kept.get("step"), Some(&id.into_bytes()));
    }
    let events = stores.events.read("s", 0, usize::MAX >> 12).await.unwrap();
    let events: HashMap<_, _> = events.events.into_iter().collect();
    for (number, event) in done.events {
        assert_eq!(events.get(&number), Some(&event), "event {number} was acknowledged");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_redis_loses_no_acknowledged_write() {
    let mut server = RedisServer::start();
    let stores = open(&server.url("p")).await.unwrap();
    let subscriber = Arc::new(CountingSubscriber::default());
    let _subscription = stores.bus.subscribe("t", subscriber.clone());
    stores.bus.publish("t", vec![1]).await.unwrap();
    until("the message arrives", async || subscriber.received.load(Ordering::SeqCst) == 1).await;

    for round in 1..=3 {
        let stop = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = (0..8)
            .map(|writer| tokio::spawn(write(stores.clone(), round * 100 + writer, stop.clone())))
            .collect();
        let before = stores.events.read("s", 0, 0).await.unwrap().newest;
        until("something was written", async || {
            stores.events.read("s", 0, 0).await.unwrap().newest > before + 50
        })
        .await;
        let missed = subscriber.missed.load(Ordering::SeqCst);
        server.kill();
        until("the outage is detected", async || !stores.health.is_ready()).await;
        assert_unavailable(&stores.tasks.load("any").await.unwrap_err());
        server.restart();
        until("Redis is reachable again", async || stores.health.is_ready()).await;
        stop.store(true, Ordering::SeqCst);
        for writer in writers {
            check(&stores, writer.await.unwrap()).await;
        }
        until("subscribers are notified of missed messages", async || {
            subscriber.missed.load(Ordering::SeqCst) > missed
        })
        .await;
        let received = subscriber.received.load(Ordering::SeqCst);
        stores.bus.publish("t", vec![2]).await.unwrap();
        until("messages arrive again", async || {
            subscriber.received.load(Ordering::SeqCst) > received
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_redis_times_out_within_the_queue_limit_and_recovers() {
    let server = RedisServer::start();
    let stores = open(&server.url("p")).await.unwrap();
    assert_eq!(stores.tasks.insert(record("before"), 9).await, Ok(true));
    server.pause();
    let inserts: Vec<_> = (0..20_000)
        .map(|n| tokio::spawn(stores.tasks.insert(record(&n.to_string()), 100_000)))
        .collect();
    let mut refused = 0;
    for insert in inserts {
        let error = insert.await.unwrap().unwrap_err();
        assert_unavailable(&error);
        refused += usize::from(error.kind.is_overloaded());
    }
    assert!(refused > 0, "commands beyond the queue are rejected");
    until("the outage is detected", async || !stores.health.is_ready()).await;
    assert_unavailable(&stores.tasks.load("before").await.unwrap_err());
    server.resume();
    until("Redis is reachable again", async || stores.health.is_ready()).await;
    assert!(stores.tasks.load("before").await.unwrap().is_some());
    assert_eq!(stores.tasks.insert(record("after"), 100_000).await, Ok(true));
}

/// A paused Redis sends nothing, so the paused clock of the test may run ahead.
#[tokio::test]
async fn commands_time_out_before_the_pause_is_detected() {
    let server = RedisServer::start();
    let stores = open(&server.url("p")).await.unwrap();
    assert_eq!(stores.tasks.insert(record("before"), 9).await, Ok(true));
    server.pause();
    tokio::time::pause();
    let start = tokio::time::Instant::now();
    // More than are in flight at once: the others wait in the queue first.
    let inserts: Vec<_> = (0..2_000)
        .map(|n| tokio::spawn(stores.tasks.insert(record(&n.to_string()), 100_000)))
        .collect();
    for insert in inserts {
        assert_unavailable(&insert.await.unwrap().unwrap_err());
    }
    let waited = start.elapsed();
    assert!(waited <= Duration::from_millis(1_100), "{waited:?} by the clock of the test");
    assert!(!stores.health.is_ready());
    server.resume();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_cut_inside_a_message_recover() {
    let server = RedisServer::start();
    let proxy = CuttingProxy::start(server.port).await;
    let (far, near) = (open(&proxy.url("p")).await.unwrap(), open(&server.url("p")).await.unwrap());
    for round in 0..8 {
        until("Redis is reachable", async || far.health.is_ready()).await;
        proxy.cut_after(37 + 611 * i64::from(round));
        let stop = Arc::new(AtomicBool::new(false));
        let writer =
            tokio::spawn(write(far.clone(), usize::try_from(round).unwrap(), stop.clone()));
        until("the connection is cut", async || proxy.is_cut()).await;
        until("the outage is detected", async || !far.health.is_ready()).await;
        proxy.restore();
        stop.store(true, Ordering::SeqCst);
        check(&near, writer.await.unwrap()).await;
    }
    until("Redis is reachable again", async || far.health.is_ready()).await;
    assert_eq!(far.tasks.insert(record("after"), usize::MAX).await, Ok(true));
    assert!(near.tasks.load("after").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rates_are_counted_locally_while_redis_is_down() {
    let mut server = RedisServer::start();
    let stores = open(&server.url("p")).await.unwrap();
    let rate = Rate { per_second: 0.0001, burst: 2.0 };
    let take = async || {
        let taking = stores.rates.take("a", rate);
        taking.taken().await
    };
    assert_eq!((take().await, take().await), (Ok(()), Ok(())));
    assert!(take().await.is_err());
    server.kill();
    until("the outage is detected", async || !stores.health.is_ready()).await;
    assert_eq!((take().await, take().await), (Ok(()), Ok(())), "a local bucket");
    assert!(take().await.is_err(), "with the same limit");
    server.restart();
    until("Redis is reachable again", async || stores.health.is_ready()).await;
    assert!(take().await.is_err(), "the shared bucket was kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_subscriber_delays_only_the_bus() {
    #[derive(Default)]
    struct SlowSubscriber(AtomicUsize);
    impl BusSubscriber for SlowSubscriber {
        fn receive(&self, _topic: &str, message: &[u8]) {
            std::thread::sleep(Duration::from_millis(1));
            assert_eq!(message.len(), 10_000);
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let server = RedisServer::start();
    let stores = open(&server.url("p")).await.unwrap();
    let subscriber = Arc::new(SlowSubscriber::default());
    let _subscription = stores.bus.subscribe("t", subscriber.clone());
    for _ in 0..500 {
        stores.bus.publish("t", vec![0; 10_000]).await.unwrap();
    }
    assert_eq!(stores.tasks.insert(record("a"), 9).await, Ok(true));
    until("all messages arrive", async || subscriber.0.load(Ordering::SeqCst) == 500).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_out_of_memory_is_overloaded_and_stays_connected() {
    let server = RedisServer::start();
    let stores = open(&server.url("full")).await.unwrap();
    assert!(stores.tasks.insert(record("before"), 9).await.unwrap());
    server.set("maxmemory", "1mb");
    for id in ["a", "b"] {
        let error = stores.tasks.insert(record(id), 9).await.unwrap_err();
        assert!(error.kind.is_overloaded(), "{error:?}");
        assert!(error.message.contains("full"), "{error}");
        assert!(error.data.unwrap()["retryAfterMs"].as_u64().unwrap() > 0);
    }
    let appended = stores.events.append("s", b"e".to_vec(), RETENTION).await.unwrap_err();
    assert!(appended.kind.is_overloaded(), "{appended:?}");
    assert!(!stores.health.is_ready(), "writes fail");
    assert!(stores.tasks.load("before").await.unwrap().is_some(), "reads still work");
    // A store opened now connects, and is not ready.
    let late = open(&server.url("full")).await.unwrap();
    assert!(!late.health.is_ready());
    server.set("maxmemory", "0");
    let is_ready = async || stores.health.is_ready() && late.health.is_ready();
    until("both are ready", is_ready).await;
    assert!(stores.tasks.insert(record("a"), 9).await.unwrap());
}
