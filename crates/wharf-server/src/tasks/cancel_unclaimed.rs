//! Tasks whose call is gone before anybody could be told of them.

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

/// How often a task is looked for that may yet get into the store, and the first pause: together
/// longer than a lease, for by then it would run.
const CANCEL_RETRIES: (u32, Duration) = (10, Duration::from_millis(100));

/// A task that is on its way into the store. It is cancelled there when this is dropped, unless
/// somebody looks after it by then.
pub(crate) struct CancelUnclaimed {
    server: Weak<ServerState>,
    id: String,
    timer: Arc<dyn Timer>,
    is_armed: bool,
}

impl CancelUnclaimed {
    pub(crate) fn new(
        server: &Arc<ServerState>,
        record: &TaskRecord,
        timer: &Arc<dyn Timer>,
    ) -> Self {
        let (server, id, timer) = (Arc::downgrade(server), record.id.clone(), timer.clone());
        CancelUnclaimed { server, id, timer, is_armed: true }
    }

    /// Somebody looks after it, or it is not there.
    pub(crate) fn disarm(mut self) {
        self.is_armed = false;
    }
}

impl Drop for CancelUnclaimed {
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
                return tracing::debug!(
                    task = short_id(id),
                    "a task that nobody knows was cancelled"
                );
            }
            Ok(UpdateResult::Refused(..)) => return,
            // A store may still be at work on it, or not answer.
            Ok(UpdateResult::Gone) | Err(_) => {}
        }
        drop(server);
        timer.sleep_until(timer.now() + pause).await;
        pause *= 2;
    }
}
