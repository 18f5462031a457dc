//! How calls are made unless they say otherwise.

use std::time::Duration;

use wharf_model::LogLevel;

/// How calls are made unless they say otherwise.
///
/// ```
/// # mod wharf { pub use wharf_client::*; }
/// use std::time::Duration;
/// use wharf::CallOptions;
///
/// let patient = CallOptions::default().idle(Duration::from_secs(300)).rounds(20);
/// assert!(patient.validate_output);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CallOptions {
    /// How long a call may show no sign of life, such as progress: 60 seconds. The clock stands
    /// still while a question of the server's is open.
    pub idle: Duration,
    /// How long a call may take in all, with every question and every retry: 10 minutes.
    pub total: Duration,
    /// The least grave log messages that calls ask for; none by default.
    pub log_level: Option<LogLevel>,
    /// How often one call may be sent again with answers: 8 times.
    pub rounds: usize,
    /// How many results are kept for as long as the server allows: 256. None at all with 0.
    pub cache: usize,
    /// Whether structured content is held against the tool's schema, where the tool was listed.
    pub validate_output: bool,
    /// Whether a call that the server makes a task of is followed to its end. Servers are told.
    pub tasks: bool,
    /// How many pages one listing reads: 1,000.
    pub pages: usize,
    /// How many items one listing reads: 100,000.
    pub items: usize,
    /// How much one listing reads, all pages together: 64 MiB, to which each JSON value adds 32
    /// bytes beside its text. All pages together take no longer than `total`.
    pub listed: usize,
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
    /// Sets how long a call may show no sign of life.
    idle: Duration;
    /// Sets how long a call may take in all.
    total: Duration;
    /// Sets the least grave log messages that calls ask for.
    log_level: LogLevel;
    /// Sets how often one call may be sent again with answers.
    rounds: usize;
    /// Sets how many results are kept.
    cache: usize;
    /// Says whether structured content is held against the tool's schema.
    validate_output: bool;
    /// Says whether calls that become tasks are followed to their end.
    tasks: bool;
    /// Sets how many pages one listing reads.
    pages: usize;
    /// Sets how many items one listing reads.
    items: usize;
    /// Sets how much one listing reads, in bytes.
    listed: usize;
}
