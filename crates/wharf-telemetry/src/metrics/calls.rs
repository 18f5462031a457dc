//! Series of calls, found without formatting or locks.

use std::{
    borrow::Cow,
    hash::{Hash, Hasher},
    sync::{
        Arc, Once, OnceLock,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
};

use arc_swap::ArcSwap;
use foldhash::fast::RandomState;
use hashbrown::{Equivalent, HashMap};
use wharf_model::{CallEnd, CallErrorType, CallRole, CallStart, Lock, Method, ObservedTransport};

use crate::metrics::{call_labels, histogram::Histogram, label_text::LabelText, text::MetricSink};

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
    /// Name of the tool, prompt or custom method, or the URI of the resource.
    pub(crate) target: &'a str,
    pub(crate) transport: Option<ObservedTransport>,
    /// Version of the protocol below the transport.
    pub(crate) network_version: &'static str,
    pub(crate) version: &'a str,
    /// Address of the server, for calls of a client.
    pub(crate) server: &'a str,
    pub(crate) port: Option<u16>,
    /// True if the method has another name in this protocol version.
    pub(crate) renamed: Option<&'static str>,
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
    network_version: &'static str,
    version: Box<str>,
    server: Box<str>,
    port: Option<u16>,
    renamed: Option<&'static str>,
}

impl OwnedKey {
    fn of(key: &GroupKey<'_>) -> Self {
        let GroupKey { method, transport, network_version, port, renamed, .. } = *key;
        let (target, version, server) = (key.target.into(), key.version.into(), key.server.into());
        OwnedKey { method, target, transport, network_version, version, server, port, renamed }
    }

    fn borrowed(&self) -> GroupKey<'_> {
        let OwnedKey { method, transport, network_version, port, renamed, .. } = *self;
        let (target, version, server) = (&*self.target, &*self.version, &*self.server);
        GroupKey { method, target, transport, network_version, version, server, port, renamed }
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
    /// True if the URIs of resources are labels.
    resource_uris: bool,
    in_flight: AtomicI64,
    numbers: ArcSwap<GroupNumbers>,
    groups: Box<[OnceLock<CallGroup>]>,
    /// Number of the next group, locked while series are added.
    adding: Lock<usize>,
    series: AtomicUsize,
    overflow_logged: Once,
}

/// Calls with the same labels, apart from those of the outcome.
#[derive(Debug)]
struct CallGroup {
    labels: LabelText,
    succeeded: Histogram,
    failed: ArcSwap<Vec<(Failure, Arc<Histogram>)>>,
}

impl CallGroup {
    fn new(labels: LabelText, boundaries: &'static [f64]) -> Self {
        CallGroup { labels, succeeded: Histogram::new(boundaries), failed: ArcSwap::default() }
    }

    fn failure(&self, failure: Failure) -> Option<Arc<Histogram>> {
        self.failed.load().iter().find(|it| it.0 == failure).map(|it| it.1.clone())
    }
}

/// Labels of the outcome of a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Failure {
    error: Option<CallErrorType>,
    code: Option<i32>,
}

/// Codes that are label values: those of JSON-RPC, of MCP and of Wharf's refusals. Others, which a peer or an application
/// may invent, are [`OTHER_CODE`].
const CODES: [i32; 25] = [
    -32700, -32600, -32601, -32602, -32603, -32000, -32001, -32002, -32020, -32021, -32022, -32042,
    -32800, -32801, -32031, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009, 1010,
];
/// No error has this code.
const OTHER_CODE: i32 = 0;
const OTHER_ERROR: CallErrorType = CallErrorType::Code(OTHER_CODE);

/// Failures that the overflow group counts apart. They are reserved, so that a caller who uses up the series cannot hide
/// failures from alerts.
const OVERFLOW_FAILURES: [CallErrorType; 6] = [
    OTHER_ERROR,
    CallErrorType::ToolError,
    CallErrorType::Timeout,
    CallErrorType::Cancelled,
    CallErrorType::ConnectionClosed,
    CallErrorType::Panicked,
];

impl Failure {
    /// Labels of this end; `None` if the call succeeded.
    fn of(end: &CallEnd<'_>) -> Option<Self> {
        let error = end.error_type().map(|error| match error {
            CallErrorType::Code(code) => CallErrorType::Code(known(code)),
            other => other,
        });
        let code = end.error_code().map(known);
        (error.is_some() || code.is_some()).then_some(Failure { error, code })
    }

    fn labels(self, group: &LabelText) -> LabelText {
        let mut labels = group.clone();
        labels.add("error_type", &self.error.map(error_label).unwrap_or_default());
        let code = self.code.map(|code| error_label(CallErrorType::Code(code)));
        labels.add("rpc_response_status_code", &code.unwrap_or_default());
        labels
    }

    /// Labels of a failure beyond the limit of series: its class, without codes and kinds.
    fn without_code(self) -> Failure {
        let error = self.error.map(|error| match error {
            CallErrorType::Code(_) | CallErrorType::Kind(_) => OTHER_ERROR,
            class => class,
        });
        Failure { error, code: None }
    }
}

/// Returns the code as it is counted.
fn known(code: i32) -> i32 {
    if CODES.contains(&code) { code } else { OTHER_CODE }
}

/// Returns the value of the label `error_type`, which is from a closed table.
pub(crate) fn error_label(error: CallErrorType) -> Cow<'static, str> {
    match error {
        CallErrorType::Code(code) if known(code) == OTHER_CODE => Cow::Borrowed(OTHER),
        other => other.name(),
    }
}

