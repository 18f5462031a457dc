//! What a token turned out to be worth.

use std::{
    collections::BTreeSet,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::Value;
use wharf_model::{Authenticated, BoxFuture, Principal, RequestExtensions};

use crate::jose::Claims;

/// What a good token says.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) pass: Authenticated,
    /// When it expires, by its own word, in seconds since 1970.
    pub(crate) expires: Option<u64>,
    pub(crate) bound: Bound,
}

/// Whose a token is besides its bearer's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bound {
    /// The thumbprint of a key that must be proved (RFC 9449).
    pub(crate) key: Option<String>,
    /// The digest of a certificate that must be shown (RFC 8705).
    pub(crate) certificate: Option<String>,
    /// Something else, which nobody here could check.
    pub(crate) otherwise: bool,
}

impl Bound {
    pub(crate) fn of(claims: &Claims) -> Self {
        let Some(confirmation) = claims.get("cnf") else { return Bound::default() };
        let text = |name: &str| confirmation.get(name).and_then(Value::as_str).map(str::to_owned);
        let (key, certificate) = (text("jkt"), text("x5t#S256"));
        let otherwise = key.is_none() && certificate.is_none();
        Bound { key, certificate, otherwise }
    }

    pub(crate) fn is_free(&self) -> bool {
        *self == Bound::default()
    }
}

/// Why a token is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejected {
    /// It is no good. Why not is told to whoever sent it.
    Invalid(&'static str),
    /// Nobody can tell now, because whoever knows does not answer.
    Unknown,
}

pub(crate) type Checked = Result<Grant, Rejected>;

/// How a token is checked: at once where all is known, later where somebody must be asked.
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub(crate) enum Checking {
    Now(Checked),
    Later(BoxFuture<Checked>),
}

/// A token that came with a request.
pub(crate) struct Submitted<'a> {
    pub(crate) token: &'a str,
    pub(crate) digest: [u8; 32],
    /// What is known of the request's sender.
    pub(crate) scope: &'a RequestExtensions,
}

/// Knows what tokens are worth.
pub(crate) trait Verifier: Send + Sync + 'static {
    fn verify(&self, submitted: &Submitted<'_>) -> Checking;
    /// For how long a verdict may be kept.
    fn keep(&self) -> Duration;
}

/// How claims become a principal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    /// Scopes that stand for others.
    pub(crate) implied: Vec<(String, String)>,
    /// Where the roles are: a path of names.
    pub(crate) roles: Option<Vec<String>>,
}

impl Reading {
    /// Who a token is about, under a name that no other issuer's can have. None if it does not say.
    pub(crate) fn principal(&self, issuer: &str, claims: &Claims) -> Option<Principal> {
        let text = |name: &str| claims.text(name).filter(|it| !it.is_empty());
        // An issuer has neither spaces nor tabs, so the first of them ends it.
        let id = match (text("sub"), text("client_id").or(text("azp"))) {
            (Some(subject), _) => format!("{issuer} {subject}"),
            (None, Some(client)) => format!("{issuer}\t{client}"),
            (None, None) => return None,
        };
        let mut principal = Principal::new(id);
        for scope in self.effective(scopes(claims)) {
            principal = principal.with_scope(scope);
        }
        for role in self.roles(claims) {
            principal = principal.with_role(role);
        }
        Some(principal)
    }

    /// The scopes, and all that they stand for.
    fn effective<'a>(&'a self, scopes: Vec<&'a str>) -> BTreeSet<&'a str> {
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

/// The scopes that a token was granted: `scope`, or `scp` as some issuers write it.
fn scopes(claims: &Claims) -> Vec<&str> {
    let words = |text| str::split_ascii_whitespace(text);
    match claims.get("scope") {
        Some(_) => claims.texts("scope").into_iter().flat_map(words).collect(),
        None => claims.texts("scp").into_iter().flat_map(words).collect(),
    }
}

/// The time, in seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A moment that a token names.
pub(crate) fn moment(seconds: u64) -> SystemTime {
    // Nothing is ever due later than what a clock can say.
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or_else(SystemTime::now)
}

/// Whether a token is meant for one of these audiences.
pub(crate) fn is_meant(own: &[String], claims: &Claims) -> bool {
    let is_own = |audience: &&str| own.iter().any(|own| same_resource(own, audience));
    claims.texts("aud").iter().any(is_own)
}

/// Whether a token is for showing to servers, as far as its issuer says what it is for. Some call their refresh tokens,
/// and tokens that tell who somebody is, by the same type.
pub(crate) fn is_for_access(claims: &Claims) -> bool {
    match claims.get("token_use") {
        None | Some(Value::Null) => true,
        Some(said) => matches!(said.as_str(), Some("access" | "access_token")),
    }
}

/// Whether two names of a resource are the same: exactly, but for the slash that every URL without a path has or has
/// not.
fn same_resource(one: &str, other: &str) -> bool {
    let bare = |it: &str| match it.split_once("://") {
        Some((_, rest)) if rest.find('/').is_some_and(|at| at + 1 == rest.len()) => it.len() - 1,
        _ => it.len(),
    };
    one[..bare(one)] == other[..bare(other)]
}

/// Checks the times of a token. Its end, if it is good now: no later than its own `exp`, unless that is past already
/// and only clocks that differ explain it.
pub(crate) fn check_times(
    claims: &Claims,
    skew: Duration,
    must_expire: bool,
) -> Result<Option<u64>, Rejected> {
    let (now, skew) = (now(), skew.as_secs());
    let time = |name: &str, problem| match claims.get(name) {
        None => Ok(None),
        Some(Value::Number(number)) if number.as_f64().is_some_and(|it| it < 0.0) => Ok(Some(0)),
        Some(_) => claims.time(name).map(Some).ok_or(Rejected::Invalid(problem)),
    };
    let expires = time("exp", "The token's exp is no time")?;
    match expires {
        None if must_expire => return Err(Rejected::Invalid("The token does not expire")),
        Some(expires) if expires.saturating_add(skew) <= now => {
            return Err(Rejected::Invalid("The token has expired"));
        }
        _ => {}
    }
    if time("nbf", "The token's nbf is no time")?.is_some_and(|it| it > now + skew) {
        return Err(Rejected::Invalid("The token is not valid yet"));
    }
    if time("iat", "The token's iat is no time")?.is_some_and(|it| it > now + skew) {
        return Err(Rejected::Invalid("The token was issued in the future"));
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
