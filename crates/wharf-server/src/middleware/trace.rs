//! Middleware that creates a `tracing` span per call.

use std::{
    borrow::Cow,
    error::Error as _,
    future::poll_fn,
    ops::RangeInclusive,
    time::{Duration, Instant},
};

use tracing::{Level, Span, field};
use wharf_model::{BoxFuture, Method, Outcome, Reply, Request};

use crate::{
    handler::tool_error::with_all_sources,
    middleware::{
        Middleware, Next,
        panic_guard::{CaughtPanic, GuardedCall},
    },
};

/// Creates one `tracing` span per call, with its method, target and outcome, and never with
/// arguments. It costs almost nothing while no `tracing` subscriber is installed.
///
/// The end of a call is logged at level `INFO`. If the handler panicked, or failed with an
/// [`Error`](wharf_model::Error) that has a source, it is logged at level `ERROR`, with method,
/// target and the text of the panic or the source, which the client does not receive.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tracing;

impl Middleware for Tracing {
    fn call(&self, request: Request, next: Next) -> BoxFuture<Outcome> {
        // Panics are logged at this level even where spans and other ends are not.
        if !tracing::enabled!(Level::ERROR) {
            return next.run(request);
        }
        let (method, target) = (method_name(&request), printable(&request.target()));
        let span = tracing::info_span!("call", method = &*method, target, outcome = field::Empty);
        let mut call = span.in_scope(|| GuardedCall::start(request, next));
        let timer = Instant::now();
        Box::pin(poll_fn(move |cx| {
            let _inside = span.enter();
            call.poll(cx).map(|ended| match ended {
                Ok(outcome) => {
                    finished(&span, (&method, &target), &outcome, timer.elapsed());
                    outcome
                }
                Err(panic) => {
                    panicked(&span, (&method, &target), &panic, timer.elapsed());
                    panic.into_outcome()
                }
            })
        }))
    }
}

fn finished(span: &Span, (method, target): (&str, &str), outcome: &Outcome, elapsed: Duration) {
    let name = match outcome {
        Outcome::Complete(Reply::Tool(result)) if result.is_error => "tool_error",
        Outcome::Complete(_) => "complete",
        Outcome::InputRequired(_) => "input_required",
        Outcome::Failed(error) => error.kind.name(),
        _ => "other",
    };
    let elapsed_us = elapsed.as_micros() as u64;
    span.record("outcome", name);
    match cause(outcome) {
        None => tracing::info!(outcome = name, elapsed_us, "call finished"),
        Some(error) => {
            tracing::error!(outcome = name, method, target, error, elapsed_us, "call finished")
        }
    }
}

/// Returns the text of the error that caused this outcome, for the log only: it may contain
/// confidential data. None if the outcome has no such cause.
pub(crate) fn cause(outcome: &Outcome) -> Option<String> {
    let Outcome::Failed(error) = outcome else { return None };
    error.source().map(|source| printable(&with_all_sources(source)))
}

fn panicked(span: &Span, (method, target): (&str, &str), panic: &CaughtPanic, elapsed: Duration) {
    let (panic, elapsed_us) = (panic.text(), elapsed.as_micros() as u64);
    span.record("outcome", "panicked");
    tracing::error!(outcome = "panicked", method, target, panic, elapsed_us, "call finished");
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
