//! Parsing of the authorization response in the redirect.

use std::fmt;

use url::form_urlencoded;

use crate::jose::constant_time_eq;

/// Longest accepted query.
const MAX_QUERY_BYTES: usize = 8 << 10;

/// Limit of parameters.
const MAX_PARAMETERS: usize = 32;

/// Authorization response whose `state` has been validated.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthorizationResponse {
    /// The query, unchanged.
    pub query: String,
    /// The response is an error.
    pub is_error: bool,
}

/// Omits the query: a code is a secret.
impl fmt::Debug for AuthorizationResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationResponse")
            .field("is_error", &self.is_error)
            .finish_non_exhaustive()
    }
}

/// Reason why a query is not the expected response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseMismatch {
    /// Malformed: too long, neither code nor error, or a duplicate.
    Malformed,
    /// The `state` is different.
    StateMismatch,
}

/// Parses a query. Nothing in it is trusted unless its `state` is the expected one (CSRF).
pub(super) fn parse_response(
    query: &str,
    state: &str,
) -> Result<AuthorizationResponse, ResponseMismatch> {
    if query.len() > MAX_QUERY_BYTES || state.is_empty() {
        return Err(ResponseMismatch::Malformed);
    }
    let parts: Vec<_> = form_urlencoded::parse(query.as_bytes()).take(MAX_PARAMETERS + 1).collect();
    if parts.len() > MAX_PARAMETERS {
        return Err(ResponseMismatch::Malformed);
    }
    // Duplicates are ambiguous.
    let unique = |name: &str| {
        let mut found = parts.iter().filter(|(known, _)| known == name).map(|(_, value)| value);
        match (found.next(), found.next()) {
            (found, None) => Ok(found),
            _ => Err(ResponseMismatch::Malformed),
        }
    };
    if !unique("state")?.is_some_and(|given| constant_time_eq(given.as_bytes(), state.as_bytes())) {
        return Err(ResponseMismatch::StateMismatch);
    }
    unique("iss")?;
    match (unique("code")?, unique("error")?) {
        (Some(code), None) if !code.is_empty() => {
            Ok(AuthorizationResponse { query: query.to_owned(), is_error: false })
        }
        (None, Some(_)) => Ok(AuthorizationResponse { query: query.to_owned(), is_error: true }),
        _ => Err(ResponseMismatch::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_validated_first() {
        for query in ["code=c", "code=c&state=", "code=c&state=other", "error=access_denied", ""] {
            assert_eq!(
                parse_response(query, "mine"),
                Err(ResponseMismatch::StateMismatch),
                "{query}"
            );
        }
        assert_eq!(parse_response("code=c&state=", ""), Err(ResponseMismatch::Malformed));
        let answer =
            parse_response("code=c%20d&state=mi%6ee&iss=https%3A%2F%2Fas", "mine").unwrap();
        assert!(!answer.is_error && answer.query.contains("code=c%20d"));
        assert!(!format!("{answer:?}").contains("c%20d"));
        assert!(parse_response("error=access_denied&state=mine", "mine").unwrap().is_error);
    }

    #[test]
    fn ambiguous_responses_are_rejected() {
        for query in [
            "state=mine",
            "state=mine&code=",
            "state=mine&code=a&code=b",
            "state=mine&code=a&error=b",
            "state=mine&state=mine&code=a",
            "state=mine&state=other&code=a",
            "state=mine&code=a&iss=x&iss=y",
        ] {
            assert_eq!(parse_response(query, "mine"), Err(ResponseMismatch::Malformed), "{query}");
        }
        let long = format!("state=mine&code={}", "a".repeat(MAX_QUERY_BYTES));
        assert_eq!(parse_response(&long, "mine"), Err(ResponseMismatch::Malformed));
        let many = format!("state=mine&code=a{}", "&x=1".repeat(MAX_PARAMETERS));
        assert_eq!(parse_response(&many, "mine"), Err(ResponseMismatch::Malformed));
    }
}
