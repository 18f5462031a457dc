//! Lease of a task run: renewed by heartbeats, or lost before another process can claim the task.

use std::{
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use wharf_model::{BoxFuture, Timer};

use crate::tasks::{
    options::{TaskOptions, millis},
    run::state::TaskRun,
    storage,
    storage::{UpdateResult, random_fraction},
};

/// Returns the interval of heartbeats, and of the scans for tasks with an expired lease.
pub(crate) fn heartbeat_interval(options: &TaskOptions) -> Duration {
    options.lease / 3
}

/// Duration of a lease by the local clock, which may be slightly slower than the store's.
pub(super) fn local_lease(options: &TaskOptions) -> Duration {
    options.lease - options.lease / 8
}

/// Renews the lease of one run, and expires when the renewals fail for too long. Each run has its
/// own, so that none waits for the heartbeats of the others.
pub(crate) struct Lease {
    task_run: Arc<TaskRun>,
    /// Time of the next heartbeat.
    next: Instant,
    renewing: Option<BoxFuture<bool>>,
    alarm: Option<(Instant, BoxFuture<()>)>,
}

impl Lease {
    pub(crate) fn new(task_run: Arc<TaskRun>, timer: &dyn Timer) -> Self {
        let next = timer.now()
            + heartbeat_interval(&task_run.options).mul_f64(0.75 + random_fraction() / 4.0);
        Lease { task_run, next, renewing: None, alarm: None }
    }

    /// Sends heartbeats; ready when the lease has expired and the run must stop.
    pub(crate) fn poll_lapsed(&mut self, timer: &dyn Timer, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.poll_renewal(timer, cx);
            let held = self.task_run.held();
            if timer.now() >= held {
                return Poll::Ready(());
            }
            let until = if self.renewing.is_some() { held } else { held.min(self.next) };
            if self.alarm.as_ref().is_none_or(|(at, _)| *at != until) {
                self.alarm = Some((until, timer.sleep_until(until)));
            }
            if self.alarm.as_mut().is_some_and(|(_, alarm)| alarm.as_mut().poll(cx).is_pending()) {
                return Poll::Pending;
            }
            self.alarm = None;
        }
    }

    fn poll_renewal(&mut self, timer: &dyn Timer, cx: &mut Context<'_>) {
        if self.renewing.is_none() && timer.now() >= self.next {
            let task_run = self.task_run.clone();
            self.renewing = Some(Box::pin(async move { task_run.renew().await }));
        }
        let Some(renewing) = &mut self.renewing else { return };
        if let Poll::Ready(renewed) = renewing.as_mut().poll(cx) {
            // Earlier after a failure: there is time for a few more attempts.
            let wait = if renewed {
                heartbeat_interval(&self.task_run.options)
            } else {
                heartbeat_interval(&self.task_run.options) / 4
            };
            self.next = timer.now() + wait.mul_f64(0.75 + random_fraction() / 4.0);
            self.renewing = None;
        }
    }

    /// Runs `work` while the lease is renewed; if the lease expires first, `work` is dropped.
    pub(crate) async fn during(&mut self, timer: &dyn Timer, work: impl Future<Output = ()>) {
        let mut work = pin!(work);
        poll_fn(|cx| match self.poll_lapsed(timer, cx) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => work.as_mut().poll(cx),
        })
        .await;
    }
}

impl TaskRun {
    /// Time until which the run may continue without a heartbeat. A node that is disconnected from
    /// the store must stop by itself, before another one can claim the task.
    pub(crate) fn held(&self) -> Instant {
        self.lock().held
    }

    /// Sends a heartbeat, which renews the lease. False if the store failed.
    pub(crate) async fn renew(&self) -> bool {
        let (lease, before) = (millis(self.options.lease), self.timer.now());
        match self.change(|record, now| record.renew(self.fence, lease, now)).await {
            Ok(UpdateResult::Done(..)) => self.lock().held = before + local_lease(&self.options),
            Ok(_) => {}
            Err(error) => {
                storage::log_failure(&error, "renew the lease of a task");
                return false;
            }
        }
        true
    }
}
