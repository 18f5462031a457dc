//! Table of the reasons for which a message is refused before it is a call.

use crate::ErrorKind;

macro_rules! refusals {
    ($($(#[$doc:meta])* $Reason:ident $name:literal;)*) => {
        /// Reason for which a request or a connection is refused before there is a call: the label `reason` of
        /// `wharf_rejected_total`.
        ///
        /// ```
        /// # mod wharf { pub use wharf_model::*; pub mod observe { pub use super::*; } }
        /// use wharf::observe::RefusalReason;
        ///
        /// assert_eq!(RefusalReason::ParseError.name(), "parse_error");
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum RefusalReason {
            $($(#[$doc])* $Reason,)*
        }

        impl RefusalReason {
            /// All reasons.
            pub const ALL: &'static [RefusalReason] = &[$(RefusalReason::$Reason,)*];

            /// Returns the name of the reason in logs and metrics.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(RefusalReason::$Reason => $name,)*
                }
            }
        }
    };
}

refusals! {
    /// The message is not JSON.
    ParseError "parse_error";
    /// The message is not a valid JSON-RPC request, or its parameters are of a wrong type.
    InvalidRequest "invalid_request";
    /// The protocol version is not supported.
    UnsupportedVersion "unsupported_version";
    /// The method does not exist.
    MethodNotFound "method_not_found";
    /// The session was not initialized.
    NotInitialized "not_initialized";
    /// Headers and body differ.
    HeaderMismatch "header_mismatch";
    /// HTTP 400 of another cause.
    BadRequest "bad_request";
    /// HTTP 401.
    Unauthenticated "unauthenticated";
    /// HTTP 403 of the authenticator.
    Forbidden "forbidden";
    /// The `Host` header is not allowed (DNS rebinding).
    ForbiddenHost "forbidden_host";
    /// The `Origin` header is not allowed (DNS rebinding).
    ForbiddenOrigin "forbidden_origin";
    /// HTTP 404: the path does not exist.
    NotFound "not_found";
    /// The session does not exist, or belongs to another principal.
    UnknownSession "unknown_session";
    /// HTTP 405.
    MethodNotAllowed "method_not_allowed";
    /// HTTP 406.
    NotAcceptable "not_acceptable";
    /// The message did not arrive in time.
    RequestTimeout "request_timeout";
    /// The message exceeds the size limit.
    TooLarge "too_large";
    /// HTTP 415.
    UnsupportedMediaType "unsupported_media_type";
    /// The rate limit was reached.
    RateLimited "rate_limited";
    /// The connection has too many calls or subscriptions.
    TooManyCalls "too_many_calls";
    /// The table of sessions is full.
    TooManySessions "too_many_sessions";
    /// The table of connections is full.
    TooManyConnections "too_many_connections";
    /// The memory for messages is used up.
    MessageMemory "message_memory";
    /// The process has no file descriptors left.
    NoDescriptors "no_descriptors";
    /// A store does not respond.
    StoreUnavailable "store_unavailable";
    /// TLS handshake failure.
    TlsHandshake "tls_handshake";
}

/// Reasons of errors that a codec reports. Every other kind is [`RefusalReason::InvalidRequest`].
const REASONS_OF_KINDS: &[(ErrorKind, RefusalReason)] = &[
    (ErrorKind::ParseError, RefusalReason::ParseError),
    (ErrorKind::UnsupportedProtocolVersion, RefusalReason::UnsupportedVersion),
    (ErrorKind::MethodNotFound, RefusalReason::MethodNotFound),
    (ErrorKind::NotInitialized, RefusalReason::NotInitialized),
    (ErrorKind::HeaderMismatch, RefusalReason::HeaderMismatch),
    (ErrorKind::ContentTooLarge, RefusalReason::TooLarge),
    (ErrorKind::Overloaded, RefusalReason::TooManyCalls),
    (ErrorKind::TemporarilyUnavailable, RefusalReason::StoreUnavailable),
];

/// Reasons of HTTP statuses. Every other status is [`RefusalReason::BadRequest`].
const REASONS_OF_STATUSES: &[(u16, RefusalReason)] = &[
    (401, RefusalReason::Unauthenticated),
    (403, RefusalReason::Forbidden),
    (404, RefusalReason::NotFound),
    (405, RefusalReason::MethodNotAllowed),
    (406, RefusalReason::NotAcceptable),
    (408, RefusalReason::RequestTimeout),
    (413, RefusalReason::TooLarge),
    (415, RefusalReason::UnsupportedMediaType),
    (429, RefusalReason::RateLimited),
    (431, RefusalReason::TooLarge),
    (503, RefusalReason::StoreUnavailable),
];

impl RefusalReason {
    /// Returns the reason of an error that a message was answered with.
    ///
    /// ```
    /// # mod wharf { pub use wharf_model::*; pub mod observe { pub use super::*; } }
    /// use wharf::{ErrorKind, observe::RefusalReason};
    ///
    /// let reason = RefusalReason::of_kind(ErrorKind::ContentTooLarge);
    /// assert_eq!(reason, RefusalReason::TooLarge);
    /// ```
    #[must_use]
    pub fn of_kind(kind: ErrorKind) -> RefusalReason {
        let known = REASONS_OF_KINDS.iter().find(|(known, _)| *known == kind);
        known.map_or(RefusalReason::InvalidRequest, |(_, reason)| *reason)
    }

    /// Returns the usual reason of an HTTP status.
    ///
    /// ```
    /// # mod wharf { pub use wharf_model::*; pub mod observe { pub use super::*; } }
    /// use wharf::observe::RefusalReason;
    ///
    /// assert_eq!(RefusalReason::of_status(406), RefusalReason::NotAcceptable);
    /// ```
    #[must_use]
    pub fn of_status(status: u16) -> RefusalReason {
        let known = REASONS_OF_STATUSES.iter().find(|(known, _)| *known == status);
        known.map_or(RefusalReason::BadRequest, |(_, reason)| *reason)
    }
}
