//! With a store key, nothing that a server stores can be read without the key.

mod node;
mod store_dump;
mod stores;

use serde_json::{Value, json};
use wharf::{Server, server::KeyRing, store};
use wharf_testbed::redis_server::RedisServer;

use crate::encrypted_store::{
    node::{Client, Node},
    store_dump::{Monitor, all_files, is_in},
};

const KEY: &str = "11";
const OTHER: &str = "22";

/// Content that the server handles and that must not be found in its store. The test also checks that all of it is
/// found if there is no key; otherwise it would prove nothing.
const SECRETS: [&str; 10] = [
    "secret-client",
    "secret-argument",
    "secret-progress",
    "secret-question",
    "secret-answer",
    "secret-reply",
    "secret-uri",
    "secret-step",
    "secret-result",
    "secret-call",
];

/// Key ring with keys of these repeated bytes, separated by commas.
fn keys(bytes: &str) -> std::sync::Arc<KeyRing> {
    let keys: Vec<_> = bytes.split(',').map(|byte| byte.repeat(32)).collect();
    std::sync::Arc::new(keys.join(",").parse().unwrap())
}

/// Uses two processes in turn: a call with a server request, a stream, a task, a cancellation.
async fn exchange_messages(redis: &RedisServer, key: Option<&str>) -> (Client, String) {
    let one = Node::on(&redis.url("talk"), key).await;
    let two = Node::on(&redis.url("talk"), key).await;
    let mut client = one.client("secret-client").await;
    let (subscribe, uri) = ("resources/subscribe", json!({"uri": "x:secret-uri"}));
    two.call(&client, 1, subscribe, uri).await;
    let mut own = one.get(&client).await;
    one.registry().resource_updated("x:secret-uri");
    own.until("secret-uri").await;
    two.registry().resource_updated("x:secret-uri");
    own.until("secret-uri").await;

    let arguments = json!({"name": "chat", "arguments": {"text": "secret-argument"}});
    let mut chat = one.start(&client, 2, "tools/call", arguments).await;
    let question = chat.until("elicitation/create").await;
    let answer = json!({"action": "accept", "content": {"text": "secret-answer"}});
    let answered = json!({"jsonrpc": "2.0", "id": question["id"], "result": answer});
    assert_eq!(two.post(&client, &answered).await.status(), 202);
    chat.until("secret-reply").await;

    let params = json!({"name": "works", "task": {"ttl": 60_000}});
    let task = two.call(&client, 3, "tools/call", params).await;
    let task = task["result"]["task"]["taskId"].as_str().unwrap().to_owned();
    let result = one.call(&client, 4, "tasks/result", json!({ "taskId": task })).await;
    assert!(result.to_string().contains("secret-result"), "{result}");

    let reason = json!({"requestId": "secret-call", "reason": "secret-reason"});
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": reason});
    assert_eq!(two.post(&client, &cancelled).await.status(), 202);
    client.keep((one, two));
    (client, task)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_store_has_no_plaintext() {
    for key in [None, Some(KEY)] {
        let redis = RedisServer::start();
        let monitor = Monitor::start(redis.port);
        let (client, task) = exchange_messages(&redis, key).await;
        let (heard, kept) = (monitor.stop(), store_dump::everything(redis.port));
        assert!(is_in(&kept, &task), "the dump is of what was kept");
        for secret in SECRETS {
            let found = (is_in(&heard, secret), is_in(&kept, secret));
            match key {
                // Some of the strings are only sent over the bus.
                None => assert!(found.0, "{secret} is found without a key"),
                Some(_) => assert_eq!(found, (false, false), "{secret}"),
            }
        }
        drop(client);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_another_key_nothing_is_there() {
    let redis = RedisServer::start();
    let (client, task) = exchange_messages(&redis, Some(KEY)).await;
    let stranger = Node::on(&redis.url("talk"), Some(OTHER)).await;
    let rotated = Node::on(&redis.url("talk"), Some("33,11")).await;
    let list = json!({"jsonrpc": "2.0", "id": 9, "method": "tasks/list"});
    for (node, status) in [(&stranger, 404), (&rotated, 200)] {
        assert_eq!(node.post(&client, &list).await.status(), status);
    }
    // In a session of its own, the node with another key reports the task as unknown.
    let own = stranger.client("somebody").await;
    let known = stranger.call(&own, 1, "tasks/get", json!({ "taskId": task })).await;
    let never = stranger.call(&own, 1, "tasks/get", json!({"taskId": "AAAAAAAAAAAAAAAAAAAAAA"}));
    assert_eq!(known, never.await);
    assert_eq!(known["error"]["code"], -32602, "{known}");
    let listed = stranger.call(&own, 2, "tasks/list", json!({})).await;
    assert_eq!(listed["result"]["tasks"], json!([]), "{listed}");
    let listed = rotated.call(&client, 2, "tasks/list", json!({})).await;
    assert_eq!(listed["result"]["tasks"][0]["taskId"], task.as_str(), "{listed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_file_has_no_plaintext() {
    for key in [None, Some(KEY)] {
        let name = format!("wharf-sealed-{}-{}", std::process::id(), key.is_some());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        let url = format!("sqlite:{}", directory.join("tasks.db").display());
        let node = Node::on(&url, key).await;
        let client = node.client("secret-client").await;
        let params = json!({"name": "works", "task": {"ttl": 60_000}});
        let task = node.call(&client, 3, "tools/call", params).await;
        let task: &Value = &task["result"]["task"]["taskId"];
        node.call(&client, 4, "tasks/result", json!({ "taskId": task })).await;
        let kept = all_files(&directory);
        assert!(is_in(&kept, task.as_str().unwrap()), "the dump is of what was kept");
        for secret in ["secret-client", "secret-step", "secret-result"] {
            assert_eq!(is_in(&kept, secret), key.is_none(), "{secret}");
        }
        drop(node);
        std::fs::remove_dir_all(directory).unwrap();
    }
}

#[tokio::test]
async fn a_key_that_ends_with_the_process_is_refused_where_the_store_does_not() {
    let redis = RedisServer::start();
    let stores = store::open(&redis.url("own")).await.unwrap();
    let own = std::sync::Arc::new(KeyRing::random());
    let server = Server::new("test", "1").state_cipher(keys(KEY)).store(stores).store_key(own);
    let problems = server.build().unwrap_err().to_string();
    assert!(problems.contains("store key"), "{problems}");
}
