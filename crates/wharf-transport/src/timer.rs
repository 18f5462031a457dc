//! Timers for call deadlines.

use std::{
    collections::BinaryHeap,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Condvar, PoisonError},
    task::{Context, Poll, Waker},
    thread,
    time::Instant,
};

use wharf_model::{BoxFuture, Lock, Timer};

/// Tokio's clock. Needs a runtime with time enabled; a test may pause it.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioTimer;

impl Timer for TokioTimer {
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    fn sleep_until(&self, deadline: Instant) -> BoxFuture<()> {
        Box::pin(tokio::time::sleep_until(deadline.into()))
    }
}

/// Timer for callers without a runtime: one thread, started on first use.
#[derive(Clone, Default)]
pub struct ThreadTimer(Arc<TimerThread>);

#[derive(Default)]
struct TimerThread {
    state: Lock<TimerState>,
    changed: Condvar,
}

#[derive(Default)]
struct TimerState {
    heap: BinaryHeap<TimerEntry>,
    running: bool,
}

/// Timer of one sleep. The earliest is the greatest, because `BinaryHeap` is a max-heap.
struct TimerEntry {
    deadline: Instant,
    sleeper: Arc<Lock<SleepState>>,
}

#[derive(Default)]
struct SleepState {
    waker: Option<Waker>,
    gone: bool,
}

impl Timer for ThreadTimer {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep_until(&self, deadline: Instant) -> BoxFuture<()> {
        let sleeper = Arc::default();
        Box::pin(ThreadSleep { timer_thread: self.0.clone(), deadline, sleeper, queued: false })
    }
}

impl fmt::Debug for ThreadTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ThreadTimer")
    }
}

struct ThreadSleep {
    timer_thread: Arc<TimerThread>,
    deadline: Instant,
    sleeper: Arc<Lock<SleepState>>,
    queued: bool,
}

impl Future for ThreadSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // Registered before the deadline is checked, so that a timer that fires in between wakes
        // the task.
        self.sleeper.lock().waker = Some(cx.waker().clone());
        if Instant::now() >= self.deadline {
            return Poll::Ready(());
        }
        if !self.queued {
            self.queued = true;
            let entry = TimerEntry { deadline: self.deadline, sleeper: self.sleeper.clone() };
            TimerThread::add(&self.timer_thread, entry);
        }
        Poll::Pending
    }
}

impl Drop for ThreadSleep {
    fn drop(&mut self) {
        if self.queued {
            *self.sleeper.lock() = SleepState { waker: None, gone: true };
        }
    }
}

impl TimerThread {
    fn add(timer_thread: &Arc<TimerThread>, entry: TimerEntry) {
        let mut state = timer_thread.state.lock();
        // Sleeps that were dropped leave entries behind; they are removed when the heap would grow.
        if state.heap.len() == state.heap.capacity() {
            state.heap.retain(|entry| !entry.sleeper.lock().gone);
        }
        state.heap.push(entry);
        if !state.running {
            let timer_thread = timer_thread.clone();
            let thread = thread::Builder::new().name("wharf-timer".into());
            state.running = thread.spawn(move || timer_thread.run()).is_ok();
        }
        drop(state);
        timer_thread.changed.notify_one();
    }

    /// Wakes expired sleeps in order; returns when the heap is empty.
    fn run(&self) {
        let mut state = self.state.lock();
        while let Some(next) = state.heap.peek() {
            let wait = next.deadline.saturating_duration_since(Instant::now());
            if wait.is_zero() {
                let sleeper = state.heap.pop().map(|entry| entry.sleeper);
                drop(state);
                if let Some(waker) = sleeper.and_then(|sleeper| sleeper.lock().waker.take()) {
                    waker.wake();
                }
                state = self.state.lock();
            } else {
                let woken = self.changed.wait_timeout(state, wait);
                state = woken.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        state.running = false;
    }
}

impl Ord for TimerEntry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.deadline.cmp(&self.deadline)
    }
}

impl PartialOrd for TimerEntry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for TimerEntry {
    fn eq(&self, other: &Self) -> bool {
        self.deadline == other.deadline
    }
}

impl Eq for TimerEntry {}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_sleep_without_a_runtime_clock_ends_after_its_deadline_and_another_can_follow() {
        let timer = ThreadTimer::default();
        for _ in 0..2 {
            let deadline = timer.now() + Duration::from_millis(5);
            timer.sleep_until(deadline).await;
            assert!(timer.now() >= deadline);
        }
    }

    #[test]
    fn sleeps_that_ended_early_do_not_pile_up() {
        let timer = ThreadTimer::default();
        for _ in 0..10_000 {
            let mut sleep = timer.sleep_until(timer.now() + Duration::from_secs(3600));
            assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        assert!(timer.0.state.lock().heap.capacity() < 64);
    }
}
