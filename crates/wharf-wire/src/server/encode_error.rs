//! Encodes errors.

use serde_json::Value;
use wharf_model::{ClientCapability, Error, ErrorKind, Meta, TASKS_EXTENSION};

use crate::{
    Codec, ErrorProfile, Revision,
    json::{writer, writer::ObjectWriter},
    server::codec::CodecRole,
    versions::error_codes,
};

impl Codec {
    /// Writes an error as the reply to the call; returns the HTTP status.
    pub fn refuse(&self, error: &Error, out: &mut Vec<u8>) -> u16 {
        if self.is_silent() {
            return 200;
        }
        if let CodecRole::Initialize(pending) = &self.role {
            pending.fail();
        }
        write_error(out, self.wire.profile, Some(self.id_json()), error, self.revision);
        error_codes::status(reported_kind(error.kind), self.revision)
    }
}

/// Returns the kind that is reported. A client that reads a reply has not cancelled, so a handler's own
/// cancellation is an internal error.
fn reported_kind(kind: ErrorKind) -> ErrorKind {
    match kind {
        ErrorKind::RequestCancelled => ErrorKind::InternalError,
        kind => kind,
    }
}

/// Writes an error response. An unknown id is omitted: the protocol does not allow `null`.
pub(crate) fn write_error(
    out: &mut Vec<u8>,
    profile: ErrorProfile,
    id: Option<&str>,
    error: &Error,
    revision: Revision,
) {
    let mut message = ObjectWriter::open(out);
    message.plain("jsonrpc", "\"2.0\"");
    if let Some(id) = id {
        message.plain("id", id);
    }
    write_fields(message.object("error"), profile, error, revision);
    message.close();
}

/// Writes the fields of an error.
pub(crate) fn write_fields(
    mut body: ObjectWriter<'_>,
    profile: ErrorProfile,
    error: &Error,
    revision: Revision,
) {
    writer::integer(body.key("code"), error_code(profile, error, revision));
    body.text("message", &error.message);
    write_data(&mut body, error, revision);
    body.close();
}

/// Returns the code of an error response.
pub(crate) fn error_code(profile: ErrorProfile, error: &Error, revision: Revision) -> i32 {
    let kind = reported_kind(error.kind);
    let registry = match profile {
        ErrorProfile::Registry if !revision.is_modern() => kind.registry_code(),
        _ => None,
    };
    own_code(error, revision).or(registry).unwrap_or_else(|| error_codes::code(kind, revision))
}

/// Returns the code that the server's author set, unless JSON-RPC reserves it or the kind has it already.
fn own_code(error: &Error, revision: Revision) -> Option<i32> {
    let is_own = |code: &i32| {
        !(-32768..=-32000).contains(code) && *code != error_codes::code(error.kind, revision)
    };
    error.code.filter(is_own)
}

const REQUIRED_CAPABILITIES: &str = "requiredCapabilities";
const RETRY_AFTER: &str = "retryAfterMs";
/// Default for `retryAfterMs`.
const DEFAULT_RETRY_MS: u64 = 1000;

/// Returns whether an error of `kind` carries `retryAfterMs`.
fn is_busy(kind: ErrorKind) -> bool {
    use ErrorKind::{Overloaded, RateLimited, TemporarilyUnavailable};
    matches!(kind, RateLimited | Overloaded | TemporarilyUnavailable)
}

fn write_data(body: &mut ObjectWriter<'_>, error: &Error, revision: Revision) {
    let fields = match error.data.as_deref() {
        // Errors with a custom code get no `reason`.
        None if own_code(error, revision).is_some() => return,
        None => &Meta::new(),
        Some(Value::Object(fields)) => fields,
        Some(other) => return body.json("data", other),
    };
    let mut data = body.object("data");
    if own_code(error, revision).is_none() && !fields.contains_key("reason") {
        data.text("reason", error.kind.name());
    }
    if is_busy(error.kind) && !fields.contains_key(RETRY_AFTER) {
        writer::integer(data.key(RETRY_AFTER), DEFAULT_RETRY_MS);
    }
    let code = |kind| error_codes::code(kind, revision);
    if error.kind.is_task_required()
        && code(error.kind) == code(ErrorKind::MissingClientCapability)
        && !fields.contains_key(REQUIRED_CAPABILITIES)
    {
        // The error code implies the missing capabilities.
        data.json(
            REQUIRED_CAPABILITIES,
            &ClientCapability::Extension(TASKS_EXTENSION.into()).required(),
        );
    }
    for (key, value) in fields {
        writer::json(data.any_key(key), value);
    }
    data.close();
}
