//! Work that outlives the request that began it.

use std::{
    future::Future,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::{
    task::{AbortHandle, JoinSet},
    time::{Instant, timeout_at},
};

/// Tasks that end with the endpoint.
#[derive(Debug, Default)]
pub(crate) struct Tasks(Mutex<JoinSet<()>>);

impl Tasks {
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut tasks = self.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task)
    }

    /// Waits for every task, and ends those that are still there at `deadline`.
    pub(crate) async fn finish(&self, deadline: Instant) {
        let mut tasks = std::mem::take(&mut *self.lock());
        let _ = timeout_at(deadline, async { while tasks.join_next().await.is_some() {} }).await;
        tasks.shutdown().await;
    }

    fn lock(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
