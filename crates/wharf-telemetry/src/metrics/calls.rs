//! Series of calls, found without formatting or locks.

use std::{
    hash::{Hash, Hasher},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
};

use arc_swap::ArcSwap;
use foldhash::fast::RandomState;
use hashbrown::{Equivalent, HashMap};
use wharf_model::{CallEnd, CallErrorType, CallRole, CallStart, Method, ObservedTransport};

use crate::metrics::{call_labels, histogram::Histogram, labels::LabelText, text::MetricSink};

/// Maximum number of series of a family.
pub(crate) const MAX_SERIES: usize = 500;
/// Number of the group that counts the calls beyond the limit.
const OVERFLOW: usize = 0;
/// Label value for names that the server does not have.
const OTHER: &str = "_other";

/// Labels of a call that are known at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupKey<'a> {
    pub(crate) method: Method,
    /// Name of the tool, prompt or custom method.
    pub(crate) target: &'a str,
    pub(crate) transport: Option<ObservedTransport>,
    pub(crate) version: &'a str,
    /// Address of the server, for calls of a client.
    pub(crate) server: &'a str,
    /// True if the method has another name in this protocol version.
    pub(crate) renamed: Option<&'static str>,
}

impl GroupKey<'_> {
    pub(crate) fn method_name(&self, name: &'static str) -> &'static str {
        self.renamed.unwrap_or(name)
    }
}

impl Hash for GroupKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Transport and version rarely differ: they are compared only.
        (self.method as u8).hash(state);
        self.target.hash(state);
    }
}

/// Owned key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OwnedKey {
    method: Method,
    target: Box<str>,
    transport: Option<ObservedTransport>,
    version: Box<str>,
    server: Box<str>,
    renamed: Option<&'static str>,
}

impl OwnedKey {
    fn borrowed(&self) -> GroupKey<'_> {
        let OwnedKey { method, target, transport, version, server, renamed } = self;
        let (method, transport, renamed) = (*method, *transport, *renamed);
        GroupKey { method, target, transport, version, server, renamed }
    }
}

impl Hash for OwnedKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.borrowed().hash(state);
    }
}

impl Equivalent<OwnedKey> for GroupKey<'_> {
    fn equivalent(&self, key: &OwnedKey) -> bool {
        *self == key.borrowed()
    }
}

type GroupNumbers = HashMap<OwnedKey, usize, RandomState>;

/// Calls of a server, or of a client.
#[derive(Debug)]
pub(crate) struct CallTable {
    boundaries: &'static [f64],
    in_flight: AtomicI64,
    numbers: ArcSwap<GroupNumbers>,
    groups: Box<[OnceLock<CallGroup>]>,
    /// Locked while a group is added.
    adding: Mutex<usize>,
    series: AtomicUsize,
}

/// Failed calls of one class and error code.
type FailedCalls = (CallErrorType, Option<i32>, Arc<Histogram>);

/// Calls with the same labels, apart from those of the outcome.
#[derive(Debug)]
struct CallGroup {
    labels: LabelText,
    succeeded: Histogram,
    failed: Mutex<Vec<FailedCalls>>,
}

impl CallGroup {
    fn new(labels: LabelText, boundaries: &'static [f64]) -> Self {
        CallGroup { labels, succeeded: Histogram::new(boundaries), failed: Mutex::default() }
    }
}

impl CallTable {
    pub(crate) fn new(boundaries: &'static [f64]) -> Self {
        let groups: Box<[OnceLock<CallGroup>]> = (0..MAX_SERIES).map(|_| OnceLock::new()).collect();
        let overflow = LabelText::one("otel_metric_overflow", "true");
        let _ = groups[OVERFLOW].set(CallGroup::new(overflow, boundaries));
        CallTable {
            boundaries,
            in_flight: AtomicI64::new(0),
            numbers: ArcSwap::default(),
            groups,
            adding: Mutex::new(OVERFLOW + 1),
            series: AtomicUsize::new(1),
        }
    }

