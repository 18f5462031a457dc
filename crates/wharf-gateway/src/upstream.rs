//! State of one upstream server: its connection, its lists, its failures.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::{Notify, watch};
use wharf_model::{Deadlines, LiveSubscriptionFilter, Lock, Observers, SubscriptionFilter};

use crate::{
    builder::UpstreamServer,
    snapshot::{Snapshot, UpstreamLink},
    uris::uri_prefix,
};

/// Failures within this time open the circuit.
const FAILURE_WINDOW: Duration = Duration::from_secs(30);
const MAX_FAILURES: usize = 5;
/// Time before the first and the last attempt to connect again.
const MIN_DELAY: Duration = Duration::from_millis(500);
const MAX_DELAY: Duration = Duration::from_secs(60);
/// Time that a call waits for the first connection.
const CONNECT_WAIT: Duration = Duration::from_secs(30);

/// One upstream server of the gateway. Its driver (`driver.rs`) connects and reads the lists; calls only read the state.
pub(crate) struct ManagedServer {
    pub(crate) index: usize,
    pub(crate) name: String,
    /// Prefix of names.
    pub(crate) prefix: String,
    /// Prefix of URIs.
    pub(crate) uri_prefix: Arc<str>,
    pub(crate) options: UpstreamServer,
    pub(crate) state: watch::Sender<UpstreamState>,
    failures: Lock<VecDeque<Instant>>,
    /// Resources that clients subscribed to, with the number of clients.
    watched: Lock<BTreeMap<String, usize>>,
    /// Filter of the one subscription at the server.
    pub(crate) filter: LiveSubscriptionFilter,
    /// Asks the driver to read the lists again.
    pub(crate) recheck: Notify,
    pub(crate) observers: Lock<Observers>,
    is_logged: AtomicBool,
}

#[derive(Clone, Default)]
pub(crate) struct UpstreamState {
    pub(crate) link: Option<UpstreamLink>,
    /// True once the first attempt to connect has ended, and the merged lists have its result.
    pub(crate) settled: bool,
    /// The lists, as last read.
    pub(crate) snapshot: Option<Arc<Snapshot>>,
    pub(crate) outage: Option<Outage>,
}

/// Time in which the server is unavailable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outage {
    pub(crate) since: Instant,
    /// Next attempt to reach the server.
    pub(crate) retry_at: Instant,
    /// The circuit is open: calls are refused at once.
    pub(crate) is_open: bool,
    attempts: u32,
}

pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

impl ManagedServer {
    pub(crate) fn new(index: usize, name: String, options: UpstreamServer) -> Self {
        let prefix = options.prefix_for(&name);
        let lists = SubscriptionFilter::default().tools(true).prompts(true).resources(true);
        ManagedServer {
            index,
            uri_prefix: uri_prefix(&prefix).into(),
            name,
            prefix,
            options,
            state: watch::Sender::new(UpstreamState::default()),
            failures: Lock::default(),
            watched: Lock::default(),
            filter: LiveSubscriptionFilter::new(lists),
            recheck: Notify::new(),
            observers: Lock::default(),
            is_logged: AtomicBool::new(false),
        }
    }

    /// Returns the lists, if they are offered: during an outage for the grace period only.
    pub(crate) fn visible(&self) -> Option<Arc<Snapshot>> {
        let state = self.state.borrow();
        let grace = self.options.grace;
        let is_gone = state.outage.is_some_and(|it| now() >= it.since + grace);
        state.snapshot.clone().filter(|_| !is_gone)
    }

    /// Returns the deadlines of a request to the server, within those of the call that it serves.
    pub(crate) fn deadlines(&self, within: Deadlines) -> Deadlines {
        let shorter = |own: Duration, other: Option<Duration>| other.map_or(own, |it| own.min(it));
        Deadlines::default()
            .idle(shorter(self.options.idle, within.idle))
            .total(shorter(self.options.total, within.total))
    }

    /// Waits for the end of the first attempt to connect, at most for `limit`.
    pub(crate) async fn settled(&self, limit: Duration) {
        let mut state = self.state.subscribe();
        let _ = tokio::time::timeout(limit, state.wait_for(|state| state.settled)).await;
    }

    /// Returns the connection for a call.
    ///
    /// # Errors
    /// If the server is unavailable: the time until the next attempt to reach it.
    pub(crate) async fn link(&self) -> Result<UpstreamLink, Duration> {
        self.settled(CONNECT_WAIT).await;
        let state = self.state.borrow();
        match (&state.link, state.outage) {
            (_, Some(outage)) if outage.is_open => Err(outage.retry_after()),
            (Some(link), _) => Ok(link.clone()),
            (None, Some(outage)) => Err(outage.retry_after()),
            (None, None) => Err(MIN_DELAY),
        }
    }

