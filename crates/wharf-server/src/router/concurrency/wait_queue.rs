//! Calls that wait, by caller.

use std::{
    collections::{BTreeMap, HashMap},
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::sync::oneshot;
use wharf_model::Caller;

use crate::router::caller_shares::Share;
use crate::router::concurrency::{Gate, Place};

/// A queue of calls for each caller. Callers take turns; the calls of one keep their order.
#[derive(Default)]
pub(super) struct Line {
    /// Numbers calls and turns.
    next: u64,
    waiting: usize,
    /// The callers whose calls wait, in the order of their turns.
    turns: BTreeMap<u64, Caller>,
    callers: HashMap<Caller, Calls>,
}

/// The waiting calls of one caller.
struct Calls {
    turn: u64,
    waiting: BTreeMap<u64, Waiter>,
}

/// A waiting call, as the gate knows it.
pub(super) struct Waiter {
    gate: Arc<Gate>,
    place: oneshot::Sender<Place>,
    /// Its place among those that wait.
    _share: Share,
}

impl Waiter {
    /// Gives the call its place. A call that is gone gives it back.
    pub(super) fn serve(self, share: Share) {
        let Waiter { gate, place, _share } = self;
        drop(_share);
        let _ = place.send(Place { gate, share });
    }
}

impl Line {
    pub(super) fn len(&self) -> usize {
        self.waiting
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn push(&mut self, gate: &Arc<Gate>, caller: Caller, share: Share) -> Ticket {
        let (place, given) = oneshot::channel();
        let (number, turn) = (self.number(), self.number());
        let calls = self.callers.entry(caller.clone()).or_insert_with(|| {
            self.turns.insert(turn, caller.clone());
            Calls { turn, waiting: BTreeMap::new() }
        });
        let waiter = Waiter { gate: gate.clone(), place, _share: share };
        calls.waiting.insert(number, waiter);
        self.waiting += 1;
        Ticket { gate: gate.clone(), caller, number, given }
    }

    /// The first call of the first caller in turn that `claim` has a place for.
    pub(super) fn pop(
        &mut self,
        mut claim: impl FnMut(&Caller) -> Option<Share>,
    ) -> Option<(Waiter, Share)> {
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

    /// Takes out a call that does not want to wait any more, if it still does.
    fn remove(&mut self, caller: &Caller, number: u64) -> Option<Waiter> {
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

/// A waiting call. It is ready when the call may run; dropping it before gives up waiting.
pub(crate) struct Ticket {
    gate: Arc<Gate>,
    caller: Caller,
    number: u64,
    given: oneshot::Receiver<Place>,
}

impl Future for Ticket {
    /// `None` never happens: the gate lives as long as its tickets.
    type Output = Option<Place>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Place>> {
        Poll::Ready(ready!(Pin::new(&mut self.given).poll(cx)).ok())
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.given.is_terminated() {
            return;
        }
        let mut line = self.gate.lock();
        let waiter = line.remove(&self.caller, self.number);
        self.gate.unmark(&line);
        drop(line);
        // Its waker may drop a call, which comes back here.
        drop(waiter);
    }
}
