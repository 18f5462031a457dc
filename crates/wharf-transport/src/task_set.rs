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
pub(crate) struct Tasks {
    work: Mutex<JoinSet<()>>,
    /// What goes on beside the work, and is of no use without it.
    attendants: Mutex<JoinSet<()>>,
}

impl Tasks {
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut tasks = lock(&self.work);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task)
    }

    /// Runs something for as long as there may be work: nobody waits for its end.
    pub(crate) fn attend(&self, task: impl Future<Output = ()> + Send + 'static) {
        lock(&self.attendants).spawn(task);
    }

    /// Waits for every task, and for those that they begin, and ends what is still there at
    /// `deadline`.
    pub(crate) async fn finish(&self, deadline: Instant) {
        loop {
            let mut tasks = mem::take(&mut *lock(&self.work));
            if tasks.is_empty() {
                break;
            }
            let ended = async { while tasks.join_next().await.is_some() {} };
            let _ = timeout_at(deadline, ended).await;
            tasks.shutdown().await;
        }
        let mut attendants = mem::take(&mut *lock(&self.attendants));
        attendants.shutdown().await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
