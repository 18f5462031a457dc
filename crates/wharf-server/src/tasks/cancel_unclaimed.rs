//! Tasks whose call is gone before anybody could be told of them.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use wharf_model::Timer;

use crate::{
    router::state::Core,
    tasks::{
        notify::short,
        storage::{Update, record::TaskRecord},
        wakeup::spawn,
    },
};

/// How often a task is looked for that may yet get into the store, and the first pause: together
/// longer than a lease, for by then it would run.
const TRIES: (u32, Duration) = (10, Duration::from_millis(100));

/// A task that is on its way into the store. It is cancelled there when this is dropped, unless
/// somebody looks after it by then.
pub(crate) struct Orphan {
    core: Weak<Core>,
    id: String,
    timer: Arc<dyn Timer>,
    is_alone: bool,
}

impl Orphan {
    pub(crate) fn new(core: &Arc<Core>, record: &TaskRecord, timer: &Arc<dyn Timer>) -> Self {
        let (core, id, timer) = (Arc::downgrade(core), record.id.clone(), timer.clone());
        Orphan { core, id, timer, is_alone: true }
    }

    /// Somebody looks after it, or it is not there.
    pub(crate) fn adopt(mut self) {
        self.is_alone = false;
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        if self.is_alone {
            let (core, id, timer) = (self.core.clone(), self.id.clone(), self.timer.clone());
            spawn(async move { cancel(&core, &id, &*timer).await });
        }
    }
}

async fn cancel(core: &Weak<Core>, id: &str, timer: &dyn Timer) {
    let (tries, mut pause) = TRIES;
    for _ in 0..tries {
        let Some(core) = core.upgrade() else { return };
        let ledger = &core.tasks.engine().ledger;
        match ledger.update(id, None, timer, TaskRecord::cancel).await {
            Ok(Update::Done(..)) => {
                core.tasks.engine().drop_run(id);
                ledger.tell(id).await;
                return tracing::debug!(task = short(id), "a task that nobody knows was cancelled");
            }
            Ok(Update::Refused(..)) => return,
            // A store may still be at work on it, or not answer.
            Ok(Update::Gone) | Err(_) => {}
        }
        drop(core);
        timer.sleep_until(timer.now() + pause).await;
        pause *= 2;
    }
}
