//! Finished spans that wait for their export. The queue is bounded, and never waited for.

use std::{
    collections::VecDeque,
    sync::{
        MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use tokio::sync::Notify;
use wharf_model::{Lock, LogThrottle};

use crate::span::FinishedSpan;

/// Spans of this process that were not exported.
static DROPPED_SPANS: AtomicU64 = AtomicU64::new(0);
static DROPPED_LINE: LogThrottle = LogThrottle::new();

/// Returns the number of spans of this process that were not exported.
pub(crate) fn dropped_spans() -> u64 {
    DROPPED_SPANS.load(Ordering::Relaxed)
}

/// Counts spans that are not exported, and logs it at most every ten seconds.
pub(crate) fn count_dropped(spans: usize, reason: &str) {
    let dropped = DROPPED_SPANS.fetch_add(spans as u64, Ordering::Relaxed) + spans as u64;
    if let Some(suppressed) = DROPPED_LINE.due() {
        tracing::warn!(dropped, suppressed, reason, "dropping spans");
    }
}

#[derive(Debug)]
pub(crate) struct SpanQueue {
    spans: Lock<VecDeque<FinishedSpan>>,
    capacity: usize,
    batch: usize,
    /// Spans are recorded while they are exported.
    is_open: AtomicBool,
    /// The export has ended: spans of calls that end later are dropped.
    has_ended: AtomicBool,
    /// Notified when there is a full batch.
    pub(crate) filled: Notify,
}

impl SpanQueue {
    pub(crate) fn new(capacity: usize, batch: usize) -> Self {
        let (spans, is_open, has_ended, filled) = Default::default();
        SpanQueue { spans, capacity, batch, is_open, has_ended, filled }
    }

    /// Returns whether spans are exported.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    pub(crate) fn open(&self) {
        self.has_ended.store(false, Ordering::Relaxed);
        self.is_open.store(true, Ordering::Relaxed);
    }

    /// Records no further calls. Those in flight may still end.
    pub(crate) fn close(&self) {
        self.is_open.store(false, Ordering::Relaxed);
    }

    /// Ends the queue; returns the number of spans that are left.
    pub(crate) fn end(&self) -> usize {
        self.close();
        let mut spans = self.lock();
        self.has_ended.store(true, Ordering::Relaxed);
        std::mem::take(&mut *spans).len()
    }

    /// Adds a span; drops it if the queue is full.
    pub(crate) fn push(&self, span: FinishedSpan) {
        let mut spans = self.lock();
        if self.has_ended.load(Ordering::Relaxed) {
            drop(spans);
            return count_dropped(1, "the call ended after the export");
        }
        if spans.len() >= self.capacity {
            drop(spans);
            return count_dropped(1, "the queue is full: the receiver does not keep up");
        }
        spans.push_back(span);
        let is_full = spans.len() == self.batch;
        drop(spans);
        if is_full {
            self.filled.notify_one();
        }
    }

    /// Takes the next batch; empty if there are no spans.
    pub(crate) fn take(&self) -> Vec<FinishedSpan> {
        let mut spans = self.lock();
        let most = self.batch.min(spans.len());
        spans.drain(..most).collect()
    }

    /// Returns whether there is a full batch.
    pub(crate) fn is_filled(&self) -> bool {
        self.lock().len() >= self.batch
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<FinishedSpan>> {
        self.spans.lock()
    }
}
