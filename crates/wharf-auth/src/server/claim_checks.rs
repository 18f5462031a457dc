//! Checks of the claims of an access token: times with clock skew (`exp`, `nbf`, `iat`), audience (`aud`, RFC 8707) and
//! `token_use`.

use std::time::Duration;

use serde_json::Value;

use crate::{
    jose::Claims,
    server::verified_token::{TokenRejection, now},
};

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

/// Returns true if `aud` contains one of these audiences.
pub(crate) fn has_audience(own: &[String], claims: &Claims) -> bool {
    let is_own = |audience: &&str| own.iter().any(|own| same_resource(own, audience));
    claims.texts("aud").iter().any(is_own)
}

/// Compares resource identifiers exactly, except for the trailing slash of a URL without a path.
fn same_resource(one: &str, other: &str) -> bool {
    let bare = |it: &str| match it.split_once("://") {
        Some((_, rest)) if rest.find('/').is_some_and(|at| at + 1 == rest.len()) => it.len() - 1,
        _ => it.len(),
    };
    one[..bare(one)] == other[..bare(other)]
}

/// Returns true unless `token_use` names another use. Some issuers give refresh tokens and ID tokens the
/// same type.
pub(crate) fn is_access_token_use(claims: &Claims) -> bool {
    match claims.get("token_use") {
        None | Some(Value::Null) => true,
        Some(said) => matches!(said.as_str(), Some("access" | "access_token")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_equal_except_for_the_slash_of_a_root() {
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
