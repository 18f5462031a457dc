//! Calls that are dropped before their task is in the store.

use std::{collections::BTreeMap, sync::Arc};

use crate::task_support::*;
use futures_util::future::poll_immediate;
use wharf_model::{AttachResult, Record, RecordStore, Sharing, Stored};
use wharf_server::{MemoryRecords, Router, State, TaskMode, Tool, memory_stores};

/// A store whose inserts take time and finish even if the caller drops the future.
#[derive(Default)]
struct SlowInserts(Arc<MemoryRecords>);

impl RecordStore for SlowInserts {
    fn insert(&self, record: Record, most: usize) -> Stored<bool> {
        let records = self.0.clone();
        let inserted = tokio::spawn(async move {
            pass(seconds(5)).await;
            records.insert(record, most).await
        });
        Box::pin(async move { inserted.await.unwrap() })
    }
    fn now(&self) -> Stored<u64> {
        self.0.now()
    }
    fn load(&self, id: &str) -> Stored<Option<Record>> {
        self.0.load(id)
    }
    fn swap(&self, record: Record) -> Stored<bool> {
        self.0.swap(record)
    }
    fn remove(&self, id: &str) -> Stored<bool> {
        self.0.remove(id)
    }
    fn list(&self, owner: &str, after: Option<&str>, limit: usize) -> Stored<Vec<Record>> {
        self.0.list(owner, after, limit)
    }
    fn due(&self, limit: usize) -> Stored<Vec<String>> {
        self.0.due(limit)
    }
    fn attach(&self, id: &str, fence: u64, name: &str, value: Vec<u8>) -> Stored<AttachResult> {
        self.0.attach(id, fence, name, value)
    }
    fn attachments(&self, id: &str) -> Stored<BTreeMap<String, Vec<u8>>> {
        self.0.attachments(id)
    }
    fn sweep(&self, limit: usize) -> Stored<usize> {
        self.0.sweep(limit)
    }
}

async fn works(State(effects): State<Counter>) -> String {
    effects.hit().to_string()
}

#[tokio::test(start_paused = true)]
async fn a_task_of_a_dropped_call_does_not_run() {
    let (slow, effects) = (SlowInserts::default(), Counter::default());
    let records = slow.0.clone();
    let stores = memory_stores().tasks(slow).sharing(Sharing::Machine);
    let tool = Tool::new("works", works).task(TaskMode::optional());
    let server = Router::builder().store(stores).tasks(quick()).state(effects.clone());
    let router = server.add(tool).build().unwrap();
    router.start_tasks(&timer());
    let client = client(&router);
    let mut gone = client.start(client.request(call("works")));
    assert!(poll_immediate(next(&mut gone)).await.is_none());
    pass(seconds(1)).await;
    drop(gone);
    pass(seconds(120)).await;
    assert_eq!(records.list("", None, 10).await.unwrap().len(), 1, "it was stored");
    assert_eq!(effects.count(), 0);
    // A caller that waits gets its task.
    let id = client.task("works").await.id;
    settle().await;
    assert_eq!(completed_text(&client.get(&id).await), "1");
}
