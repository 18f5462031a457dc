//! Mapping between error kinds, JSON-RPC error codes and HTTP statuses.

use wharf_model::{ErrorKind, Method};

use crate::versions::revision::{Feature, Revision};

/// kind, legacy code, modern code, legacy HTTP status, modern HTTP status.
type CodeRow = (ErrorKind, i32, i32, u16, u16);

/// Error kinds whose code is not the default (-32602 for caller faults, -32603 for others).
#[rustfmt::skip]
static ROWS: [CodeRow; 26] = {
    use ErrorKind::*;
    [
        (ParseError, -32700, -32700, 400, 400),
        (InvalidRequest, -32600, -32600, 400, 400),
        (MethodNotFound, -32601, -32601, 200, 404),
        (CapabilityNotSupported, -32601, -32601, 200, 404),
        (InvalidParams, -32602, -32602, 200, 200),
        (InternalError, -32603, -32603, 200, 200),
        (ResourceNotFound, -32002, -32602, 200, 200),
        (HeaderMismatch, -32602, -32020, 400, 400),
        (MissingClientCapability, -32602, -32021, 200, 400),
        (UnsupportedProtocolVersion, -32602, -32022, 400, 400),
        (RateLimited, 1003, 1003, 429, 429),
        (Overloaded, 1008, 1008, 503, 503),
        (TemporarilyUnavailable, 1008, 1008, 503, 503),
        (Unauthenticated, -32602, -32602, 401, 401),
        (Forbidden, -32602, -32602, 403, 403),
        (InsufficientScope, -32602, -32602, 403, 403),
        (ContentTooLarge, -32801, -32801, 413, 413),
        (RequestCancelled, -32800, -32800, 499, 499),
        (ConnectionClosed, -32000, -32603, 200, 200),
        (TaskFailed, -32603, -32603, 200, 200),
        (TaskCancelled, -32602, -32602, 200, 200),
        (TaskTimeout, -32603, -32603, 200, 200),
        (TooManyTasks, -32603, -32603, 200, 200),
        (TaskResultNotReady, -32602, -32602, 200, 200),
        (TaskRequired, -32601, -32021, 200, 400),
        (TaskForbidden, -32601, -32602, 200, 200),
    ]
};

fn row(kind: ErrorKind) -> Option<&'static CodeRow> {
    ROWS.iter().find(|row| row.0 == kind)
}

/// Returns the error code of `kind` in `revision`.
///
/// ```
/// use wharf_model::ErrorKind;
/// use wharf_wire::{Revision, error_codes};
///
/// assert_eq!(error_codes::code(ErrorKind::ResourceNotFound, Revision::NEWEST_LEGACY), -32002);
/// assert_eq!(error_codes::code(ErrorKind::ResourceNotFound, Revision::MODERN), -32602);
/// ```
#[must_use]
pub fn code(kind: ErrorKind, revision: Revision) -> i32 {
    if let Some(row) = row(kind) {
        return if revision.is_modern() { row.2 } else { row.1 };
    }
    if kind == ErrorKind::UrlElicitationRequired && revision.has(Feature::ElicitationIds) {
        return -32042;
    }
    let default_code = if kind.is_caller_fault() { -32602 } else { -32603 };
    refusal_code(kind).unwrap_or(default_code)
}

/// Returns the code of a refusal. Refusals are numbered outside JSON-RPC's reserved range, so every revision
/// allows them.
fn refusal_code(kind: ErrorKind) -> Option<i32> {
    kind.registry_code().filter(|code| *code > 0)
}

/// Returns the HTTP status of `kind` in `revision`.
#[must_use]
pub fn status(kind: ErrorKind, revision: Revision) -> u16 {
    match row(kind) {
        Some(row) if revision.is_modern() => row.4,
        Some(row) => row.3,
        None => 200,
    }
}

/// Returns the error kind of `code` in `revision`.
#[must_use]
pub fn kind(code: i32, revision: Revision) -> ErrorKind {
    // Modern clients may still receive the code that older servers used for a missing resource.
    if code == -32002 {
        return ErrorKind::ResourceNotFound;
    }
    if code == -32042 && revision.has(Feature::ElicitationIds) {
        return ErrorKind::UrlElicitationRequired;
    }
    let matches_code =
        |row: &&CodeRow| if revision.is_modern() { row.2 == code } else { row.1 == code };
    // If several kinds share a code, the first row is the generic one. `ConnectionClosed` is detected locally;
    // servers use its code for any failure.
    let plain = ROWS.iter().filter(|row| row.0 != ErrorKind::ConnectionClosed).find(matches_code);
    let plain = plain.map(|row| row.0);
    let refused = || ErrorKind::ALL.iter().copied().find(|kind| refusal_code(*kind) == Some(code));
    plain.or_else(refused).unwrap_or(ErrorKind::InternalError)
}

/// Returns whether a call of `method` that failed with `kind` is reported as a tool result for the model, not
/// as an error.
pub(crate) fn is_tool_result(kind: ErrorKind, method: Method, revision: Revision) -> bool {
    // The result of a task is the result that the tool would have returned.
    if !matches!(method, Method::CallTool | Method::TaskResult) {
        return false;
    }
    match kind {
        ErrorKind::InvalidToolArguments => revision.has(Feature::ArgumentErrorsAsResults),
        _ => kind.is_tool_result(),
    }
}
