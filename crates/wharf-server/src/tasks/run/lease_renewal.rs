//! Lease of a task run: renewed by heartbeats, or lost before another process can claim the task.

use std::{
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use wharf_model::{BoxFuture, Timer};

use crate::tasks::{run::state::TaskRun, storage::random_fraction};

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
        let next =
            timer.now() + task_run.heartbeat_interval().mul_f64(0.75 + random_fraction() / 4.0);
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
                self.task_run.heartbeat_interval()
            } else {
                self.task_run.heartbeat_interval() / 4
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
