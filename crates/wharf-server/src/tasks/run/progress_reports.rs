//! Rate limit for the progress of a task.

use std::{
    task::{Context, Poll},
    time::{Duration, Instant},
};

use wharf_model::{BoxFuture, Notification, Timer};
use wharf_schema::problem_report;

use crate::{context::progress::ProgressUpdate, tasks::options::TaskOptions};

/// Rate limit for stored progress: the first update at once, later ones at most once per interval;
/// the last value wins.
pub(super) struct ProgressReports {
    interval: Duration,
    /// Maximum bytes of the message.
    most: usize,
    pub(super) last: Option<ProgressUpdate>,
    next: Option<Instant>,
    alarm: Option<BoxFuture<()>>,
}

impl ProgressReports {
    pub(super) fn new(options: &TaskOptions) -> Self {
        let (interval, most) = (options.progress_interval, options.item);
        ProgressReports { interval, most, last: None, next: None, alarm: None }
    }

    pub(super) fn take(&mut self, notification: Notification) {
        match notification {
            Notification::Progress { progress, total, message } => {
                let is_long = message.as_ref().is_some_and(|text| text.len() > self.most);
                let message = if is_long { message.map(problem_report::shorten) } else { message };
                self.last = Some(ProgressUpdate { progress, total, message });
            }
            // The content is not logged: it was meant for the client.
            _ => tracing::debug!("ignored a notification other than progress from a task"),
        }
    }

    pub(super) fn poll(&mut self, timer: &dyn Timer, cx: &mut Context<'_>) -> Poll<ProgressUpdate> {
        if self.last.is_none() {
            return Poll::Pending;
        }
        let next = self.next.unwrap_or_else(|| timer.now());
        if timer.now() < next {
            let alarm = self.alarm.get_or_insert_with(|| timer.sleep_until(next));
            if alarm.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
        self.alarm = None;
        self.next = Some(timer.now() + self.interval);
        self.last.take().map_or(Poll::Pending, Poll::Ready)
    }
}
