//! Set of tokio tasks that outlive the request that started them.

use std::{
    future::Future,
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::{
    task::{AbortHandle, JoinSet},
    time::{Instant, timeout_at},
};

/// Tasks that end with the endpoint.
#[derive(Debug, Default)]
pub(crate) struct TaskSet {
    tasks: Mutex<JoinSet<()>>,
    /// Auxiliary tasks, which are aborted when the others have ended.
    background: Mutex<JoinSet<()>>,
}

impl TaskSet {
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task)
    }

    /// Runs an auxiliary task, whose end `finish` does not wait for.
    #[cfg(feature = "server")]
    pub(crate) fn spawn_background(&self, task: impl Future<Output = ()> + Send + 'static) {
        lock(&self.background).spawn(task);
    }

    /// Waits for all tasks, including those that they start. Aborts the remaining ones at
    /// `deadline`.
    pub(crate) async fn finish(&self, deadline: Instant) {
        loop {
            let mut tasks = mem::take(&mut *lock(&self.tasks));
            if tasks.is_empty() {
                break;
            }
            let ended = async { while tasks.join_next().await.is_some() {} };
            let _ = timeout_at(deadline, ended).await;
            tasks.shutdown().await;
        }
        let mut background = mem::take(&mut *lock(&self.background));
        background.shutdown().await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
