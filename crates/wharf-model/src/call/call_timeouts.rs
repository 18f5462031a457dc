//! Deadlines of a call in flight: when it times out. Activity of the call restarts the idle timeout, and an open client
//! request stops the clock.

use std::time::{Duration, Instant};

use crate::{BoxFuture, Deadlines};

/// Clock of a call in flight.
pub(crate) struct CallTimeouts {
    deadlines: Deadlines,
    created: Instant,
    /// Start of the time that counts.
    started: Instant,
    last_activity: Instant,
    /// Set while a client request is open: this time does not count for the handler.
    waiting_for_client: Option<Instant>,
    pub(crate) alarm: Option<BoxFuture<()>>,
}

impl CallTimeouts {
    pub(crate) fn new(deadlines: Deadlines, now: Instant) -> Self {
        let (created, started, last_activity) = (now, now, now);
        CallTimeouts {
            deadlines,
            created,
            started,
            last_activity,
            waiting_for_client: None,
            alarm: None,
        }
    }

    /// Updates the clock after activity of the call.
    pub(crate) fn update(
        &mut self,
        deadlines: Deadlines,
        touched: bool,
        waiting_for_client: bool,
        now: Instant,
    ) {
        if touched {
            self.last_activity = now;
        }
        match self.waiting_for_client {
            None if waiting_for_client => (self.waiting_for_client, self.alarm) = (Some(now), None),
            Some(since) if !waiting_for_client => {
                self.started += now.saturating_duration_since(since);
                (self.last_activity, self.waiting_for_client, self.alarm) = (now, None, None);
            }
            _ => {}
        }
        if self.deadlines != deadlines {
            // A call that had to queue gets its full time from now on.
            (self.deadlines, self.alarm) = (deadlines, None);
            (self.started, self.last_activity) = (now, now);
        }
    }

    /// Returns the time of the next timeout. An open client request stops the clock, but no call exceeds
    /// `limit`.
    pub(crate) fn end(&self, limit: Option<Duration>) -> Option<Instant> {
        let (runs, total) = (self.waiting_for_client.is_none(), self.deadlines.total);
        let ends = [
            self.idle_end().filter(|_| runs),
            total.filter(|_| runs).and_then(|total| self.started.checked_add(total)),
            limit.zip(total).and_then(|(limit, total)| self.created.checked_add(limit.max(total))),
        ];
        ends.into_iter().flatten().min()
    }

    /// Returns the end of the idle timeout after the last activity.
    pub(crate) fn idle_end(&self) -> Option<Instant> {
        self.last_activity.checked_add(self.deadlines.idle?)
    }
}
