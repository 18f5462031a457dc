//! Runs blocking handlers on threads where blocking is allowed.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Poll, Waker},
    thread,
    time::Duration,
};

use wharf_model::{
    Caller, CurrentTrace, Error, Lock, LogThrottle, Outbox, Outcome, RequestExtensions,
};

use crate::router::caller_shares::{CallerShare, CallerShares};

/// Limit of blocking handlers that run or wait for a thread, in total and per caller.
pub(crate) struct BlockingPool {
    permits: CallerShares,
    taken: AtomicUsize,
    refused: LogThrottle,
}

/// Permit of the pool. The job owns it, not the call, because a thread outlives a cancelled call.
pub(crate) struct BlockingPermit {
    pool: Arc<BlockingPool>,
    _share: CallerShare,
}

impl BlockingPool {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        let (permits, taken) = (CallerShares::new(limit), AtomicUsize::new(0));
        Arc::new(BlockingPool { permits, taken, refused: LogThrottle::default() })
    }

    /// Acquires a permit for a call with these request extensions.
    pub(crate) fn acquire(self: &Arc<Self>, scope: &RequestExtensions) -> Option<BlockingPermit> {
        let permit = |_share| Some(BlockingPermit { pool: self.clone(), _share });
        match self.take(self.permits.open) {
            true => permit(None),
            false => permit(self.acquire_contended(&Caller::of(scope))?),
        }
    }

    #[cold]
    fn acquire_contended(&self, caller: &Caller) -> Option<CallerShare> {
        let share = self.permits.claim(self.taken.load(Ordering::Acquire), caller);
        let share = share.filter(|_| self.take(self.permits.capacity));
        if share.is_none()
            && let Some(suppressed) = self.refused.due()
        {
            let taken = self.taken.load(Ordering::Acquire);
            tracing::warn!(
                taken,
                suppressed,
                "rejecting calls: too many blocking handlers are running"
            );
        }
        share
    }

    /// Takes a permit if fewer than `capacity` are taken.
    fn take(&self, capacity: usize) -> bool {
        let fits = |taken: usize| (taken < capacity).then_some(taken + 1);
        self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).is_ok()
    }
}

impl Drop for BlockingPermit {
    fn drop(&mut self) {
        self.pool.taken.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Slot that the job puts its result into.
struct ResultSlot {
    result: Option<thread::Result<Outcome>>,
    /// True once the job is gone, with or without a result.
    is_over: bool,
    waker: Option<Waker>,
}

struct FinishOnDrop(Arc<Lock<ResultSlot>>);

impl FinishOnDrop {
    fn put(&self, result: Option<thread::Result<Outcome>>) {
        let mut slot = self.0.lock();
        slot.is_over = true;
        slot.result = slot.result.take().or(result);
        if let Some(waker) = slot.waker.take() {
            drop(slot);
            waker.wake();
        }
    }
}

impl Drop for FinishOnDrop {
    fn drop(&mut self) {
        self.put(None);
    }
}

/// Runs `job` with its permit, on a thread that may block, unless the call ends before the job
/// starts.
pub(crate) fn run(
    permit: BlockingPermit,
    outbox: Outbox,
    job: impl FnOnce() -> Outcome + Send + 'static,
) -> impl Future<Output = Outcome> + Send + 'static {
    let mut job = Some((job, permit));
    let slot = Arc::new(Lock::new(ResultSlot { result: None, is_over: false, waker: None }));
    let mut leave = Some(FinishOnDrop(slot.clone()));
    std::future::poll_fn(move |cx| {
        if let (Some((job, permit)), Some(leave)) = (job.take(), leave.take()) {
            let (outbox, span, trace) =
                (outbox.clone(), tracing::Span::current(), CurrentTrace::get());
            spawn(Box::new(move || {
                let work = AssertUnwindSafe(|| trace.within(|| span.in_scope(job)));
                let result = (!outbox.is_closed()).then(|| catch_unwind(work));
                drop(permit);
                leave.put(result);
            }));
        }
        let mut slot = slot.lock();
        match slot.result.take() {
            Some(Ok(outcome)) => Poll::Ready(outcome),
            Some(Err(panic)) => {
                drop(slot);
                resume_unwind(panic)
            }
            None if slot.is_over => Poll::Ready(overloaded()),
            None => {
                slot.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    })
}

/// Spawns the job. A job that cannot get a thread is dropped, which its call detects.
fn spawn(job: Box<dyn FnOnce() + Send>) {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(job)),
        Err(_) => drop(thread::Builder::new().name("wharf-blocking".into()).spawn(job)),
    }
}

pub(crate) fn overloaded() -> Outcome {
    Error::overloaded(Duration::from_secs(1)).into()
}
