//! Set of tokio tasks that outlive the request that started them.

use std::{future::Future, mem};
use wharf_model::Lock;

use tokio::{
    task::{AbortHandle, JoinSet},
    time::{Instant, timeout_at},
};

/// Tasks that end with the endpoint.
#[derive(Debug, Default)]
pub(crate) struct TaskSet {
    tasks: Lock<JoinSet<()>>,
    /// Auxiliary tasks, which are aborted when the others have ended.
    background: Lock<JoinSet<()>>,
}

impl TaskSet {
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task)
    }

    /// Runs an auxiliary task, whose end `finish` does not wait for.
    #[cfg(feature = "server")]
    pub(crate) fn spawn_background(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.background.lock().spawn(task);
    }

    /// Waits for all tasks, including those that they start. Aborts the remaining ones at
    /// `deadline`.
    pub(crate) async fn finish(&self, deadline: Instant) {
        loop {
            let mut tasks = mem::take(&mut *self.tasks.lock());
            if tasks.is_empty() {
                break;
            }
            let ended = async { while tasks.join_next().await.is_some() {} };
            let _ = timeout_at(deadline, ended).await;
            tasks.shutdown().await;
        }
        let mut background = mem::take(&mut *self.background.lock());
        background.shutdown().await;
    }
}
