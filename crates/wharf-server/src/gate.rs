//! How many calls run at once, how many wait, and who comes next.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use wharf_model::Release;

/// Lets so many in at once; the next ones wait in line, and those after them are turned away.
pub(crate) struct Gate {
    room: usize,
    line: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    inside: usize,
    next_ticket: u64,
    /// In the order they came. A place given back goes to the first.
    waiting: VecDeque<(u64, Option<Waker>)>,
    /// Tickets that have been given a place and do not know yet.
    called: Vec<u64>,
}

/// What the gate says to one who comes.
pub(crate) enum Admission {
    /// Come in; whoever does so gives the place back.
    Now,
    /// Wait for this.
    Later(Ticket),
    /// There is no room, not even to wait.
    Never,
}

impl Gate {
    pub(crate) fn new(room: usize, line: usize) -> Arc<Self> {
        Arc::new(Gate { room, line, state: Mutex::default() })
    }

    pub(crate) fn enter(self: &Arc<Self>) -> Admission {
        let mut state = self.lock();
        if state.inside < self.room {
            state.inside += 1;
            return Admission::Now;
        }
        if state.waiting.len() >= self.line {
            return Admission::Never;
        }
        let number = state.next_ticket;
        state.next_ticket += 1;
        state.waiting.push_back((number, None));
        Admission::Later(Ticket { gate: self.clone(), number, used: false })
    }

    /// Gives a place to the first in line, or keeps it free.
    fn pass_on(state: &mut State) -> Option<Waker> {
        let Some((number, waker)) = state.waiting.pop_front() else {
            state.inside -= 1;
            return None;
        };
        state.called.push(number);
        waker
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Release for Gate {
    fn release(&self) {
        let waker = Gate::pass_on(&mut self.lock());
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A place in line. It completes with a place inside; dropping it before leaves the line.
pub(crate) struct Ticket {
    gate: Arc<Gate>,
    number: u64,
    used: bool,
}

impl Future for Ticket {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let gate = self.gate.clone();
        let mut state = gate.lock();
        if let Some(index) = state.called.iter().position(|it| *it == self.number) {
            state.called.swap_remove(index);
            self.used = true;
            return Poll::Ready(());
        }
        let place = state.waiting.iter_mut().find(|it| it.0 == self.number);
        let old = place.and_then(|(_, waker)| waker.replace(cx.waker().clone()));
        // Dropping a waker may drop a call, which comes back here.
        drop(state);
        drop(old);
        Poll::Pending
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.used {
            return;
        }
        let mut state = self.gate.lock();
        let waker = match state.called.iter().position(|it| *it == self.number) {
            Some(index) => {
                state.called.swap_remove(index);
                Gate::pass_on(&mut state)
            }
            None => {
                state.waiting.retain(|it| it.0 != self.number);
                None
            }
        };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
