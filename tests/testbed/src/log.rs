//! Log lines for assertions of a test.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::Field;
use tracing::subscriber::{self, DefaultGuard};
use tracing::{Event, Level, Metadata, Subscriber, span};

/// Collects the log lines of the project's crates.
#[derive(Clone, Debug)]
pub struct LogCatcher {
    level: Level,
    lines: Arc<Mutex<Vec<String>>>,
}

impl LogCatcher {
    /// Collects lines of this level and of more serious ones from this thread, until the guard is dropped.
    #[must_use]
    pub fn on_this_thread(level: Level) -> (Self, DefaultGuard) {
        let log = LogCatcher::new(level);
        (log.clone(), subscriber::set_default(log))
    }

    /// Collects lines of this level and of more serious ones from all threads of the process, which runs one test.
    ///
    /// # Panics
    ///
    /// Panics if the process has a subscriber already.
    #[must_use]
    pub fn on_all_threads(level: Level) -> Self {
        let log = LogCatcher::new(level);
        assert!(
            subscriber::set_global_default(log.clone()).is_ok(),
            "one test a process: use nextest"
        );
        log
    }

    fn new(level: Level) -> Self {
        LogCatcher { level, lines: Arc::default() }
    }

    /// Lines so far: ` field=value` for each field, including ` message=…`.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Subscriber for LogCatcher {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // `enabled!` checks metadata that is neither an event nor a span.
        !metadata.is_span()
            && metadata.target().starts_with("wharf")
            && *metadata.level() <= self.level
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = String::new();
        event.record(&mut |field: &Field, value: &dyn Debug| {
            line += &format!(" {field}={value:?}");
        });
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}
