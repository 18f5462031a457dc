//! Mapping between error kinds, JSON-RPC error codes and HTTP statuses.

use wharf_model::ErrorKind;

use crate::versions::revision::{
    ALWAYS, LEGACY, MODERN, R2025_11_25, Revision, RevisionRange, only,
};
#[cfg(test)]
use crate::versions::revision::{R2027_01_15, since};

/// Code and HTTP status of an error kind in some revisions.
struct CodeRow(ErrorKind, RevisionRange, i32, u16);

/// Codes and statuses that are not the default (-32602 for caller faults, -32603 for others; status 200). Of
/// several rows for a kind and revision, the first one counts.
#[rustfmt::skip]
static ROWS: &[CodeRow] = {
    use ErrorKind::*;
    &[
        CodeRow(ParseError, ALWAYS, -32700, 400),
        CodeRow(InvalidRequest, ALWAYS, -32600, 400),
        CodeRow(MethodNotFound, LEGACY, -32601, 200),
        CodeRow(MethodNotFound, MODERN, -32601, 404),
        CodeRow(CapabilityNotSupported, LEGACY, -32601, 200),
        CodeRow(CapabilityNotSupported, MODERN, -32601, 404),
        CodeRow(InvalidParams, ALWAYS, -32602, 200),
        CodeRow(InternalError, ALWAYS, -32603, 200),
        #[cfg(test)]
        CodeRow(ResourceNotFound, since(R2027_01_15), -32030, 404),
        CodeRow(ResourceNotFound, LEGACY, -32002, 200),
        CodeRow(ResourceNotFound, MODERN, -32602, 200),
        CodeRow(HeaderMismatch, LEGACY, -32602, 400),
        CodeRow(HeaderMismatch, MODERN, -32020, 400),
        CodeRow(MissingClientCapability, LEGACY, -32602, 200),
        CodeRow(MissingClientCapability, MODERN, -32021, 400),
        CodeRow(UnsupportedProtocolVersion, LEGACY, -32602, 400),
        CodeRow(UnsupportedProtocolVersion, MODERN, -32022, 400),
        CodeRow(UrlElicitationRequired, only(R2025_11_25), -32042, 200),
        CodeRow(RateLimited, ALWAYS, 1003, 429),
        CodeRow(Overloaded, ALWAYS, 1008, 503),
        CodeRow(TemporarilyUnavailable, ALWAYS, 1008, 503),
        CodeRow(Unauthenticated, ALWAYS, -32602, 401),
        CodeRow(Forbidden, ALWAYS, -32602, 403),
        CodeRow(InsufficientScope, ALWAYS, -32602, 403),
        CodeRow(ContentTooLarge, ALWAYS, -32801, 413),
        CodeRow(RequestCancelled, ALWAYS, -32800, 499),
        CodeRow(ConnectionClosed, LEGACY, -32000, 200),
        CodeRow(ConnectionClosed, MODERN, -32603, 200),
        CodeRow(TaskFailed, ALWAYS, -32603, 200),
        CodeRow(TaskCancelled, ALWAYS, -32602, 200),
        CodeRow(TooManyTasks, ALWAYS, -32603, 200),
        CodeRow(TaskRequired, LEGACY, -32601, 200),
        CodeRow(TaskRequired, MODERN, -32021, 400),
        CodeRow(TaskForbidden, LEGACY, -32601, 200),
        CodeRow(TaskForbidden, MODERN, -32602, 200),
    ]
};

fn row(kind: ErrorKind, revision: Revision) -> Option<&'static CodeRow> {
    ROWS.iter().find(|row| row.0 == kind && row.1.has(revision))
}

/// Returns the error code of `kind` in `revision`.
///
/// ```
/// use wharf_model::ErrorKind;
/// use wharf_wire::{Revision, error_codes};
///
/// assert_eq!(error_codes::code(ErrorKind::ResourceNotFound, Revision::NEWEST_LEGACY), -32002);
/// assert_eq!(error_codes::code(ErrorKind::ResourceNotFound, Revision::NEWEST), -32602);
/// ```
#[must_use]
pub fn code(kind: ErrorKind, revision: Revision) -> i32 {
    let default_code = || if kind.is_caller_fault() { -32602 } else { -32603 };
    let code = row(kind, revision).map(|row| row.2).or_else(|| refusal_code(kind));
    code.unwrap_or_else(default_code)
}

/// Returns the code of a refusal. Refusals are numbered outside JSON-RPC's reserved range, so every revision
/// allows them.
fn refusal_code(kind: ErrorKind) -> Option<i32> {
    kind.registry_code().filter(|code| *code > 0)
}

/// Returns the HTTP status of `kind` in `revision`.
#[must_use]
pub fn status(kind: ErrorKind, revision: Revision) -> u16 {
    row(kind, revision).map_or(200, |row| row.3)
}

/// Returns the error kind of `code` in `revision`.
#[must_use]
pub fn kind(code: i32, revision: Revision) -> ErrorKind {
    // Modern clients may still receive the code that older servers used for a missing resource.
    if code == -32002 {
        return ErrorKind::ResourceNotFound;
    }
    // If several kinds share a code, the first row is the generic one. `ConnectionClosed` is detected locally;
    // servers use its code for any failure.
    let fits = |kind: ErrorKind| {
        kind != ErrorKind::ConnectionClosed && row(kind, revision).is_some_and(|it| it.2 == code)
    };
    let plain = ROWS.iter().map(|row| row.0).find(|kind| fits(*kind));
    let refused = || ErrorKind::ALL.iter().copied().find(|kind| refusal_code(*kind) == Some(code));
    plain.or_else(refused).unwrap_or(ErrorKind::InternalError)
}

/// Returns the error kind of a code that only modern revisions have.
pub(crate) fn modern_only(code: i32) -> Option<ErrorKind> {
    let has_code = |row: &&CodeRow| row.2 == code;
    let is_shared = ROWS.iter().filter(has_code).any(|row| !row.1.is_modern());
    ROWS.iter().find(has_code).filter(|_| !is_shared).map(|row| row.0)
}
