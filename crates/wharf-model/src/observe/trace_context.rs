//! Trace context (W3C Trace Context and Baggage): that of a request, and that of the call which a thread polls.

use std::{
    cell::{Cell, RefCell},
    fmt,
    future::{Future, poll_fn},
    hash::{BuildHasher, RandomState},
    mem,
    pin::pin,
    sync::Arc,
};

use serde::Deserialize;
use serde_json::value::RawValue;

/// Trace context: the ids of a trace and of a span in it, as the members `traceparent`, `tracestate` and `baggage` of
/// `_meta` carry them.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod observe { pub use super::*; } }
/// use wharf::observe::TraceContext;
///
/// let meta = r#"{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}"#;
/// let context = TraceContext::from_meta(meta).unwrap();
/// assert_eq!(context.trace_id(), 0x0af7651916cd43dd8448eb211c80319c);
/// assert_eq!(context.span_id(), 0xb7ad6b7169203331);
/// assert!(context.is_sampled());
/// let child = context.child(true);
/// assert_eq!(child.trace_id(), context.trace_id());
/// assert_eq!(TraceContext::from_meta(r#"{"traceparent":"nonsense"}"#), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    trace_id: u128,
    span_id: u64,
    is_sampled: bool,
    companions: Option<Arc<Companions>>,
}

/// Values that go with the ids, unchanged. Most contexts have none.
#[derive(Debug, PartialEq, Eq)]
struct Companions {
    tracestate: Option<String>,
    baggage: Option<String>,
}

/// Maximum lengths of the values. A later version of `traceparent` may have more fields than the 55 characters of version 00.
const MAX_TRACEPARENT: usize = 256;
const MAX_TRACESTATE: usize = 512;
const MAX_BAGGAGE: usize = 8192;

/// Members of `_meta` as text: a client may put a large tree where a string belongs.
#[derive(Deserialize)]
struct ContextFields<'a> {
    #[serde(borrow)]
    traceparent: Option<&'a RawValue>,
    #[serde(borrow)]
    tracestate: Option<&'a RawValue>,
    #[serde(borrow)]
    baggage: Option<&'a RawValue>,
}

impl TraceContext {
    /// Begins a trace. The random number is the lower half of its id, so that a sampler may decide by it first.
    #[must_use]
    pub fn root(random: u64, is_sampled: bool) -> TraceContext {
        let trace_id = u128::from(random_id()) << 64 | u128::from(random);
        TraceContext { trace_id, span_id: random_id(), is_sampled, companions: None }
    }

    /// Creates a context from ids that are not zero.
    #[must_use]
    pub fn new(trace_id: u128, span_id: u64, is_sampled: bool) -> TraceContext {
        TraceContext { trace_id, span_id, is_sampled, companions: None }
    }

    /// Returns the context of a new span within this one.
    #[must_use]
    pub fn child(&self, is_sampled: bool) -> TraceContext {
        self.with_span(random_id(), is_sampled)
    }

    /// Returns the context of another span of the trace.
    #[must_use]
    pub fn with_span(&self, span_id: u64, is_sampled: bool) -> TraceContext {
        TraceContext { span_id, is_sampled, ..self.clone() }
    }

    /// Returns the context without baggage.
    #[must_use]
    pub fn without_baggage(self) -> TraceContext {
        let tracestate = self.tracestate().map(str::to_owned);
        let companions =
            tracestate.is_some().then(|| Arc::new(Companions { tracestate, baggage: None }));
        TraceContext { companions, ..self }
    }

    /// Parses the context in `_meta`; `None` if it has no valid `traceparent`.
    #[must_use]
    pub fn from_meta(json: &str) -> Option<TraceContext> {
        // Most metadata has no context: then nothing is parsed.
        if !json.contains("\"traceparent\"") {
            return None;
        }
        let fields: ContextFields<'_> = serde_json::from_str(json).ok()?;
        let context = parse_traceparent(&header_value(fields.traceparent?, MAX_TRACEPARENT)?)?;
        let value = |raw: Option<&RawValue>, limit| header_value(raw?, limit);
        let companions = Companions {
            tracestate: value(fields.tracestate, MAX_TRACESTATE),
            baggage: value(fields.baggage, MAX_BAGGAGE),
        };
        let has_any = companions.tracestate.is_some() || companions.baggage.is_some();
        Some(TraceContext { companions: has_any.then(|| Arc::new(companions)), ..context })
    }

