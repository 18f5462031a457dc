//! How many calls run at once, how many wait, and who comes next.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use wharf_model::Release;

/// Lets so many in at once; the next ones wait in line, and those after them are turned away.
pub(crate) struct Gate {
    room: usize,
    most_waiting: usize,
    /// How many are inside; [`WAITED_FOR`] is set as long as there is a line, and then a place that
    /// is given back goes to the first in it.
    inside: AtomicUsize,
    line: Mutex<Line>,
}

const WAITED_FOR: usize = 1 << (usize::BITS - 1);

#[derive(Default)]
struct Line {
    next_ticket: u64,
    /// In the order they came.
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
        let room = room.min(WAITED_FOR - 1);
        let (inside, waiting) = (AtomicUsize::new(0), Mutex::default());
        Arc::new(Gate { room, most_waiting: line, inside, line: waiting })
    }

    pub(crate) fn enter(self: &Arc<Self>) -> Admission {
        match self.walk_in() {
            true => Admission::Now,
            false => self.line_up(),
        }
    }

    /// Takes a place if there is one, and nobody waits for it.
    fn walk_in(&self) -> bool {
        let one_more = |inside| (inside < self.room).then(|| inside + 1);
        self.inside.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_ok()
    }

    #[cold]
    fn line_up(self: &Arc<Self>) -> Admission {
        let mut line = self.lock();
        if line.waiting.len() >= self.most_waiting {
            return if self.walk_in() { Admission::Now } else { Admission::Never };
        }
        // From here on, whoever leaves comes to the line; who left just now made room.
        self.inside.fetch_or(WAITED_FOR, Ordering::AcqRel);
        if line.waiting.is_empty() && self.inside.load(Ordering::Acquire) ^ WAITED_FOR < self.room {
            self.inside.fetch_add(1, Ordering::AcqRel);
            self.inside.fetch_and(!WAITED_FOR, Ordering::AcqRel);
            return Admission::Now;
        }
        let number = line.next_ticket;
        line.next_ticket += 1;
        line.waiting.push_back((number, None));
        Admission::Later(Ticket { gate: self.clone(), number, used: false })
    }

    /// Gives a place to the first in line, or keeps it free if nobody is there any more.
    fn pass_on(&self, line: &mut Line) -> Option<Waker> {
        let first = line.waiting.pop_front();
        self.mark(line);
        let Some((number, waker)) = first else {
            self.inside.fetch_sub(1, Ordering::AcqRel);
            return None;
        };
        line.called.push(number);
        waker
    }

    /// Says whether anybody waits.
    fn mark(&self, line: &Line) {
        if line.waiting.is_empty() {
            self.inside.fetch_and(!WAITED_FOR, Ordering::AcqRel);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Release for Gate {
    fn release(&self) {
        let one_less = |inside| (inside & WAITED_FOR == 0).then(|| inside - 1);
        if self.inside.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less).is_ok() {
            return;
        }
        let waker = self.pass_on(&mut self.lock());
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
        let mut line = gate.lock();
        if let Some(index) = line.called.iter().position(|it| *it == self.number) {
            line.called.swap_remove(index);
            self.used = true;
            return Poll::Ready(());
        }
        let place = line.waiting.iter_mut().find(|it| it.0 == self.number);
        let old = place.and_then(|(_, waker)| waker.replace(cx.waker().clone()));
        // Dropping a waker may drop a call, which comes back here.
        drop(line);
        drop(old);
        Poll::Pending
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.used {
            return;
        }
        let mut line = self.gate.lock();
        let waker = match line.called.iter().position(|it| *it == self.number) {
            Some(index) => {
                line.called.swap_remove(index);
                self.gate.pass_on(&mut line)
            }
            None => {
                line.waiting.retain(|it| it.0 != self.number);
                self.gate.mark(&line);
                None
            }
        };
        drop(line);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
