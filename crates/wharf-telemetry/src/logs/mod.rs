//! Log lines of a process on stderr: a `tracing` subscriber.
//!
//! The lines are written here and not by the `json` feature of `tracing-subscriber`: its objects have other names
//! (`timestamp`, `message`, a nested `span`), and it needs one more crate. Filters are those of `Targets`, which need
//! none; those of `EnvFilter` need four, for regular expressions on the values of fields.

mod fields;
mod filter;
mod line;
mod stderr;

use std::{
    env, fmt,
    io::{self, IsTerminal as _},
    sync::{Arc, OnceLock},
};

use tracing::{Event, Metadata, Subscriber, dispatcher, span, subscriber};
use tracing_subscriber::{
    Layer, Registry,
    layer::{Context, SubscriberExt as _},
    registry::LookupSpan,
};
use wharf_model::{CurrentTrace, setters};

use crate::logs::{fields::LogFields, filter::read_filter, line::write_line};

/// Environment variable with the format, for a process without the option `--log-format`.
const FORMAT_VARIABLE: &str = "WHARF_LOG_FORMAT";

/// Format of the log that this module installed.
static STARTED: OnceLock<LogFormat> = OnceLock::new();

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogFormat {
    /// Time, level, target, message, and the fields as `name=value`.
    Text,
    /// One JSON object per line: `ts`, `level`, `target`, `msg`, the fields, `trace_id` and `span_id`.
    Json,
}

impl LogFormat {
    /// Parses `text` or `json`.
    ///
    /// ```
    /// # mod wharf { pub mod observe { pub use wharf_telemetry::*; } }
    /// use wharf::observe::LogFormat;
    ///
    /// assert_eq!(LogFormat::parse("json")?, LogFormat::Json);
    /// assert!(LogFormat::parse("xml").is_err());
    /// # Ok::<(), wharf::observe::LogConfigError>(())
    /// ```
    ///
    /// # Errors
    /// For any other word.
    pub fn parse(word: &str) -> Result<Self, LogConfigError> {
        match word {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            _ => Err(LogConfigError::new(format!(
                "{word:?} is no format of log lines: write text or json"
            ))),
        }
    }
}

/// Invalid setting of the log, with its variable, its value and what to write.
#[derive(Clone, Debug)]
pub struct LogConfigError {
    text: String,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl LogConfigError {
    fn new(text: String) -> Self {
        LogConfigError { text, source: None }
    }

    fn because(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }
}

impl fmt::Display for LogConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for LogConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// Log of this process: lines on stderr, never on stdout. Every server that ends in `run` starts it.
///
/// `WHARF_LOG`, or else `RUST_LOG`, has the filter: a level (`error`, `warn`, `info`, `debug`, `trace`, `off`), or
/// `MODULE=LEVEL`, separated by commas.
///
/// ```
/// # mod wharf { pub mod observe { pub use wharf_telemetry::*; } }
/// use wharf::observe::{LogFormat, Logs};
///
/// Logs::default().format(Some(LogFormat::Json)).otherwise("info").start()?;
/// # Ok::<(), wharf::observe::LogConfigError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Logs {
    /// Format of the lines. The default is that of `WHARF_LOG_FORMAT`, or else text at a terminal and JSON elsewhere.
    pub format: Option<LogFormat>,
    /// Filter if no variable has one. The default is `warn`.
    pub otherwise: &'static str,
}

setters!(Logs { format: Option<LogFormat>, otherwise: &'static str });

impl Default for Logs {
    fn default() -> Self {
        Logs { format: None, otherwise: "warn" }
    }
}

impl Logs {
    /// Installs the log as the `tracing` subscriber of the process. One that the application installed itself stays, and
    /// then the variables have no effect.
    ///
    /// # Errors
    /// If a variable is invalid.
    pub fn start(&self) -> Result<(), LogConfigError> {
        if dispatcher::has_been_set() {
            return Ok(());
        }
        let filter = read_filter(|name| env::var(name).ok(), self.otherwise)?;
        let format = match self.chosen_format()? {
            Some(format) => format,
            None if io::stderr().is_terminal() => LogFormat::Text,
            None => LogFormat::Json,
        };
        let lines = Registry::default().with(filter).with(LogLines { format });
        // If another thread was faster, its subscriber stays.
        if subscriber::set_global_default(lines).is_ok() {
            let _ = STARTED.set(format);
        }
        Ok(())
    }

    /// Writes a line that every filter lets pass, such as the address of a server: as JSON if the lines of the log are JSON,
    /// else as it is. A closed stderr is not an error.
    pub fn print_status(&self, text: &str) {
        let chosen = || self.chosen_format().ok().flatten();
        let format = STARTED.get().copied().or_else(chosen).unwrap_or(LogFormat::Text);
        let line = match format {
            LogFormat::Json => {
                let (level, fields) = (tracing::Level::INFO, LogFields::message(text));
                write_line(LogFormat::Json, level, "wharf", &fields)
            }
            LogFormat::Text => format!("{text}\n"),
        };
        stderr::write(format, &line);
    }

    fn chosen_format(&self) -> Result<Option<LogFormat>, LogConfigError> {
        let variable = || env::var(FORMAT_VARIABLE).ok().filter(|it| !it.is_empty());
        match (self.format, variable()) {
            (Some(format), _) => Ok(Some(format)),
            (None, None) => Ok(None),
            (None, Some(word)) => LogFormat::parse(&word).map(Some).map_err(|error| {
                LogConfigError { text: format!("{FORMAT_VARIABLE}: {error}"), ..error }
            }),
        }
    }
}

/// Layer that writes a line per event. The fields of a span belong to the lines of the events within it.
struct LogLines {
    format: LogFormat,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LogLines {
    fn on_new_span(
        &self,
        attributes: &span::Attributes<'_>,
        id: &span::Id,
        context: Context<'_, S>,
    ) {
        let mut fields = LogFields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &span::Id, values: &span::Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<LogFields>() {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = LogFields::default();
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(outer) = span.extensions().get::<LogFields>() {
                fields.add_all(outer);
            }
        }
        event.record(&mut fields);
        fields.add_trace(CurrentTrace::get());
        let metadata: &Metadata<'_> = event.metadata();
        let line = write_line(self.format, *metadata.level(), metadata.target(), &fields);
        stderr::write(self.format, &line);
    }
}
