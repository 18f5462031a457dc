//! Places at something slow, shared by callers.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;
use wharf_model::{Budget, BudgetShare, Caller};

/// How many callers may wait for each place.
const WAITING: usize = 16;

/// A bounded number of places, and lines in front of them: each caller has a share of both and a line of its own, so
/// that one who sends many requests does not stand before the others.
pub(super) struct Places {
    open: Arc<Budget>,
    waiting: Arc<Budget>,
    lines: Mutex<HashMap<Caller, Arc<Notify>>>,
}

/// A place; it is free again when this is dropped.
pub(super) struct Place {
    held: Option<BudgetShare>,
    places: Arc<Places>,
}

/// One who waits.
struct Waiting<'a> {
    places: &'a Places,
    caller: &'a Caller,
    held: Option<BudgetShare>,
}

impl Places {
    /// So many places. A caller alone gets half of them.
    pub(super) fn new(most: usize) -> Arc<Self> {
        let waiting = Budget::new(most.saturating_mul(WAITING));
        Arc::new(Places { open: Budget::new(most), waiting, lines: Mutex::default() })
    }

    /// Takes a place, or waits for one; none if too many of the caller's requests wait already.
    pub(super) async fn take(self: &Arc<Self>, caller: &Caller) -> Option<Place> {
        if self.waiting.held_by(caller) == 0
            && let Some(place) = self.try_take(caller)
        {
            return Some(place);
        }
        let (waiting, line, is_first) = self.wait(caller)?;
        let mut notified = pin!(line.notified());
        notified.as_mut().enable();
        // A place may have become free before there was a line.
        if let Some(place) = is_first.then(|| self.try_take(caller)).flatten() {
            return Some(place);
        }
        loop {
            notified.as_mut().await;
            notified.set(line.notified());
            notified.as_mut().enable();
            if let Some(place) = self.try_take(caller) {
                drop(waiting);
                return Some(place);
            }
        }
    }

    fn try_take(self: &Arc<Self>, caller: &Caller) -> Option<Place> {
        let held = self.open.take(caller, 1).ok()?;
        Some(Place { held: Some(held), places: self.clone() })
    }

    /// Goes to the end of the caller's line, and whether nobody is before it.
    fn wait<'a>(&'a self, caller: &'a Caller) -> Option<(Waiting<'a>, Arc<Notify>, bool)> {
        let mut lines = self.lines();
        let held = self.waiting.take(caller, 1).ok()?;
        let line = lines.entry(caller.clone()).or_default().clone();
        let is_first = self.waiting.held_by(caller) == 1;
        Some((Waiting { places: self, caller, held: Some(held) }, line, is_first))
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<Caller, Arc<Notify>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.held = None;
        // Of each line the first: who may have the place depends on what the others hold.
        for line in self.places.lines().values() {
            line.notify_one();
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut lines = self.places.lines();
        self.held = None;
        if self.places.waiting.held_by(self.caller) == 0 {
            lines.remove(self.caller);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, time::Duration};

    use futures_util::future::join_all;
    use tokio::time::{Instant, sleep, timeout};

    use super::*;

    fn caller(number: u8) -> Caller {
        Caller::from(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, number)))
    }

    #[tokio::test(start_paused = true)]
    async fn one_caller_gets_half_and_its_line_ends() {
        let places = Places::new(8);
        let begin = Instant::now();
        let visits = join_all((0..200).map(|_| async {
            let place = places.take(&caller(1)).await?;
            sleep(Duration::from_secs(1)).await;
            drop(place);
            Some(begin.elapsed().as_secs())
        }));
        let ended = visits.await;
        let served: Vec<u64> = ended.iter().flatten().copied().collect();
        // Four at once, and 64 who waited: half of 8, and half of 128.
        assert_eq!(served.len(), 68);
        assert_eq!(served.iter().max(), Some(&17));
        assert_eq!((places.open.total(), places.waiting.total()), (0, 0));
        assert!(places.lines().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_newcomer_does_not_wait_behind_a_line() {
        let places = Places::new(8);
        let mut flood = join_all((0..60).map(|_| async {
            let _place = places.take(&caller(1)).await;
            sleep(Duration::from_secs(1)).await;
        }));
        assert!(timeout(Duration::from_millis(1), &mut flood).await.is_err());
        let begin = Instant::now();
        assert!(places.take(&caller(2)).await.is_some());
        assert_eq!(begin.elapsed(), Duration::ZERO);
        flood.await;
    }

    #[tokio::test(start_paused = true)]
    async fn who_stops_waiting_leaves_nothing_behind() {
        let places = Places::new(2);
        let place = places.take(&caller(1)).await;
        for _ in 0..3 {
            assert!(timeout(Duration::from_secs(1), places.take(&caller(1))).await.is_err());
        }
        assert_eq!(places.waiting.total(), 0);
        assert!(places.lines().is_empty());
        drop(place);
        assert!(places.take(&caller(1)).await.is_some());
    }
}
