//! Work that outlives the request that began it.

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
    /// What goes on beside the work, and is of no use without it.
    background: Mutex<JoinSet<()>>,
}

impl TaskSet {
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task)
    }

    /// Runs something for as long as there may be work: nobody waits for its end.
    pub(crate) fn spawn_background(&self, task: impl Future<Output = ()> + Send + 'static) {
        lock(&self.background).spawn(task);
    }

    /// Waits for every task, and for those that they begin, and ends what is still there at
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