    /// Records that the server was reached and its lists were read.
    pub(crate) fn recovered(&self, link: &UpstreamLink, snapshot: Snapshot) {
        self.state.send_modify(|state| {
            if state.outage.is_some_and(|it| it.is_open) {
                self.failures.lock().clear();
            }
            state.link = Some(link.clone());
            state.snapshot = Some(Arc::new(snapshot));
            state.outage = None;
        });
        if self.is_logged.swap(false, Ordering::Relaxed) {
            tracing::info!(upstream = self.name, "recovered the upstream server of the gateway");
        }
    }

    /// Records that the driver could not reach the server. Its connection is opened anew at the next attempt.
    pub(crate) fn unreachable(&self) {
        let failures = self.count_failure();
        self.state.send_modify(|state| {
            state.link = None;
            let present = state.outage;
            let outage = Outage::after(present, failures);
            state.outage = Some(outage);
        });
        if !self.is_logged.swap(true, Ordering::Relaxed) {
            let upstream = &*self.name;
            tracing::warn!(
                upstream,
                "cannot reach the upstream server of the gateway; it is tried again"
            );
        }
    }

    /// Records that the first attempt to connect has ended, and that the merged lists have its result.
    pub(crate) fn settle(&self) {
        self.state.send_if_modified(|state| !std::mem::replace(&mut state.settled, true));
    }

    /// Records that a call failed because the server was not reached, and returns when it is tried again. The circuit
    /// opens if that was one failure too many.
    pub(crate) fn call_failed(&self) -> Duration {
        let failures = self.count_failure();
        let mut retry_after = MIN_DELAY;
        self.state.send_modify(|state| {
            let present = state.outage;
            if failures >= MAX_FAILURES && !present.is_some_and(|it| it.is_open) {
                state.outage = Some(Outage::after(present, failures));
            }
            retry_after = state.outage.map_or(MIN_DELAY, Outage::retry_after);
        });
        self.recheck.notify_one();
        retry_after
    }

    /// Returns the number of failures within the last 30 s, with this one.
    fn count_failure(&self) -> usize {
        let now = now();
        let mut failures = self.failures.lock();
        while failures.front().is_some_and(|at| now.duration_since(*at) > FAILURE_WINDOW) {
            failures.pop_front();
        }
        if failures.len() >= MAX_FAILURES {
            failures.pop_front();
        }
        failures.push_back(now);
        failures.len()
    }

    /// Subscribes to a resource at the server, for one more client.
    pub(crate) fn watch(&self, uri: &str) {
        let mut watched = self.watched.lock();
        let clients = watched.entry(uri.to_owned()).or_default();
        *clients += 1;
        if *clients == 1 {
            self.filter.edit(|filter| filter.uris.insert(uri.to_owned()));
        }
    }

    /// Ends the subscription of one client to a resource.
    pub(crate) fn unwatch(&self, uri: &str) {
        let mut watched = self.watched.lock();
        let Some(clients) = watched.get_mut(uri) else { return };
        *clients -= 1;
        if *clients == 0 {
            watched.remove(uri);
            self.filter.edit(|filter| filter.uris.remove(uri));
        }
    }
}

impl Outage {
    /// Begins or prolongs an outage, after this number of failures within the window.
    fn after(present: Option<Outage>, failures: usize) -> Outage {
        let attempts = present.map_or(0, |it| it.attempts) + 1;
        let doublings = attempts.max(u32::try_from(failures).unwrap_or(u32::MAX)) - 1;
        let delay = MIN_DELAY.saturating_mul(1 << doublings.min(10)).min(MAX_DELAY);
        let now = now();
        Outage {
            since: present.map_or(now, |it| it.since),
            retry_at: now + with_jitter(delay),
            is_open: failures >= MAX_FAILURES || present.is_some_and(|it| it.is_open),
            attempts,
        }
    }

    pub(crate) fn retry_after(self) -> Duration {
        self.retry_at.saturating_duration_since(now())
    }
}

/// Shortens the delay by up to a quarter, so that gateways do not call in step.
fn with_jitter(delay: Duration) -> Duration {
    let mut random = [0_u8];
    let random = getrandom::fill(&mut random).map_or(0, |()| random[0]);
    delay - delay * u32::from(random) / (4 * 256)
}
