//! Limits of calls and of the parts of a server.

use std::time::Duration;

use wharf_model::{Deadlines, Rate, setters};

/// Limits of calls, subscriptions, lists and schemas. A request that exceeds one is rejected with an
/// error that names the limit.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod server { pub use super::*; } }
/// use wharf::server::CallLimits;
///
/// let small = CallLimits::default().concurrent(8).queue(16);
/// assert_eq!(small.page, 1_000);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CallLimits {
    /// Calls that run at the same time. One caller (a principal, or an address where callers are
    /// not authenticated) gets at most three quarters of them, so that others are served without
    /// waiting. Local callers, such as those over standard input, may use all of them.
    pub concurrent: usize,
    /// Calls that wait in the queue; the next one is rejected as overloaded. The queue is served
    /// round-robin by caller, and one caller gets at most three quarters of it.
    pub queue: usize,
    /// Subscriptions (`subscriptions/listen`) at the same time, counted apart from calls; at most
    /// three quarters of them for one caller.
    pub listens: usize,
    /// Resources that one subscription can follow; the rest are left out of the acknowledgement.
    pub subscriptions: usize,
    /// Bytes of the URIs and task ids that one subscription can follow; the rest are left out of
    /// the acknowledgement.
    pub subscription_bytes: usize,
    /// Bytes of all subscription filters, with 64 more for each URI or id, and of the task
    /// notifications that are not sent yet. One caller gets as much as is still free. Beyond that,
    /// filter entries are left out of the acknowledgement and task notifications are dropped, so
    /// the client has to poll. Resources that a legacy session subscribes to later are not counted
    /// here; they are bounded for each session.
    pub subscription_total: usize,
    /// Blocking handlers that run or wait for a thread, including those whose call was cancelled;
    /// at most three quarters of them for one caller.
    pub blocking: usize,
    /// Idle timeout of a call: the longest time without progress or any other message.
    pub idle: Duration,
    /// Timeout of a call in total.
    pub total: Duration,
    /// Items on one page of a list.
    pub page: usize,
    /// Characters in a tool's description.
    pub description: usize,
    /// Bytes of encrypted request state that travel through the client.
    pub state: usize,
    /// Lifetime of encrypted request state.
    pub state_ttl: Duration,
    /// Burst of progress notifications of one call.
    pub progress_burst: u32,
    /// Progress notifications per second after the burst.
    pub progress_rate: u32,
    /// Rate limits of one caller; `None` for no limit.
    pub rates: Option<Rates>,
    /// Values in one completion result; never more than 100.
    pub completion_values: usize,
    /// Values in the arguments of one call, or in one response, where they are held in memory as a
    /// JSON tree; an empty list or object counts as two. Arguments that are deserialized directly
    /// into a type of the handler are not counted.
    pub argument_values: usize,
    /// Bytes in a URI.
    pub uri: usize,
    /// Nesting depth of a schema.
    pub schema_depth: usize,
    /// Subschemas in one schema.
    pub subschemas: usize,
}

impl Default for CallLimits {
    fn default() -> Self {
        CallLimits {
            concurrent: 1024,
            queue: 4096,
            listens: 16_384,
            subscriptions: 1024,
            subscription_bytes: 128 * 1024,
            subscription_total: 64 * 1024 * 1024,
            blocking: 512,
            idle: Duration::from_secs(120),
            total: Duration::from_secs(3600),
            page: 1000,
            description: 10_000,
            state: 64 * 1024,
            state_ttl: Duration::from_secs(600),
            progress_burst: 256,
            progress_rate: 10,
            rates: None,
            completion_values: 100,
            argument_values: 250_000,
            uri: 8 * 1024,
            schema_depth: 64,
            subschemas: 4096,
        }
    }
}

setters!(CallLimits {
    concurrent: usize,
    queue: usize,
    listens: usize,
    subscriptions: usize,
    subscription_bytes: usize,
    subscription_total: usize,
    blocking: usize,
    idle: Duration,
    total: Duration,
    page: usize,
    description: usize,
    state: usize,
    state_ttl: Duration,
    progress_burst: u32,
    progress_rate: u32,
    rates: impl Into<Option<Rates>>,
    completion_values: usize,
    argument_values: usize,
    uri: usize,
    schema_depth: usize,
    subschemas: usize,
});

impl CallLimits {
    /// Deadlines that a transport starts each call with.
    #[must_use]
    pub fn deadlines(&self) -> Deadlines {
        Deadlines::NONE.idle(Some(self.idle)).total(Some(self.total))
    }
}

/// Rate limits of one caller.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Rates {
    /// Rate of calls of any kind.
    pub calls: Rate,
    /// Rate of calls of tools and of custom methods, which count as calls as well.
    pub tool_calls: Rate,
}

impl Default for Rates {
    fn default() -> Self {
        Rates {
            calls: Rate { per_second: 100.0, burst: 200.0 },
            tool_calls: Rate { per_second: 50.0, burst: 100.0 },
        }
    }
}

setters!(Rates { calls: Rate, tool_calls: Rate });
