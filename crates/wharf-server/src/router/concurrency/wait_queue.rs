//! Round-robin queue of waiting calls, by caller.

use std::{
    collections::{BTreeMap, HashMap},
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::sync::oneshot;
use wharf_model::Caller;

use crate::router::caller_shares::CallerShare;
use crate::router::concurrency::{CallPermit, ConcurrencyLimit};

/// Queue of calls for each caller. Callers take turns; the calls of one caller keep their order.
#[derive(Default)]
pub(super) struct WaitQueue {
    /// Counter for calls and turns.
    next: u64,
    waiting: usize,
    /// Callers with waiting calls, in the order of their turns.
    turns: BTreeMap<u64, Caller>,
    callers: HashMap<Caller, CallerQueue>,
}

/// Waiting calls of one caller.
struct CallerQueue {
    turn: u64,
    waiting: BTreeMap<u64, QueuedCall>,
}

/// Waiting call, as the queue stores it.
pub(super) struct QueuedCall {
    call_limit: Arc<ConcurrencyLimit>,
    permit: oneshot::Sender<CallPermit>,
    /// Share of the queue.
    _share: CallerShare,
}

impl QueuedCall {
    /// Grants the permit. If the call is gone, dropping the permit releases it.
    pub(super) fn grant(self, share: CallerShare) {
        let QueuedCall { call_limit, permit, _share } = self;
        drop(_share);
        let _ = permit.send(CallPermit { call_limit, share });
    }
}

impl WaitQueue {
    pub(super) fn len(&self) -> usize {
        self.waiting
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn push(
        &mut self,
        call_limit: &Arc<ConcurrencyLimit>,
        caller: Caller,
        share: CallerShare,
    ) -> QueuedPermit {
        let (permit, given) = oneshot::channel();
        let (number, turn) = (self.number(), self.number());
        let calls = self.callers.entry(caller.clone()).or_insert_with(|| {
            self.turns.insert(turn, caller.clone());
            CallerQueue { turn, waiting: BTreeMap::new() }
        });
        let waiter = QueuedCall { call_limit: call_limit.clone(), permit, _share: share };
        calls.waiting.insert(number, waiter);
        self.waiting += 1;
        QueuedPermit { call_limit: call_limit.clone(), caller, number, given }
    }

    /// Removes the first call of the first caller in turn that `claim` has a permit for.
    pub(super) fn pop(
        &mut self,
        mut claim: impl FnMut(&Caller) -> Option<CallerShare>,
    ) -> Option<(QueuedCall, CallerShare)> {
        let (caller, share) =
            self.turns.values().find_map(|caller| Some((caller.clone(), claim(caller)?)))?;
        let next_turn = self.number();
        let calls = self.callers.get_mut(&caller)?;
        let (_, waiter) = calls.waiting.pop_first()?;
        self.waiting -= 1;
        self.turns.remove(&calls.turn);
        if calls.waiting.is_empty() {
            self.callers.remove(&caller);
        } else {
            calls.turn = next_turn;
            self.turns.insert(next_turn, caller);
        }
        Some((waiter, share))
    }

    /// Removes a call that stops waiting, if it is still queued.
    fn remove(&mut self, caller: &Caller, number: u64) -> Option<QueuedCall> {
        let calls = self.callers.get_mut(caller)?;
        let waiter = calls.waiting.remove(&number)?;
        self.waiting -= 1;
        if calls.waiting.is_empty() {
            self.turns.remove(&calls.turn);
            self.callers.remove(caller);
        }
        Some(waiter)
    }
}

/// Waiting call. It resolves when the call may run; dropping it removes the call from the queue.
pub(crate) struct QueuedPermit {
    call_limit: Arc<ConcurrencyLimit>,
    caller: Caller,
    number: u64,
    given: oneshot::Receiver<CallPermit>,
}

impl Future for QueuedPermit {
    /// `None` never happens: the limit lives as long as its queued permits.
    type Output = Option<CallPermit>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<CallPermit>> {
        Poll::Ready(ready!(Pin::new(&mut self.given).poll(cx)).ok())
    }
}

impl Drop for QueuedPermit {
    fn drop(&mut self) {
        if self.given.is_terminated() {
            return;
        }
        let mut wait_queue = self.call_limit.lock();
        let waiter = wait_queue.remove(&self.caller, self.number);
        self.call_limit.clear_waiting_flag(&wait_queue);
        drop(wait_queue);
        if waiter.is_some() {
            self.call_limit.report_queue();
        }
        // Its waker may drop a call, which locks the queue again.
        drop(waiter);
    }
}
