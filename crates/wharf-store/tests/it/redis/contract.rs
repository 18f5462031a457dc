//! A real Redis fulfils the contract, for two processes that share it.

use std::sync::atomic::{AtomicU32, Ordering};

use wharf_model::{Rate, Record, Sharing, Stores};
use wharf_store::{StoreOpenError, contract, open};

use crate::redis::{RedisServer, until};

/// Opens two handles on a store that is empty.
async fn open_twice(server: &RedisServer) -> [Stores; 2] {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let url = server.url(&format!("p{}", NUMBER.fetch_add(1, Ordering::Relaxed)));
    [open(&url).await.unwrap(), open(&url).await.unwrap()]
}

/// Connects another client to the same Redis.
async fn connect(server: &RedisServer) -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(format!("redis://127.0.0.1:{}", server.port)).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records() {
    let server = RedisServer::start();
    contract::records(|| async { open_twice(&server).await.map(|stores| stores.tasks).to_vec() })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events() {
    let server = RedisServer::start();
    contract::events(|| async { open_twice(&server).await.map(|stores| stores.events).to_vec() })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bus() {
    let server = RedisServer::start();
    contract::bus(|| async { open_twice(&server).await.map(|stores| stores.bus).to_vec() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonces_and_rates() {
    let server = RedisServer::start();
    contract::nonces(|| async { open_twice(&server).await.map(|stores| stores.nonces).to_vec() })
        .await;
    contract::rates(|| async { open_twice(&server).await.map(|stores| stores.rates).to_vec() })
        .await;
}

#[tokio::test]
async fn data_is_shared_by_processes_with_the_same_prefix() {
    let server = RedisServer::start();
    let stores = open(&server.url("one")).await.unwrap();
    assert_eq!(stores.sharing, Sharing::Cluster);
    assert!(stores.health.is_ready());
    contract::leave_traces(&stores).await;
    drop(stores);
    contract::find_traces(&open(&server.url("one")).await.unwrap()).await;
    let other = open(&server.url("two")).await.unwrap();
    assert_eq!(other.tasks.load("trace").await, Ok(None));
    assert_eq!(other.events.read("trace", 0, 9).await.unwrap().newest, 0);
}

#[tokio::test]
async fn removed_and_expired_records_leave_no_keys() {
    let server = RedisServer::start();
    let stores = open(&server.url("p")).await.unwrap();
    let now = stores.tasks.now().await.unwrap();
    for (id, expires) in [("removed", None), ("expired", Some(now + 1))] {
        let owner = "o".to_owned();
        let record = Record::new(id).owner(owner).due(Some(1)).expires(expires);
        assert!(stores.tasks.insert(record, 9).await.unwrap());
        let _ = stores.tasks.attach(id, 0, "step", vec![1]).await.unwrap();
    }
    assert!(stores.tasks.remove("removed").await.unwrap());
    until("it expires", async || stores.tasks.sweep(9).await == Ok(1)).await;
    let mut connection = connect(&server).await;
    // The write probe expires after a millisecond.
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(&mut connection).await.unwrap();
    assert_eq!(keys, [""; 0]);
}

#[tokio::test]
async fn expired_records_without_an_owner_entry_are_swept() {
    let server = RedisServer::start();
    let stores = open(&server.url("p")).await.unwrap();
    let expires = Some(stores.tasks.now().await.unwrap() + 1);
    let record = Record::new("a").owner("o").expires(expires);
    assert_eq!(stores.tasks.insert(record, 9).await, Ok(true));
    let mut connection = connect(&server).await;
    let owners = redis::cmd("DEL").arg("{p}:t:owners").query_async(&mut connection).await;
    assert_eq!(owners, Ok(1), "as an eviction would");
    until("it is swept", async || stores.tasks.sweep(9).await.unwrap() == 1).await;
    assert_eq!(stores.tasks.sweep(9).await, Ok(0), "once");
}

#[tokio::test]
async fn scripts_are_loaded_again_after_a_flush() {
    let server = RedisServer::start();
    let stores = open(&server.url("p")).await.unwrap();
    let record = |id: &str| Record::new(id);
    assert_eq!(stores.tasks.insert(record("a"), 9).await, Ok(true));
    let mut connection = connect(&server).await;
    let mut flush = redis::cmd("SCRIPT");
    let _: () = flush.arg("FLUSH").query_async(&mut connection).await.unwrap();
    assert_eq!(stores.tasks.insert(record("b"), 9).await, Ok(true));
}

#[tokio::test]
async fn invalid_rates_are_answered() {
    let server = RedisServer::start();
    let stores = open(&server.url("p")).await.unwrap();
    for (key, per_second, burst) in
        [("a", 0.0, 1.0), ("b", f64::INFINITY, 1.0), ("c", 1.0, 0.0), ("d", f64::NAN, f64::NAN)]
    {
        for _ in 0..3 {
            let taking = stores.rates.take(key, Rate { per_second, burst });
            let _ = taking.taken().await;
        }
    }
    assert!(stores.health.is_ready());
}

#[tokio::test]
async fn an_unreachable_redis_is_reported_without_the_password() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("redis://me:secret@127.0.0.1:{free}/0");
    let error = open(&url).await.unwrap_err();
    assert!(matches!(error, StoreOpenError::Unavailable { .. }));
    assert!(error.message().contains(&format!("127.0.0.1:{free}")), "{error}");
    assert!(!error.message().contains("secret"), "{error}");
}

#[tokio::test]
async fn a_read_only_replica_is_not_ready() {
    let server = RedisServer::start();
    let stores = open(&server.url("p")).await.unwrap();
    let mut connection = connect(&server).await;
    let mut follow = async |host: &str, port: &str| {
        let mut command = redis::cmd("REPLICAOF");
        let _: () = command.arg(host).arg(port).query_async(&mut connection).await.unwrap();
    };
    // The primary does not exist, so this Redis stays read-only.
    follow("127.0.0.1", "1").await;
    let record = Record::new("a");
    let error = stores.tasks.insert(record.clone(), 9).await.unwrap_err();
    assert!(error.kind.is_temporarily_unavailable(), "{error:?}");
    until("the failure is detected", async || !stores.health.is_ready()).await;
    follow("NO", "ONE").await;
    until("it is the primary again", async || stores.health.is_ready()).await;
    assert_eq!(stores.tasks.insert(record, 9).await, Ok(true));
}

#[tokio::test]
async fn an_acl_user_with_few_rights_is_enough() {
    let server = RedisServer::start();
    let mut connection = connect(&server).await;
    let rights = "on >pass -@all +@read +@write +@scripting +@pubsub +@connection +time";
    let mut user = redis::cmd("ACL");
    user.arg("SETUSER").arg("wharf").arg(rights.split(' ').collect::<Vec<_>>());
    user.arg("~{p}:*").arg("&{p}:b:*");
    let _: () = user.query_async(&mut connection).await.unwrap();

    let url = |password| server.url("p").replace("//", &format!("//wharf:{password}@"));
    let stores = open(&url("pass")).await.unwrap();
    contract::leave_traces(&stores).await;
    contract::find_traces(&stores).await;
    stores.bus.publish("t", vec![1]).await.unwrap();
    assert_eq!(stores.tasks.sweep(9).await, Ok(0));

    let error = open(&url("secret")).await.unwrap_err();
    assert!(
        error.message().contains("127.0.0.1") && !error.message().contains("secret"),
        "{error}"
    );
}
