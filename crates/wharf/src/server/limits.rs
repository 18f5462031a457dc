//! Limits of a server.

use wharf_server::CallLimits;
#[cfg(feature = "http")]
use wharf_server::Rates;
use wharf_transport::LineLimits;
#[cfg(feature = "http")]
use wharf_transport::server::http::HttpLimits;
use wharf_wire::MessageLimits;

/// Limits of a server, by part. A request that exceeds one is rejected with an error.
///
/// ```
/// use wharf::{Server, http::HttpLimits, server::{CallLimits, Limits}};
///
/// let limits = Limits::default()
///     .calls(CallLimits::default().concurrent(64).page(100))
///     .http(HttpLimits::default().sessions(500));
/// let server = Server::new("harbour", "1.0.0").limits(limits);
/// # let _ = server;
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Limits {
    /// Calls, subscriptions, lists and schemas.
    pub calls: CallLimits,
    /// Sizes of messages and their parts.
    pub messages: MessageLimits,
    /// One connection over stdio, a socket or WebSocket, and the memory of all of them.
    pub lines: LineLimits,
    /// The HTTP endpoint: connections, requests and legacy sessions.
    #[cfg(feature = "http")]
    pub http: HttpLimits,
    /// Rate limits of each remote caller over HTTP; `None` for unlimited. [`CallLimits::rates`] are
    /// used instead if they are set.
    #[cfg(feature = "http")]
    pub http_rates: Option<Rates>,
}

#[cfg_attr(
    not(feature = "http"),
    allow(clippy::derivable_impls, reason = "the defaults of HTTP cannot be derived")
)]
impl Default for Limits {
    fn default() -> Self {
        Limits {
            calls: CallLimits::default(),
            messages: MessageLimits::default(),
            lines: LineLimits::default(),
            #[cfg(feature = "http")]
            http: HttpLimits::default(),
            #[cfg(feature = "http")]
            http_rates: Some(Rates::default()),
        }
    }
}

wharf_model::setters!(Limits {
    calls: CallLimits,
    messages: MessageLimits,
    lines: LineLimits,
    #[cfg(feature = "http")]
    http: HttpLimits,
    #[cfg(feature = "http")]
    http_rates: impl Into<Option<Rates>>,
});
