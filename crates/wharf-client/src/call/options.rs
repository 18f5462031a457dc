//! [`CallOptions`]: defaults for all calls.

use std::time::Duration;

use wharf_model::LogLevel;

/// Defaults for all calls; a single call can override some of them.
///
/// ```
/// # mod wharf { pub use wharf_client::*; pub mod client { pub use super::*; } }
/// use std::time::Duration;
/// use wharf::client::CallOptions;
///
/// let patient = CallOptions::default().idle(Duration::from_secs(300)).rounds(20);
/// assert!(patient.validate_output);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CallOptions {
    /// Idle timeout: the longest time without progress or another event, 60 seconds. The clock is
    /// paused while a request of the server is open.
    pub idle: Duration,
    /// Total timeout of a call, including requests of the server and retries: 10 minutes.
    pub total: Duration,
    /// Lowest severity of log messages that calls request; none by default.
    pub log_level: Option<LogLevel>,
    /// Maximum number of times one call is sent again with input responses: 8.
    pub rounds: usize,
    /// Maximum number of cached results, each kept for the time to live that the server sent: 256.
    /// 0 disables the cache.
    pub cache: usize,
    /// Validates structured content against the tool's output schema, if the tool was listed.
    pub validate_output: bool,
    /// Follows a call to its end if the server makes it a task. Declares the capability to servers.
    pub tasks: bool,
    /// Maximum number of pages of one paginated list: 1,000.
    pub pages: usize,
    /// Maximum number of items of one paginated list: 100,000.
    pub items: usize,
    /// Maximum size of one paginated list, all pages together: 64 MiB. Each JSON value counts 32
    /// bytes more than its text. All pages together take no longer than `total`.
    pub listed: usize,
    /// Sends the baggage (W3C) of the call within which the client makes this one to the server, too, and that of calls
    /// that a proxy forwards. Off by default: it may have data that are not meant for that server.
    pub forward_baggage: bool,
}

impl Default for CallOptions {
    fn default() -> Self {
        CallOptions {
            idle: Duration::from_secs(60),
            total: Duration::from_secs(600),
            log_level: None,
            rounds: 8,
            cache: 256,
            validate_output: true,
            tasks: true,
            pages: 1_000,
            items: 100_000,
            listed: 64 << 20,
            forward_baggage: false,
        }
    }
}

macro_rules! setters {
    ($($(#[$doc:meta])* $field:ident: $arg:ty;)*) => {
        impl CallOptions {
            $($(#[$doc])*
            #[must_use]
            pub fn $field(mut self, value: $arg) -> Self {
                self.$field = value.into();
                self
            })*
        }
    };
}

setters! {
    /// Sets the idle timeout.
    idle: Duration;
    /// Sets the total timeout.
    total: Duration;
    /// Sets the lowest severity of log messages that calls request.
    log_level: LogLevel;
    /// Sets the maximum number of times one call is sent again with input responses.
    rounds: usize;
    /// Sets the maximum number of cached results.
    cache: usize;
    /// Enables validation of structured content against the tool's output schema.
    validate_output: bool;
    /// Enables following calls that become tasks to their end.
    tasks: bool;
    /// Sets the maximum number of pages of one list.
    pages: usize;
    /// Sets the maximum number of items of one list.
    items: usize;
    /// Sets the maximum size of one list, in bytes.
    listed: usize;
    /// Sends the baggage of the surrounding call to the server, too.
    forward_baggage: bool;
}
