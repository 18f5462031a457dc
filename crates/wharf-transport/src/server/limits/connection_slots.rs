//! The places of connections, which callers share.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, Weak,
    atomic::{AtomicBool, Ordering},
};

use tokio::{task::AbortHandle, time::Instant};
use wharf_model::{Caller, LogThrottle};

use crate::server::{
    jsonl::call::Shared,
    limits::fair_eviction::{Places, Use},
};

/// The places of the connections of one listening socket.
#[derive(Debug)]
pub(crate) struct Seats {
    places: Mutex<Places<Arc<Seat>>>,
    begun: Instant,
}

/// The place of one connection. Requests have it in their scope.
#[derive(Debug)]
pub(crate) struct Seat {
    caller: Caller,
    seats: Weak<Seats>,
    taken: u64,
    gone: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    spoken: Spoken,
    /// What ends the connection. None until it is known.
    task: Option<AbortHandle>,
    /// Whether it was chosen to end before that was known.
    ended: bool,
}

/// How to find out whether a connection is in use.
#[derive(Debug, Default)]
pub(crate) enum Spoken {
    /// Nothing has been said yet.
    #[default]
    Nothing,
    #[cfg(feature = "http")]
    Http1(crate::server::http::Turns),
    #[cfg(feature = "http")]
    Http2(crate::server::http::StreamsSeen),
    Lines(Weak<Shared>),
}

impl Seats {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Seats { places: Mutex::new(Places::new(most)), begun: Instant::now() })
    }

    /// A place for a connection of `caller`. If there is none left, another connection is closed. None if that would
    /// have to be one that is in use.
    pub(crate) fn take(self: &Arc<Self>, caller: Caller) -> Option<Sitting> {
        let now = self.now();
        let mut places = self.lock();
        if !places.has_room(1) {
            let victim = places.victim(&caller, now, |seat| self.look(seat, now));
            note(&caller, victim.as_deref());
            let victim = victim?;
            victim.gone.store(true, Ordering::Release);
            places.remove(&victim.caller, 1, |seat| seat.is_gone());
            drop(places);
            victim.end();
            places = self.lock();
        }
        let seat = Arc::new(Seat {
            caller,
            seats: Arc::downgrade(self),
            taken: now,
            gone: AtomicBool::new(false),
            state: Mutex::default(),
        });
        places.add(&seat.caller, 1, now, seat.clone());
        Some(Sitting(seat))
    }

    fn look(&self, seat: &Seat, now: u64) -> Use {
        if seat.is_gone() {
            return Use::Gone;
        }
        match &mut seat.lock().spoken {
            Spoken::Nothing => Use::Idle(seat.taken),
            #[cfg(feature = "http")]
            Spoken::Http1(turns) => match turns.theirs(Instant::now()) {
                Some(since) => Use::Idle(self.moment(since)),
                None => Use::Busy,
            },
            #[cfg(feature = "http")]
            Spoken::Http2(streams) => match (streams.are_open(), streams.were_used()) {
                (true, _) => Use::Busy,
                (false, true) => Use::Idle(now),
                (false, false) => Use::Idle(seat.taken),
            },
            Spoken::Lines(line) => match line.upgrade() {
                Some(line) if line.flight.has_calls() => Use::Busy,
                Some(line) if line.was_used() => Use::Idle(now),
                _ => Use::Idle(seat.taken),
            },
        }
    }

    fn now(&self) -> u64 {
        self.moment(Instant::now())
    }

    fn moment(&self, instant: Instant) -> u64 {
        let since = instant.saturating_duration_since(self.begun);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Places<Arc<Seat>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn note(caller: &Caller, victim: Option<&Seat>) {
    static LINE: LogThrottle = LogThrottle::new();
    if LINE.is_due() {
        match victim {
            Some(seat) => tracing::warn!(
                caller = ?seat.caller,
                "all connections are taken: the longest idle one of the caller that holds most is closed"
            ),
            None => {
                tracing::warn!(?caller, "all connections are taken and in use: one was refused")
            }
        }
    }
}

impl Seat {
    /// Says what ends the connection from now on.
    pub(crate) fn ends_with(&self, task: AbortHandle) {
        let mut state = self.lock();
        if state.ended {
            task.abort();
        }
        state.task = Some(task);
    }

    /// Says how to find out whether the connection is in use.
    pub(crate) fn speaks(&self, spoken: Spoken) {
        self.lock().spoken = spoken;
    }

    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        if let Some(task) = &state.task {
            task.abort();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that has a place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Sitting(Arc<Seat>);

impl Sitting {
    pub(crate) fn seat(&self) -> &Arc<Seat> {
        &self.0
    }
}

impl Drop for Sitting {
    fn drop(&mut self) {
        if self.0.gone.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(seats) = self.0.seats.upgrade() {
            seats.lock().remove(&self.0.caller, 1, |seat| seat.is_gone());
        }
    }
}