impl CallTable {
    pub(crate) fn new(boundaries: &'static [f64], resource_uris: bool) -> Self {
        let groups: Box<[OnceLock<CallGroup>]> = (0..MAX_SERIES).map(|_| OnceLock::new()).collect();
        let overflow = CallGroup::new(LabelText::one("otel_metric_overflow", "true"), boundaries);
        let reserved = OVERFLOW_FAILURES.map(|error| {
            (Failure { error: Some(error), code: None }, Arc::new(Histogram::new(boundaries)))
        });
        overflow.failed.store(Arc::new(reserved.into()));
        let _ = groups[OVERFLOW].set(overflow);
        CallTable {
            boundaries,
            resource_uris,
            in_flight: AtomicI64::new(0),
            numbers: ArcSwap::default(),
            groups,
            adding: Lock::new(OVERFLOW + 1),
            series: AtomicUsize::new(1 + OVERFLOW_FAILURES.len()),
            overflow_logged: Once::new(),
        }
    }

    pub(crate) fn in_flight(&self) -> i64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Counts the start of a call; returns the number of its group.
    pub(crate) fn start(&self, call: &CallStart<'_>) -> usize {
        let request = call.request();
        // A subscription stays open as long as the client likes.
        if request.method != Method::Listen {
            self.in_flight.fetch_add(1, Ordering::Relaxed);
        }
        let has_name = match request.method {
            Method::CallTool | Method::GetPrompt | Method::Custom => true,
            Method::ReadResource => self.resource_uris,
            _ => false,
        };
        let target = if has_name { request.target() } else { Default::default() };
        let is_client = call.role() == CallRole::Client;
        let key = GroupKey {
            method: request.method,
            target: &target,
            transport: call.transport(),
            network_version: call.network_protocol_version().unwrap_or_default(),
            version: call.protocol_version().unwrap_or_default(),
            server: call.server_address().unwrap_or_default(),
            port: call.server_port(),
            renamed: request
                .protocol
                .filter(|_| request.method == Method::Discover && !is_client)
                .map(|it| it.discover),
        };
        if let Some(number) = self.numbers.load().get(&key) {
            return *number;
        }
        match !has_name || call.is_known_target() {
            true => self.add(key),
            false => self.add(GroupKey { target: OTHER, ..key }),
        }
    }

    #[cold]
    fn add(&self, key: GroupKey<'_>) -> usize {
        let mut next = self.adding.lock();
        let numbers = self.numbers.load();
        if let Some(number) = numbers.get(&key) {
            return *number;
        }
        let number = *next;
        if number >= self.groups.len() || !self.take_series() {
            self.log_overflow();
            return OVERFLOW;
        }
        *next += 1;
        let _ = self.groups[number].set(CallGroup::new(call_labels(&key), self.boundaries));
        let mut numbers = GroupNumbers::clone(&numbers);
        numbers.insert(OwnedKey::of(&key), number);
        self.numbers.store(Arc::new(numbers));
        number
    }

    /// Counts one more series, if there is room for it.
    fn take_series(&self) -> bool {
        let one_more = |series| (series < MAX_SERIES).then_some(series + 1);
        self.series.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    fn log_overflow(&self) {
        self.overflow_logged.call_once(|| {
            tracing::warn!(
                limit = MAX_SERIES,
                "counting further series of call metrics together: there are too many"
            );
        });
    }

    /// Counts the end of a call of this group.
    pub(crate) fn end(&self, group: usize, end: &CallEnd<'_>) {
        if end.method() != Method::Listen {
            self.in_flight.fetch_sub(1, Ordering::Relaxed);
        }
        let Some(group) = self.groups.get(group).and_then(OnceLock::get) else { return };
        match Failure::of(end) {
            None => group.succeeded.record(end.elapsed()),
            Some(failure) => self.failed(group, failure, end),
        }
    }

    #[cold]
    fn failed(&self, group: &CallGroup, failure: Failure, end: &CallEnd<'_>) {
        if let Some(own) = group.failure(failure).or_else(|| self.add_failure(group, failure)) {
            return own.record(end.elapsed());
        }
        let Some(overflow) = self.groups[OVERFLOW].get() else { return };
        match overflow.failure(failure.without_code()) {
            Some(reserved) => reserved.record(end.elapsed()),
            // A fault of the caller is no error of the server.
            None => overflow.succeeded.record(end.elapsed()),
        }
    }

    #[cold]
    fn add_failure(&self, group: &CallGroup, failure: Failure) -> Option<Arc<Histogram>> {
        let _adding = self.adding.lock();
        if let Some(histogram) = group.failure(failure) {
            return Some(histogram);
        }
        if !self.take_series() {
            self.log_overflow();
            return None;
        }
        let histogram = Arc::new(Histogram::new(self.boundaries));
        let mut more = Vec::clone(&group.failed.load());
        more.push((failure, histogram.clone()));
        group.failed.store(Arc::new(more));
        Some(histogram)
    }

    pub(crate) fn render(&self, name: &str, text: &mut dyn MetricSink) {
        text.family(name);
        for group in self.groups.iter().filter_map(OnceLock::get) {
            text.histogram(name, &group.labels, &group.succeeded.values());
            for (failure, histogram) in group.failed.load().iter() {
                text.histogram(name, &failure.labels(&group.labels), &histogram.values());
            }
        }
    }
}
