//! Spans by the OpenTelemetry conventions for MCP: names, attributes and status.
//!
//! The conventions are in development (`open-telemetry/semantic-conventions-genai`, `docs/gen-ai/mcp.md`). One table has
//! all attributes; the observers that make spans read it.

use std::{borrow::Cow, error::Error as _, ops::RangeInclusive};

use sha2::{Digest as _, Sha256};

use crate::{CallEnd, CallOutcome, CallRole, CallStart, Error, ErrorKind, Method, Outcome, Reply};

/// Version of the conventions that the names are from.
pub const SPAN_CONVENTIONS: &str = "gen-ai/mcp 2026-08";

/// Value of an attribute for a call; `None` if the call does not have it.
pub type SpanAttributeFn = for<'a> fn(&CallStart<'a>) -> Option<Cow<'a, str>>;

/// Attributes of a span that are known at the start of its call. `client.port` and `server.port` are integers, all
/// others are strings. The session id is hashed, because it authenticates requests in some deployments.
pub static SPAN_ATTRIBUTES: &[(&str, SpanAttributeFn)] = &[
    ("mcp.method.name", |call| of_protocol(call).then(|| printable_cow(call.method_name()))),
    ("gen_ai.operation.name", |call| calls_tool(call).then_some("execute_tool".into())),
    ("gen_ai.tool.name", |call| calls_tool(call).then(|| target(call))),
    ("gen_ai.prompt.name", |call| (method(call) == Method::GetPrompt).then(|| target(call))),
    ("mcp.resource.uri", |call| (method(call) == Method::ReadResource).then(|| target(call))),
    ("jsonrpc.request.id", |call| request_id(call).filter(|_| of_protocol(call))),
    ("mcp.protocol.version", |call| call.protocol_version().map(Cow::Borrowed)),
    ("mcp.session.id", |call| call.session_id().map(|id| hashed_id(id).into())),
    ("network.transport", |call| Some(call.transport()?.network_transport().into())),
    ("network.protocol.name", |call| Some(call.transport()?.network_protocol()?.into())),
    ("network.protocol.version", |call| call.network_protocol_version().map(Cow::Borrowed)),
    ("client.address", |call| Some(call.client_address()?.ip().to_string().into())),
    ("client.port", |call| Some(call.client_address()?.port().to_string().into())),
    ("server.address", |call| call.server_address().map(Cow::Borrowed)),
    ("server.port", |call| Some(call.server_port()?.to_string().into())),
];

/// Attributes that are known at the end of a call.
pub const SPAN_END_ATTRIBUTES: [&str; 2] = ["error.type", "rpc.response.status_code"];

impl CallStart<'_> {
    /// Returns the name of the span: the method and its tool or prompt. A name that the server does not have is no
    /// part of it, because callers could invent any number of them.
    #[must_use]
    pub fn span_name(&self) -> String {
        let method = match self.role {
            CallRole::Task => "execute_tool".into(),
            _ if self.request.method == Method::Custom && !self.is_known_target() => {
                "_other".into()
            }
            _ => printable_cow(self.method_name()),
        };
        let is_named = matches!(self.request.method, Method::CallTool | Method::GetPrompt)
            && self.is_known_target();
        match is_named {
            true => format!("{method} {}", target(self)),
            false => method.into_owned(),
        }
    }

    /// Returns the kind of the span: `server`, `client`, or `internal` for the run of a task.
    #[must_use]
    pub fn span_kind(&self) -> &'static str {
        match self.role {
            CallRole::Server => "server",
            CallRole::Client => "client",
            CallRole::Task => "internal",
        }
    }

    /// Returns an attribute of [`SPAN_ATTRIBUTES`].
    #[must_use]
    pub fn span_attribute(&self, name: &str) -> Option<Cow<'_, str>> {
        SPAN_ATTRIBUTES.iter().find(|it| it.0 == name).and_then(|it| it.1(self))
    }
}

impl CallEnd<'_> {
    /// Returns the text of the error that the call failed with, also that of the result of a tool, for operators
    /// only: it may be the tool's, and the source of an error may be confidential. It is one line of at most 256
    /// characters. Errors about arguments have none, because they quote them.
    #[must_use]
    pub fn error_text(&self) -> Option<String> {
        let text = match self.outcome {
            CallOutcome::Panicked(text) => Cow::Borrowed(text),
            CallOutcome::Returned(Outcome::Failed(error)) if quotes_arguments(error) => {
                return None;
            }
            CallOutcome::Returned(Outcome::Failed(error)) => failure_text(error),
            CallOutcome::Returned(Outcome::Complete(Reply::Tool(result))) if result.is_error => {
                result.content.iter().find_map(|it| it.as_text()).unwrap_or_default().into()
            }
            _ => return None,
        };
        Some(printable(&text))
    }
}

fn quotes_arguments(error: &Error) -> bool {
    error.kind.is_invalid_tool_arguments() || error.kind == ErrorKind::InvalidParams
}

/// Returns the texts of the sources of an error, or else its message.
fn failure_text(error: &Error) -> Cow<'_, str> {
    let mut text: Option<String> = None;
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        text = Some(match text {
            // Many errors already contain the text of their source.
            Some(text) if text.contains(&cause) => text,
            Some(text) => format!("{text}: {cause}"),
            None => cause,
        });
        source = error.source();
    }
    text.map_or(Cow::Borrowed(&*error.message), Cow::Owned)
}

fn method(call: &CallStart<'_>) -> Method {
    call.request.method
}

/// The run of a task is no message of the protocol.
fn of_protocol(call: &CallStart<'_>) -> bool {
    call.role != CallRole::Task
}

fn calls_tool(call: &CallStart<'_>) -> bool {
    method(call) == Method::CallTool
}

fn target<'a>(call: &CallStart<'a>) -> Cow<'a, str> {
    printable_cow(call.request.target())
}

/// Returns the text of a string or number; nothing for `null`.
fn request_id<'a>(call: &CallStart<'a>) -> Option<Cow<'a, str>> {
    let json = call.request_id().filter(|it| *it != "null")?;
    let text = json.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    Some(printable_cow(text.unwrap_or(json).into()))
}

/// Returns the form of a session's or task's id in logs and traces: who has the id may use it, who has its hash
/// cannot. It is the same in all processes (the first 16 digits of SHA-256).
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod observe { pub use super::*; } }
/// assert_eq!(wharf::observe::hashed_id("abc"), "ba7816bf8f01cfea");
/// ```
#[must_use]
pub fn hashed_id(id: &str) -> String {
    let digest = Sha256::digest(id.as_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Sanitizes a caller's string for logs and traces: short, and without characters that could forge lines, colours or
/// text direction.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars()
        .take(MAX_PRINTABLE)
        .map(|c| if is_unprintable(c) { '\u{fffd}' } else { c })
        .collect()
}

/// Returns whether a character could forge lines, colours or the direction of text, or is invisible.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod observe { pub use super::*; } }
/// assert!(wharf::observe::is_unprintable('\u{202e}'));
/// assert!(!wharf::observe::is_unprintable('é'));
/// ```
#[must_use]
pub fn is_unprintable(c: char) -> bool {
    c.is_control() || UNSAFE_CHARS.iter().any(|range| range.contains(&c))
}

const MAX_PRINTABLE: usize = 256;

/// Sanitizes a string, without a copy of one that needs no change.
fn printable_cow(text: Cow<'_, str>) -> Cow<'_, str> {
    let is_plain = text.len() <= MAX_PRINTABLE && text.bytes().all(|it| matches!(it, b' '..=b'~'));
    if is_plain { text } else { Cow::Owned(printable(&text)) }
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