    /// Returns the context of the call that this thread polls: its span, if it is traced here, or else that of its
    /// caller.
    #[must_use]
    pub fn current() -> Option<TraceContext> {
        CurrentTrace::get().context()
    }

    /// Returns the trace id.
    #[must_use]
    pub fn trace_id(&self) -> u128 {
        self.trace_id
    }

    /// Returns the id of the span.
    #[must_use]
    pub fn span_id(&self) -> u64 {
        self.span_id
    }

    /// Returns whether the trace is recorded.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.is_sampled
    }

    /// Returns `tracestate`, if it has at most 512 visible characters.
    #[must_use]
    pub fn tracestate(&self) -> Option<&str> {
        self.companions.as_ref()?.tracestate.as_deref()
    }

    /// Returns `baggage`, if it has at most 8,192 visible characters.
    #[must_use]
    pub fn baggage(&self) -> Option<&str> {
        self.companions.as_ref()?.baggage.as_deref()
    }

    /// Returns the members of `_meta` that carry the context.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&'static str, String)> {
        let rest = [("tracestate", self.tracestate()), ("baggage", self.baggage())];
        let rest = rest.into_iter().filter_map(|(name, it)| Some((name, it?.to_owned())));
        [("traceparent", self.to_string())].into_iter().chain(rest)
    }
}

/// Writes `traceparent`.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TraceContext { trace_id, span_id, is_sampled, .. } = self;
        write!(f, "00-{trace_id:032x}-{span_id:016x}-{:02x}", u8::from(*is_sampled))
    }
}

/// Returns a random number that is not zero, for ids. They are no secrets.
#[must_use]
pub fn random_id() -> u64 {
    // SplitMix64, with a random start in each thread: a few instructions, because every call may need one.
    let state = RANDOM.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    RANDOM.set(state);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)).max(1)
}

thread_local! {
    static RANDOM: Cell<u64> = Cell::new(RandomState::new().hash_one(0_u8));
}

thread_local! {
    static CURRENT: RefCell<CurrentTrace> = const { RefCell::new(CurrentTrace::None) };
}

/// What the call that this thread polls passes on to the calls that it makes.
#[derive(Clone, Debug, Default)]
// Exhaustive: every match decides about a new variant.
pub enum CurrentTrace {
    /// No observer traces the call.
    #[default]
    None,
    /// The call began a trace that is not recorded. Its ids are not needed until a call is made within it.
    Unsampled,
    /// The call has this context.
    Context(TraceContext),
}

impl CurrentTrace {
    /// Returns that of the call which this thread polls.
    #[must_use]
    pub fn get() -> CurrentTrace {
        CURRENT.with_borrow(CurrentTrace::clone)
    }

    /// Returns the context to pass on.
    #[must_use]
    pub fn context(self) -> Option<TraceContext> {
        match self {
            CurrentTrace::None => None,
            CurrentTrace::Unsampled => Some(TraceContext::root(random_id(), false)),
            CurrentTrace::Context(context) => Some(context),
        }
    }

    /// Runs a future within this trace: for programs whose calls belong to a trace of their own.
    ///
    /// ```
    /// # mod wharf { pub use wharf_model::*; pub mod observe { pub use super::*; } }
    /// use wharf::observe::{CurrentTrace, TraceContext};
    ///
    /// # async fn call() {}
    /// # async fn example() {
    /// let trace = CurrentTrace::Context(TraceContext::root(wharf::observe::random_id(), true));
    /// trace.scope(async { call().await }).await;
    /// # }
    /// ```
    pub async fn scope<F: Future>(self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|cx| self.within(|| future.as_mut().poll(cx))).await
    }

    /// Runs a poll of the call.
    pub fn within<T>(&self, poll: impl FnOnce() -> T) -> T {
        let _restore = RestoreTrace(CURRENT.replace(self.clone()));
        poll()
    }
}

/// Restores the trace of the surrounding call, also after a panic.
struct RestoreTrace(CurrentTrace);

impl Drop for RestoreTrace {
    fn drop(&mut self) {
        CURRENT.set(mem::take(&mut self.0));
    }
}

