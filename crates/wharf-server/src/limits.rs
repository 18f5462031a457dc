//! What one server takes on, at most.

use std::time::Duration;

use wharf_model::{Deadlines, Rate};

/// What one server takes on, at most. Past each limit there is an answer that says so.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; }
/// use wharf::Limits;
///
/// let small = Limits { concurrent: 8, queue: 16, ..Limits::default() };
/// assert_eq!(small.page, 1_000);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Calls that run at the same time. One caller (a principal, or an address where callers are not
    /// authenticated) gets three quarters of them at most, so that others are served at once.
    /// Callers on this machine, over standard input for example, may have all of them.
    pub concurrent: usize,
    /// Calls that wait for their turn; the next one is refused as overloaded. Callers take turns, and
    /// one caller gets three quarters of these places at most.
    pub queue: usize,
    /// Listens at the same time, beside the calls; three quarters of them for one caller at most.
    pub listens: usize,
    /// Resources that one listen can follow; the rest are left out of the acknowledgement.
    pub subscriptions: usize,
    /// Bytes of the URIs and task ids that one listen can follow; the rest are left out of the
    /// acknowledgement.
    pub subscription_bytes: usize,
    /// Bytes of what all listens follow, with 64 more for each URI or id, and of the tasks that their
    /// clients have yet to be told of. One caller gets as much as is still free; past that, the rest
    /// are left out of the acknowledgement, and the client is not told of a task: it has to look.
    /// What a legacy session subscribes to after its listen has begun is not counted here; it is bounded for each session.
    pub subscription_total: usize,
    /// Blocking handlers at work or in line, those included whose call was cancelled; three quarters
    /// of them for one caller at most.
    pub blocking: usize,
    /// How long a call may show no sign of life.
    pub idle: Duration,
    /// How long a call may take in all.
    pub total: Duration,
    /// Items on one page of a list.
    pub page: usize,
    /// Characters in a tool's description.
    pub description: usize,
    /// Bytes of sealed state that travel through the client.
    pub state: usize,
    /// How long sealed state stays good.
    pub state_ttl: Duration,
    /// Progress notifications that one call may send at once.
    pub progress_burst: u32,
    /// Progress notifications a second after that.
    pub progress_rate: u32,
    /// How often a caller may call; `None` for as often as it likes.
    pub rates: Option<Rates>,
    /// Values in one answer to a completion; never more than 100.
    pub completion_values: usize,
    /// Values in the arguments of one call, or in one answer, where they must be held in memory
    /// as a tree of JSON; an empty list or object counts as two. Arguments that are read
    /// straight into a type of the handler's own are not counted.
    pub argument_values: usize,
    /// Bytes in a URI.
    pub uri: usize,
    /// How deep a schema may nest.
    pub schema_depth: usize,
    /// Subschemas in one schema.
    pub subschemas: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
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

impl Limits {
    /// How long calls may take: what a transport starts each call with.
    #[must_use]
    pub fn deadlines(&self) -> Deadlines {
        Deadlines { idle: Some(self.idle), total: Some(self.total) }
    }
}

/// How often one caller may call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Calls of any kind.
    pub calls: Rate,
    /// Tool calls, counted among the calls as well.
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
