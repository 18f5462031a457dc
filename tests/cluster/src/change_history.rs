//! Change notifications of each subscriber, and the check that all arrived.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::recording_tools::may_see;

/// A change is published by the process that made it, after its acknowledgement: a process killed
/// sooner than this may lose it.
pub const PASSED_ON: Duration = Duration::from_secs(2);
/// Maximum wait of a subscriber on an open stream: streams wait for a store that is down.
const PATIENCE: Duration = Duration::from_secs(60);

/// An acknowledged change.
#[derive(Clone, Debug)]
pub struct RecordedChange {
    /// A resource, or the list of tools.
    pub what: String,
    /// The process that made it.
    pub by: String,
    pub begun: Instant,
    pub known: Instant,
}

/// Delivery guarantee of a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryGuarantee {
    /// All changes since its first subscription, however often its stream breaks.
    Everything,
    /// Changes while a stream is open. A client that opens another reads the state by itself.
    WhileOpen,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum WatchMark {
    Opened,
    Told(String),
    Closed,
}

/// Notifications of one subscriber. Clones share the state.
#[derive(Clone, Debug)]
pub struct SubscriberLog {
    who: &'static str,
    promise: DeliveryGuarantee,
    marks: Arc<Mutex<Vec<(Instant, WatchMark)>>>,
}

impl SubscriberLog {
    #[must_use]
    pub fn new(who: &'static str, promise: DeliveryGuarantee) -> Self {
        SubscriberLog { who, promise, marks: Arc::default() }
    }

    #[must_use]
    pub fn who(&self) -> &'static str {
        self.who
    }

    pub fn opened(&self) {
        self.mark(WatchMark::Opened);
    }

    pub fn notified(&self, what: &str) {
        self.mark(WatchMark::Told(what.into()));
    }

    pub fn closed(&self) {
        self.mark(WatchMark::Closed);
    }

    /// Returns whether its stream is open right now.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let marks = self.marks();
        let last = marks.iter().rev().find(|(_, mark)| !matches!(mark, WatchMark::Told(_)));
        last.is_some_and(|(_, mark)| *mark == WatchMark::Opened)
    }

    /// Number of notifications, and of broken streams.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let marks = self.marks();
        let told = marks.iter().filter(|(_, mark)| matches!(mark, WatchMark::Told(_))).count();
        (told, marks.iter().filter(|(_, mark)| *mark == WatchMark::Closed).count())
    }

    /// Returns whether this notification is not missing any more.
    #[must_use]
    pub fn has_received(&self, change: &RecordedChange) -> bool {
        self.problem(change, Instant::now()).is_none()
    }

    /// Missing and unexpected notifications.
    #[must_use]
    pub fn problems(
        &self,
        changes: &[RecordedChange],
        deaths: &[(String, Instant)],
    ) -> Vec<String> {
        let taken_along = |change: &RecordedChange| {
            let death = deaths.iter().find(|(by, _)| *by == change.by);
            death.is_some_and(|(_, at)| *at < change.known + PASSED_ON)
        };
        let end = Instant::now();
        let untold = changes.iter().filter(|change| !taken_along(change));
        let untold = untold.filter_map(|change| self.problem(change, end));
        let marks = self.marks().clone();
        let secrets = marks.iter().filter_map(|(_, mark)| match mark {
            WatchMark::Told(what) if !may_see(self.who, what) => {
                Some(format!("{} was told of {what}", self.who))
            }
            _ => None,
        });
        untold.chain(secrets).collect()
    }

    fn problem(&self, change: &RecordedChange, end: Instant) -> Option<String> {
        let marks = self.marks();
        let after = marks.partition_point(|(at, _)| *at < change.begun);
        let (before, after) = marks.split_at(after);
        let state = before.iter().rev().find(|(_, mark)| !matches!(mark, WatchMark::Told(_)));
        let is_open = matches!(state, Some((_, WatchMark::Opened)));
        if !may_see(self.who, &change.what) || state.is_none() {
            return None;
        }
        let is_it =
            |mark: &WatchMark| matches!(mark, WatchMark::Told(what) if *what == change.what);
        let told = after.iter().find(|(_, mark)| is_it(mark)).map(|it| it.0);
        let closed = after.iter().find(|(_, mark)| *mark == WatchMark::Closed).map(|it| it.0);
        let later = |at: Option<Instant>| at.is_none_or(|at| at > change.known + PATIENCE);
        let how = if is_open && later(told) && later(closed) {
            "not on a stream that stayed open"
        } else if self.promise == DeliveryGuarantee::Everything && told.is_none() {
            "never"
        } else {
            return None;
        };
        let ago = end.duration_since(change.known);
        Some(format!("{} was told of {change:?}, {ago:?} ago, {how}", self.who))
    }

    fn mark(&self, mark: WatchMark) {
        self.marks().push((Instant::now(), mark));
    }

    fn marks(&self) -> MutexGuard<'_, Vec<(Instant, WatchMark)>> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Error if `kate/0` changed at second 100 and these marks were set, by second.
    fn problem(promise: DeliveryGuarantee, marks: &[(u64, WatchMark)]) -> Option<String> {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let marks = marks.iter().map(|(second, mark)| (at(*second), mark.clone())).collect();
        let watch = SubscriberLog { who: "kate", promise, marks: Arc::new(Mutex::new(marks)) };
        let (what, by) = ("note://kate/0".into(), "n".into());
        let change = RecordedChange { what, by, begun: at(100), known: at(101) };
        watch.problem(&change, at(200))
    }

    fn note_changed(what: &str) -> WatchMark {
        WatchMark::Told(format!("note://{what}"))
    }

    #[test]
    fn complete_notifications_have_no_problems() {
        use {DeliveryGuarantee::*, WatchMark::*};
        for (promise, marks) in [
            (Everything, vec![(1, Opened), (100, note_changed("kate/0"))]),
            (
                Everything,
                vec![(1, Opened), (50, Closed), (150, Opened), (151, note_changed("kate/0"))],
            ),
            (Everything, vec![(150, Opened)]),
            (WhileOpen, vec![(1, Opened), (102, note_changed("kate/0"))]),
            (WhileOpen, vec![(1, Opened), (102, Closed), (103, Opened)]),
            (WhileOpen, vec![(1, Opened), (50, Closed), (103, Opened)]),
        ] {
            assert_eq!(problem(promise, &marks), None, "{promise:?} {marks:?}");
        }
    }

    #[test]
    fn missing_notifications_are_detected() {
        use {DeliveryGuarantee::*, WatchMark::*};
        for (promise, marks) in [
            (Everything, vec![(1, Opened), (99, note_changed("kate/0"))]),
            (Everything, vec![(1, Opened), (102, note_changed("kate/1")), (102, Closed)]),
            (Everything, vec![(1, Opened), (170, note_changed("kate/0"))]),
            (WhileOpen, vec![(1, Opened), (102, note_changed("kate/1"))]),
            (
                WhileOpen,
                vec![(1, Opened), (170, Closed), (171, Opened), (172, note_changed("kate/0"))],
            ),
        ] {
            assert!(problem(promise, &marks).is_some(), "{promise:?} {marks:?}");
        }
    }

    #[test]
    fn data_of_other_owners_is_detected() {
        let watch = SubscriberLog::new("kate", DeliveryGuarantee::WhileOpen);
        watch.notified("note://kate/1");
        assert!(watch.problems(&[], &[]).is_empty());
        watch.notified("note://judy/1");
        assert_eq!(watch.problems(&[], &[]), ["kate was told of note://judy/1"]);
    }
}