/// Returns the string, if it has at most `limit` visible characters.
fn header_value(raw: &RawValue, limit: usize) -> Option<String> {
    // An escaped character takes six.
    if raw.get().len() > 6 * limit + 2 {
        return None;
    }
    let text: String = serde_json::from_str(raw.get()).ok()?;
    let is_visible = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    (text.len() <= limit && is_visible).then_some(text)
}

/// Parses the header of version 00. Later versions may append fields after another `-`.
fn parse_traceparent(text: &str) -> Option<TraceContext> {
    let mut fields = text.splitn(5, '-');
    let mut next = |length: usize| {
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let field = fields.next().filter(|it| it.len() == length && it.bytes().all(is_hex))?;
        u128::from_str_radix(field, 16).ok()
    };
    let (version, trace_id, parent, flags) = (next(2)?, next(32)?, next(16)?, next(2)?);
    let is_known_form = version != 0xff && (version != 0 || text.len() == 55);
    let span_id = u64::try_from(parent).ok().filter(|it| *it != 0 && trace_id != 0)?;
    is_known_form.then_some(TraceContext::new(trace_id, span_id, flags & 1 == 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_valid_traceparent_is_a_context() {
        let (trace, parent) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
        let cases = [
            (format!("00-{trace}-{parent}-01"), true),
            (format!("00-{trace}-{parent}-01-more"), false),
            (format!("01-{trace}-{parent}-01-more"), true),
            (format!("ff-{trace}-{parent}-01"), false),
            (format!("00-{}-{parent}-01", "0".repeat(32)), false),
            (format!("00-{trace}-{}-01", "0".repeat(16)), false),
            (format!("00-{}-{parent}-01", trace.to_uppercase()), false),
            (format!("00-{trace}-{parent}"), false),
            (format!("00-+{}-{parent}-01", &trace[1..]), false),
        ];
        for (traceparent, is_valid) in cases {
            let meta = serde_json::json!({ "traceparent": traceparent }).to_string();
            let context = TraceContext::from_meta(&meta);
            assert_eq!(context.is_some(), is_valid, "{traceparent}");
            if let Some(context) = context.filter(|_| traceparent.len() == 55) {
                assert_eq!(context.to_string(), traceparent);
            }
        }
    }

    #[test]
    fn an_oversized_or_unprintable_companion_is_dropped() {
        let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
        let meta = serde_json::json!({
            "traceparent": traceparent, "tracestate": "a".repeat(513), "baggage": "a=1\r\nb=2",
        });
        let context = TraceContext::from_meta(&meta.to_string()).unwrap();
        assert_eq!((context.tracestate(), context.baggage()), (None, None));
        assert!(!context.is_sampled());
        let escaped = format!(
            r#"{{"traceparent":"{traceparent}","tracestate":"{}"}}"#,
            r"\u0061".repeat(512)
        );
        let context = TraceContext::from_meta(&escaped).unwrap();
        assert_eq!(context.tracestate(), Some(&*"a".repeat(512)));
    }

    #[test]
    fn values_that_are_not_strings_are_ignored() {
        let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
        for value in ["[{},{}]", "{}", "7", "true", "null"] {
            let meta = format!(r#"{{"traceparent":{value}}}"#);
            assert_eq!(TraceContext::from_meta(&meta), None, "{value}");
            let meta = format!(
                r#"{{"traceparent":"{traceparent}","tracestate":{value},"baggage":{value}}}"#
            );
            let context = TraceContext::from_meta(&meta).unwrap();
            assert_eq!((context.tracestate(), context.baggage()), (None, None), "{value}");
        }
    }

    #[test]
    fn the_current_trace_is_that_of_the_innermost_call() {
        let outer = CurrentTrace::Context(TraceContext::root(1, true));
        assert_eq!(TraceContext::current(), None);
        outer.within(|| {
            let context = TraceContext::current().unwrap();
            assert_eq!(context.trace_id() as u64, 1);
            CurrentTrace::Unsampled.within(|| {
                assert!(!TraceContext::current().unwrap().is_sampled());
            });
            assert_eq!(TraceContext::current(), Some(context));
        });
        assert_eq!(TraceContext::current(), None);
    }
}
