//! Cancels a task whose creating call is dropped before the client received the task.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use wharf_model::Timer;

use crate::{
    router::state::ServerState,
    tasks::{
        notify::short_id,
        storage::{UpdateResult, record::TaskRecord},
        wakeup::spawn,
    },
};

/// Number of attempts to find a task that may not be in the store yet, and the first pause.
/// Together they last longer than a lease: by then the task would run.
const CANCEL_RETRIES: (u32, Duration) = (10, Duration::from_millis(100));

/// Guard of a task that is being inserted into the store. Dropping it cancels the task, unless it
/// was disarmed.
pub(crate) struct CancelUndelivered {
    server: Weak<ServerState>,
    id: String,
    timer: Arc<dyn Timer>,
    is_armed: bool,
}

impl CancelUndelivered {
    pub(crate) fn new(
        server: &Arc<ServerState>,
        record: &TaskRecord,
        timer: &Arc<dyn Timer>,
    ) -> Self {
        let (server, id, timer) = (Arc::downgrade(server), record.id.clone(), timer.clone());
        CancelUndelivered { server, id, timer, is_armed: true }
    }

    /// Disarms the guard: the task has an owner, or was not inserted.
    pub(crate) fn disarm(mut self) {
        self.is_armed = false;
    }
}

impl Drop for CancelUndelivered {
    fn drop(&mut self) {
        if self.is_armed {
            let (server, id, timer) = (self.server.clone(), self.id.clone(), self.timer.clone());
            spawn(async move { cancel(&server, &id, &*timer).await });
        }
    }
}

async fn cancel(server: &Weak<ServerState>, id: &str, timer: &dyn Timer) {
    let (tries, mut pause) = CANCEL_RETRIES;
    for _ in 0..tries {
        let Some(server) = server.upgrade() else { return };
        let task_store = &server.tasks.scheduler().task_store;
        match task_store.update(id, None, timer, TaskRecord::cancel).await {
            Ok(UpdateResult::Done(..)) => {
                server.tasks.scheduler().drop_run(id);
                task_store.publish_changed(id).await;
                return tracing::debug!(task = short_id(id), "cancelled an undelivered task");
            }
            Ok(UpdateResult::Refused(..)) => return,
            // The insert may still be in progress, or the store is unreachable.
            Ok(UpdateResult::Gone) | Err(_) => {}
        }
        drop(server);
        timer.sleep_until(timer.now() + pause).await;
        pause *= 2;
    }
}
