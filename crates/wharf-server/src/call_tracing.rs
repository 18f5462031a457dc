//! Observer that creates a `tracing` span per call.

use std::{borrow::Cow, error::Error as _, ops::RangeInclusive};

use tracing::{Level, Span, field};
use wharf_model::{
    CallEnd, CallOutcome, CallRole, CallScope, CallStart, CallState, Error, Method, ObservedEvent,
    Observer, Request,
};

use crate::{event_log, handler::tool_error::with_all_sources};

/// Creates one `tracing` span per call, with its method, target and outcome, and never with
/// arguments. Nothing is allocated while no `tracing` subscriber is installed. Every `Server` has this
/// observer.
///
/// The end of a call is logged at level `INFO`, and at level `WARN` if it timed out. If the handler
/// panicked, or failed with an [`Error`](wharf_model::Error) that has a source, it is logged at
/// level `ERROR`, with method, target and the text of the panic or the source, which the client
/// does not receive.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tracing;

impl Observer for Tracing {
    fn is_active(&self) -> bool {
        // Panics are logged at this level even where spans and other ends are not.
        tracing::enabled!(Level::ERROR)
    }

    fn logs_panics(&self) -> bool {
        true
    }

    fn call_started(&self, call: &CallStart<'_>) -> CallState {
        if !self.is_active() || call.role() == CallRole::Client {
            return CallState::Ignored;
        }
        let request = call.request();
        let (method, target) = (method_name(request), printable(&request.target()));
        let span = tracing::info_span!("call", method = &*method, target, outcome = field::Empty);
        CallState::Scope(Box::new(TracedCall { span, method, target }))
    }

    fn event(&self, event: &ObservedEvent<'_>) {
        event_log::log(event);
    }

    fn counts_bytes(&self) -> bool {
        false
    }
}

/// Span of a call, with its names for lines that are logged without spans.
struct TracedCall {
    span: Span,
    method: Cow<'static, str>,
    target: String,
}

impl CallScope for TracedCall {
    fn run(&mut self, poll: &mut dyn FnMut()) {
        self.span.in_scope(poll);
    }

    fn ended(&mut self, end: &CallEnd<'_>) {
        let (method, target) = (&*self.method, &*self.target);
        let (outcome, elapsed_us) = (end.name(), end.elapsed().as_micros() as u64);
        self.span.record("outcome", outcome);
        self.span.in_scope(|| match (end.outcome(), end.error().and_then(cause)) {
            (CallOutcome::Panicked(panic), _) => {
                let panic = printable(panic);
                tracing::error!(outcome, method, target, panic, elapsed_us, "call finished");
            }
            (CallOutcome::TimedOut, _) => {
                tracing::warn!(outcome, method, target, elapsed_us, "call finished");
            }
            (_, Some(error)) => {
                tracing::error!(outcome, method, target, error, elapsed_us, "call finished");
            }
            (_, None) => tracing::info!(outcome, elapsed_us, "call finished"),
        });
    }
}

/// Returns the text of the source of an error, for the log only: it may contain confidential data.
/// None if the error has no source.
pub(crate) fn cause(error: &Error) -> Option<String> {
    error.source().map(|source| printable(&with_all_sources(source)))
}

/// Returns the name of the method for the log; that of a custom method is from the caller.
pub(crate) fn method_name(request: &Request) -> Cow<'static, str> {
    match request.method {
        Method::Custom => Cow::Owned(printable(&request.method_name())),
        method => Cow::Borrowed(method.name()),
    }
}

/// Sanitizes a caller's string for the log: short, and without characters that could forge lines,
/// colours or text direction.
pub(crate) fn printable(text: &str) -> String {
    let is_unsafe = |c: char| c.is_control() || UNSAFE_CHARS.iter().any(|range| range.contains(&c));
    text.chars().take(256).map(|c| if is_unsafe(c) { '\u{fffd}' } else { c }).collect()
}

/// Characters besides control characters that break lines, change the text direction or are
/// invisible.
const UNSAFE_CHARS: &[RangeInclusive<char>] = &[
    '\u{61c}'..='\u{61c}',
    '\u{200b}'..='\u{200f}',
    '\u{2028}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{feff}'..='\u{feff}',
];

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn a_name_cannot_forge_a_line_of_the_log() {
        assert_eq!(printable("a\r\nb\u{1b}[31m\u{9b}c"), "a\u{fffd}\u{fffd}b\u{fffd}[31m\u{fffd}c");
        let reversed = "a\u{202e}b\u{2066}c\u{2028}d\u{200f}e\u{61c}f";
        assert_eq!(printable(reversed), "a\u{fffd}b\u{fffd}c\u{fffd}d\u{fffd}e\u{fffd}f");
        assert_eq!(printable("é – 漢字 🦀"), "é – 漢字 🦀");
        assert_eq!(printable(&"x".repeat(1000)).len(), 256);
    }
}
