//! Functions that block, on threads where that harms nobody.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Poll, Waker},
    thread,
    time::Duration,
};

use wharf_model::{Error, Outbox, Outcome};

/// How many blocking functions may be at work or in line.
pub(crate) struct Pool {
    limit: usize,
    taken: AtomicUsize,
}

/// One place in the pool. The job owns it, not the call: a thread outlives a cancelled call.
struct Place(Arc<Pool>);

impl Pool {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Pool { limit, taken: AtomicUsize::new(0) })
    }

    fn enter(self: &Arc<Self>) -> Option<Place> {
        let fits = |taken: usize| (taken < self.limit).then_some(taken + 1);
        self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).ok()?;
        Some(Place(self.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Where the job leaves what came of it.
struct Slot {
    result: Option<thread::Result<Outcome>>,
    /// Set when the job is gone, with or without a result.
    over: bool,
    waker: Option<Waker>,
}

struct Leave(Arc<Mutex<Slot>>);

impl Leave {
    fn put(&self, result: Option<thread::Result<Outcome>>) {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        slot.over = true;
        slot.result = slot.result.take().or(result);
        if let Some(waker) = slot.waker.take() {
            drop(slot);
            waker.wake();
        }
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.put(None);
    }
}

/// Runs `job` on a thread that may block, unless the call is over before it begins.
pub(crate) fn run(
    pool: Arc<Pool>,
    outbox: Outbox,
    job: impl FnOnce() -> Outcome + Send + 'static,
) -> impl Future<Output = Outcome> + Send + 'static {
    let mut job = Some(job);
    let slot = Arc::new(Mutex::new(Slot { result: None, over: false, waker: None }));
    let mut leave = Some(Leave(slot.clone()));
    std::future::poll_fn(move |cx| {
        if let (Some(job), Some(leave)) = (job.take(), leave.take()) {
            let Some(place) = pool.enter() else { return Poll::Ready(overloaded()) };
            let (outbox, span) = (outbox.clone(), tracing::Span::current());
            spawn(Box::new(move || {
                let work = AssertUnwindSafe(|| span.in_scope(job));
                let result = (!outbox.is_closed()).then(|| catch_unwind(work));
                drop(place);
                leave.put(result);
            }));
        }
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        match slot.result.take() {
            Some(Ok(outcome)) => Poll::Ready(outcome),
            Some(Err(panic)) => {
                drop(slot);
                resume_unwind(panic)
            }
            None if slot.over => Poll::Ready(overloaded()),
            None => {
                slot.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    })
}

/// A job that cannot get a thread is dropped, which its call sees.
fn spawn(job: Box<dyn FnOnce() + Send>) {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(job)),
        Err(_) => drop(thread::Builder::new().name("wharf-blocking".into()).spawn(job)),
    }
}

fn overloaded() -> Outcome {
    Error::overloaded(Duration::from_secs(1)).into()
}
