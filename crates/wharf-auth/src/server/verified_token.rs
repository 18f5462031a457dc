//! Verified tokens and the trait of their verifiers.

use std::{
    collections::BTreeSet,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::Value;
use wharf_model::{Authenticated, BoxFuture, Principal, RequestExtensions};

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

/// Rules for mapping claims to a principal.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClaimsMapping {
    /// Scopes that include other scopes.
    pub(crate) implied: Vec<(String, String)>,
    /// Path of the claim with the roles.
    pub(crate) roles: Option<Vec<String>>,
}

impl ClaimsMapping {
    /// Builds the principal of a token. Its id contains the issuer, so that issuers cannot collide. None
    /// without a subject.
    pub(crate) fn principal(&self, issuer: &str, claims: &Claims) -> Option<Principal> {
        let text = |name: &str| claims.text(name).filter(|it| !it.is_empty());
        // An issuer contains neither space nor tab, so the separator is unambiguous.
        let id = match (text("sub"), text("client_id").or(text("azp"))) {
            (Some(subject), _) => format!("{issuer} {subject}"),
            (None, Some(client)) => format!("{issuer}\t{client}"),
            (None, None) => return None,
        };
        let mut principal = Principal::new(id);
        for scope in self.expand_scopes(scopes(claims)) {
            principal = principal.with_scope(scope);
        }
        for role in self.roles(claims) {
            principal = principal.with_role(role);
        }
        Some(principal)
    }

    /// The scopes, with all scopes that they include.
    fn expand_scopes<'a>(&'a self, scopes: Vec<&'a str>) -> BTreeSet<&'a str> {
        let mut all = BTreeSet::new();
        let mut rest = scopes;
        while let Some(scope) = rest.pop() {
            if all.insert(scope) {
                let implied = self.implied.iter().filter(|(broad, _)| broad == scope);
                rest.extend(implied.map(|(_, narrow)| narrow.as_str()));
            }
        }
        all
    }

    fn roles<'a>(&self, claims: &'a Claims) -> Vec<&'a str> {
        let Some((first, rest)) = self.roles.as_deref().and_then(<[_]>::split_first) else {
            return Vec::new();
        };
        let found = rest.iter().try_fold(claims.get(first), |at, name| Some(at?.get(name)));
        match found.flatten() {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }
}

/// Scopes of a token: `scope`, or `scp` as some issuers write it.
fn scopes(claims: &Claims) -> Vec<&str> {
    let words = |text| str::split_ascii_whitespace(text);
    match claims.get("scope") {
        Some(_) => claims.texts("scope").into_iter().flat_map(words).collect(),
        None => claims.texts("scp").into_iter().flat_map(words).collect(),
    }
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

/// Returns true if `aud` contains one of these audiences.
pub(crate) fn has_audience(own: &[String], claims: &Claims) -> bool {
    let is_own = |audience: &&str| own.iter().any(|own| same_resource(own, audience));
    claims.texts("aud").iter().any(is_own)
}

/// Returns true unless `token_use` names another use. Some issuers give refresh tokens and ID tokens the
/// same type.
pub(crate) fn is_access_token_use(claims: &Claims) -> bool {
    match claims.get("token_use") {
        None | Some(Value::Null) => true,
        Some(said) => matches!(said.as_str(), Some("access" | "access_token")),
    }
}

/// Compares resource identifiers exactly, except for the trailing slash of a URL without a path.
fn same_resource(one: &str, other: &str) -> bool {
    let bare = |it: &str| match it.split_once("://") {
        Some((_, rest)) if rest.find('/').is_some_and(|at| at + 1 == rest.len()) => it.len() - 1,
        _ => it.len(),
    };
    one[..bare(one)] == other[..bare(other)]
}

/// Validates `exp`, `nbf` and `iat`. Returns the expiry: `exp`, or later by the clock skew if `exp` has
/// just passed.
pub(crate) fn validate_times(
    claims: &Claims,
    skew: Duration,
    must_expire: bool,
) -> Result<Option<u64>, TokenRejection> {
    let (now, skew) = (now(), skew.as_secs());
    let time = |name: &str, problem| match claims.get(name) {
        None => Ok(None),
        Some(Value::Number(number)) if number.as_f64().is_some_and(|it| it < 0.0) => Ok(Some(0)),
        Some(_) => claims.time(name).map(Some).ok_or(TokenRejection::Invalid(problem)),
    };
    let expires = time("exp", "The token's exp is not a time")?;
    match expires {
        None if must_expire => return Err(TokenRejection::Invalid("The token does not expire")),
        Some(expires) if expires.saturating_add(skew) <= now => {
            return Err(TokenRejection::Invalid("The token has expired"));
        }
        _ => {}
    }
    if time("nbf", "The token's nbf is not a time")?.is_some_and(|it| it > now + skew) {
        return Err(TokenRejection::Invalid("The token is not valid yet"));
    }
    if time("iat", "The token's iat is not a time")?.is_some_and(|it| it > now + skew) {
        return Err(TokenRejection::Invalid("The token was issued in the future"));
    }
    Ok(expires.map(|expires| if expires > now { expires } else { expires + skew }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_the_same_but_for_the_slash_of_a_root() {
        assert!(same_resource("https://a.example", "https://a.example/"));
        assert!(same_resource("https://a.example/mcp", "https://a.example/mcp"));
        for (one, other) in [
            ("https://a.example/mcp", "https://a.example/mcp/"),
            ("https://a.example", "https://a.example//"),
            ("https://a.example", "http://a.example"),
            ("https://a.example", "https://a.example.evil"),
            ("api", "api/"),
            ("x://", "https://a.example"),
        ] {
            assert!(!same_resource(one, other), "{one} {other}");
        }
    }
}