    pub(crate) fn in_flight(&self) -> i64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Counts the start of a call; returns the number of its group.
    pub(crate) fn start(&self, call: &CallStart<'_>) -> usize {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let request = call.request();
        let has_name =
            matches!(request.method, Method::CallTool | Method::GetPrompt | Method::Custom);
        let target = if has_name { request.target() } else { Default::default() };
        let is_client = call.role() == CallRole::Client;
        let key = GroupKey {
            method: request.method,
            target: &target,
            transport: call.transport(),
            version: call.protocol_version().unwrap_or_default(),
            server: call.server_address().unwrap_or_default(),
            renamed: request
                .protocol
                .filter(|_| request.method == Method::Discover)
                .map(|it| it.discover),
        };
        if let Some(number) = self.numbers.load().get(&key) {
            return *number;
        }
        // The names of a client's calls are its own.
        match !has_name || is_client || call.is_known_target() {
            true => self.add(key),
            false => self.add(GroupKey { target: OTHER, ..key }),
        }
    }

    #[cold]
    fn add(&self, key: GroupKey<'_>) -> usize {
        let mut next = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        let numbers = self.numbers.load();
        if let Some(number) = numbers.get(&key) {
            return *number;
        }
        if *next >= self.groups.len() || !self.take_series() {
            return OVERFLOW;
        }
        let number = *next;
        *next += 1;
        let _ = self.groups[number].set(CallGroup::new(call_labels(&key), self.boundaries));
        let mut numbers = GroupNumbers::clone(&numbers);
        let GroupKey { method, target, transport, version, server, renamed } = key;
        let (target, version, server) = (target.into(), version.into(), server.into());
        numbers.insert(OwnedKey { method, target, transport, version, server, renamed }, number);
        self.numbers.store(Arc::new(numbers));
        number
    }

    /// Counts one more series. Logs once that there are too many.
    fn take_series(&self) -> bool {
        let before = self.series.fetch_add(1, Ordering::Relaxed);
        if before == MAX_SERIES {
            tracing::warn!(
                limit = MAX_SERIES,
                "too many series of call metrics: further ones are counted together"
            );
        }
        before < MAX_SERIES
    }

    /// Counts the end of a call of this group.
    pub(crate) fn end(&self, group: usize, end: &CallEnd<'_>) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        let Some(group) = self.groups.get(group).and_then(OnceLock::get) else { return };
        match end.error_type() {
            None => group.succeeded.record(end.elapsed()),
            Some(error) => self.failed(group, error, end),
        }
    }

    #[cold]
    fn failed(&self, group: &CallGroup, error: CallErrorType, end: &CallEnd<'_>) {
        let code = end.error_code();
        let mut failed = group.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let found = failed.iter().find(|it| (it.0, it.1) == (error, code)).map(|it| it.2.clone());
        let histogram = match found {
            Some(histogram) => Some(histogram),
            None if self.take_series() => {
                let histogram = Arc::new(Histogram::new(self.boundaries));
                failed.push((error, code, histogram.clone()));
                Some(histogram)
            }
            None => None,
        };
        drop(failed);
        match (histogram, self.groups[OVERFLOW].get()) {
            (Some(histogram), _) => histogram.record(end.elapsed()),
            (None, Some(overflow)) => overflow.succeeded.record(end.elapsed()),
            (None, None) => {}
        }
    }

    pub(crate) fn render(&self, name: &str, text: &mut dyn MetricSink) {
        text.family(name);
        for group in self.groups.iter().filter_map(OnceLock::get) {
            text.histogram(name, &group.labels, &group.succeeded.values());
            let failed = group.failed.lock().unwrap_or_else(PoisonError::into_inner);
            for (error, code, histogram) in &*failed {
                let mut labels = group.labels.clone();
                labels.add("error_type", &error.name());
                labels.add(
                    "rpc_response_status_code",
                    &code.map(|code| code.to_string()).unwrap_or_default(),
                );
                text.histogram(name, &labels, &histogram.values());
            }
        }
    }
}
