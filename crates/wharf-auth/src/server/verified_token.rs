//! Verified tokens and the trait of their verifiers.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use wharf_model::{Authenticated, BoxFuture, RequestExtensions};

use crate::jose::Claims;

/// Result of a successful verification.
#[derive(Clone, Debug)]
pub(crate) struct VerifiedToken {
    pub(crate) pass: Authenticated,
    /// Expiry (`exp`), in seconds since 1970.
    pub(crate) expires: Option<u64>,
    pub(crate) bound: TokenBinding,
}

/// Binding of a token to a key or certificate (`cnf`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TokenBinding {
    /// Thumbprint of the key of the DPoP proof (RFC 9449).
    pub(crate) key: Option<String>,
    /// Digest of the client certificate (RFC 8705).
    pub(crate) certificate: Option<String>,
    /// A binding of an unsupported kind.
    pub(crate) unsupported: bool,
}

impl TokenBinding {
    pub(crate) fn of(claims: &Claims) -> Self {
        let Some(confirmation) = claims.get("cnf") else { return TokenBinding::default() };
        let text = |name: &str| confirmation.get(name).and_then(Value::as_str).map(str::to_owned);
        let (key, certificate) = (text("jkt"), text("x5t#S256"));
        let unsupported = key.is_none() && certificate.is_none();
        TokenBinding { key, certificate, unsupported }
    }

    pub(crate) fn is_unbound(&self) -> bool {
        *self == TokenBinding::default()
    }
}

/// Rejection of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenRejection {
    /// The token is invalid. The reason is sent to the client.
    Invalid(&'static str),
    /// The token cannot be verified now, because the issuer does not respond.
    Unavailable,
}

pub(crate) type VerificationResult = Result<VerifiedToken, TokenRejection>;

/// Verification of a token: immediate, or asynchronous if the issuer must be contacted.
#[expect(clippy::large_enum_variant, reason = "it is matched immediately")]
pub(crate) enum TokenVerification {
    Now(VerificationResult),
    Later(BoxFuture<VerificationResult>),
}

/// A token that a request presents.
pub(crate) struct SubmittedToken<'a> {
    pub(crate) token: &'a str,
    pub(crate) digest: [u8; 32],
    /// Extensions of the request, which identify the sender.
    pub(crate) scope: &'a RequestExtensions,
}

/// Verifies tokens.
pub(crate) trait TokenVerifier: Send + Sync + 'static {
    fn verify(&self, submitted: &SubmittedToken<'_>) -> TokenVerification;
    /// Time for which a verified token may be cached.
    fn cache_ttl(&self) -> Duration;
}

/// Current time, in seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Converts seconds since 1970.
pub(crate) fn system_time(seconds: u64) -> SystemTime {
    // A time beyond the clock's range never occurs in practice.
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or_else(SystemTime::now)
}
