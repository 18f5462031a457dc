//! Contract of the storage traits, as tests that any store can run.
//!
//! Each function takes a closure that makes an **empty** store, or several handles on one (as
//! several processes have), and panics at the first violation. Run them on a runtime with several
//! threads, so that concurrent operations run in parallel.
//!
//! ```
//! use std::sync::Arc;
//! use wharf_model::RecordStore;
//! use wharf_store::{MemoryRecords, contract};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! contract::records(|| async {
//!     let mine: Arc<dyn RecordStore> = Arc::new(MemoryRecords::default());
//!     mine
//! })
//! .await;
//! # }
//! ```
// These are tests: a violation of the contract ends in a panic that names it.
#![allow(clippy::expect_used)]

mod attachments;
mod bus;
mod claims;
mod compare_and_swap;
mod durability;
mod events;
mod expiry;
mod order;

use std::{fmt, future::Future, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};
use wharf_model::{Bus, Error, EventStore, NonceStore, RateStore, Record, RecordStore};

pub use crate::contract::durability::{find_traces, leave_traces};

/// One or more handles on one store.
pub struct StoreHandles<T: ?Sized>(Vec<Arc<T>>);

impl<T: ?Sized> From<Arc<T>> for StoreHandles<T> {
    fn from(handle: Arc<T>) -> Self {
        StoreHandles(vec![handle])
    }
}

impl<T: ?Sized> From<Vec<Arc<T>>> for StoreHandles<T> {
    /// # Panics
    /// If there is none.
    fn from(handles: Vec<Arc<T>>) -> Self {
        assert!(!handles.is_empty(), "a store has at least one handle");
        StoreHandles(handles)
    }
}

impl<T: ?Sized> fmt::Debug for StoreHandles<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreHandles").field(&self.0.len()).finish()
    }
}

impl<T: ?Sized> StoreHandles<T> {
    fn first(&self) -> &Arc<T> {
        &self.0[0]
    }

    /// Handles in turn, so that concurrent operations come from several processes.
    fn round_robin(&self) -> impl Iterator<Item = Arc<T>> {
        self.0.iter().cycle().cloned()
    }
}

type RecordHandles = StoreHandles<dyn RecordStore>;

/// Defines one function for each storage trait; each check gets an empty store of its own.
macro_rules! contract_checks {
    ($($(#[$doc:meta])* $name:ident: $port:ident { $($check:path,)+ })+) => {$(
        $(#[$doc])*
        ///
        /// # Panics
        /// If the store violates it.
        pub async fn $name<F, R, H>(make: F)
        where
            F: Fn() -> R,
            R: Future<Output = H>,
            H: Into<StoreHandles<dyn $port>>,
        {
            $($check(make().await.into()).await;)+
        }
    )+};
}

contract_checks! {
    /// Contract of a [`RecordStore`].
    records: RecordStore {
        compare_and_swap::a_record_comes_back_as_it_was,
        compare_and_swap::the_store_assigns_versions,
        compare_and_swap::one_swap_of_a_version_wins,
        compare_and_swap::no_concurrent_change_is_lost,
        compare_and_swap::the_clock_does_not_go_back,
        order::an_id_is_inserted_once,
        order::an_owner_has_at_most_the_limit,
        order::lists_are_in_order_and_paged,
        order::due_records_are_in_order,
        order::a_record_becomes_due,
        attachments::the_first_value_is_kept,
        attachments::one_of_concurrent_values_is_kept,
        attachments::an_old_fence_is_rejected,
        attachments::a_fence_is_rejected_from_the_takeover_on,
        attachments::removal_deletes_kept_values,
        expiry::expired_records_are_gone,
        expiry::a_swap_changes_the_expiry,
        expiry::expired_records_do_not_count,
        expiry::an_expired_id_can_be_reused,
        expiry::sweeps_are_bounded,
    }

    /// Contract of an [`EventStore`].
    events: EventStore {
        events::events_come_back_in_order,
        events::numbers_have_no_gaps,
        events::old_events_are_trimmed,
        events::streams_expire_and_are_removed,
    }

    /// Contract of a [`Bus`].
    bus: Bus {
        bus::messages_are_delivered_once_and_in_order,
        bus::topics_are_separate,
        bus::a_dropped_subscription_receives_nothing,
    }

    /// Contract of a [`NonceStore`].
    nonces: NonceStore {
        claims::a_nonce_is_claimed_once,
        claims::a_claim_expires,
    }

    /// Contract of a [`RateStore`].
    rates: RateStore {
        claims::a_bucket_holds_its_burst,
        claims::tokens_are_refilled,
        claims::a_rate_of_zero_is_a_quota,
    }
}

/// Lifetime of everything that expires in these tests.
const SHORT_TTL: Duration = Duration::from_millis(40);

/// A record with default values.
fn record(id: &str, owner: &str) -> Record {
    Record::new(id.to_owned()).owner(owner.to_owned())
}

/// Unwraps the result of a store operation.
fn value_of<T>(answer: Result<T, Error>) -> T {
    answer.expect("the operation succeeds")
}

/// Polls `done` until it returns true.
async fn until<R: Future<Output = bool>>(what: &str, done: impl Fn() -> R) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done().await {
        assert!(Instant::now() < deadline, "timed out waiting until {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Runs all futures concurrently and returns their outputs in order.
async fn run_concurrently<T, R>(all: impl IntoIterator<Item = R>) -> Vec<T>
where
    T: Send + 'static,
    R: Future<Output = T> + Send + 'static,
{
    let running: Vec<_> = all.into_iter().map(tokio::spawn).collect();
    let mut done = Vec::with_capacity(running.len());
    for each in running {
        done.push(each.await.expect("no concurrent task panics"));
    }
    done
}

fn count<T: PartialEq>(all: &[T], first: &T) -> usize {
    all.iter().filter(|each| *each == first).count()
}
