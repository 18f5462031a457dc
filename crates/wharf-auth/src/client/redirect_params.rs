//! Parameters of the redirect (the authorization response), and the check of its `state` (CSRF) and `iss` (RFC 9207).

use std::fmt;

use url::form_urlencoded;
use wharf_model::{Error, ErrorKind, excerpt};

use crate::client::{auth_server_metadata::AuthServerMetadata, failed, token_endpoint::sanitized};
use crate::jose::constant_time_eq;

/// Parameters of the redirect, not validated yet.
///
/// ```
/// use wharf_auth::client::RedirectParams;
///
/// let callback = RedirectParams::from_query("code=7&state=abc");
/// assert_eq!(callback.get("code"), Some("7"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct RedirectParams(Vec<(String, String)>);

impl RedirectParams {
    /// Parses the query of the redirect, with or without its `?`.
    #[must_use]
    pub fn from_query(query: &str) -> RedirectParams {
        let query = query.strip_prefix('?').unwrap_or(query);
        RedirectParams(form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// Parses the query of the redirect's URL.
    #[must_use]
    pub fn from_url(url: &str) -> RedirectParams {
        let url = url.split('#').next().unwrap_or_default();
        RedirectParams::from_query(url.split_once('?').map_or("", |(_, query)| query))
    }

    /// Value of a parameter; none if it is missing or duplicated.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut found = self.0.iter().filter(|(it, _)| it == name);
        match (found.next(), found.next()) {
            (Some((_, value)), None) => Some(value),
            _ => None,
        }
    }

    /// Returns true if the parameter is present.
    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(it, _)| it == name)
    }
}

/// Shows names only: a code is a secret.
impl fmt::Debug for RedirectParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// Returns the code if `state` and `iss` match. Nothing else in the response is trusted or shown before.
pub(super) fn validated_code(
    callback: &RedirectParams,
    state: &str,
    auth_server: &AuthServerMetadata,
) -> Result<String, Error> {
    let received = callback.get("state").unwrap_or_default();
    if !constant_time_eq(received.as_bytes(), state.as_bytes()) {
        return Err(failed(
            "the authorization response does not belong to this request (`state` differs); try again"
                .into(),
        ));
    }
    // RFC 9207: exact comparison.
    let is_from_issuer = match callback.get("iss") {
        Some(iss) => iss == auth_server.issuer,
        None => !callback.has("iss") && !auth_server.authorization_response_iss_parameter_supported,
    };
    if !is_from_issuer {
        return Err(failed(format!(
            "the authorization response is not from {:?} (`iss`): it was not used",
            excerpt(&auth_server.issuer)
        )));
    }
    if let Some(error) = callback.get("error") {
        let why = callback.get("error_description");
        let why = why.map_or(String::new(), |it| format!(" ({})", sanitized(it)));
        let problem = format!("The authorization server refused: {}{why}", sanitized(error));
        let kind = match error {
            "access_denied" => ErrorKind::AccessDenied,
            _ => ErrorKind::AuthorizationFailed,
        };
        return Err(Error::new(kind).with_message(problem));
    }
    match callback.get("code") {
        Some(code) if !code.is_empty() => Ok(code.to_owned()),
        _ => Err(failed("the authorization server returned no code; try again".into())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn authorization_responses_are_validated() {
        let issuer = "https://id.example";
        let cases = [
            // Metadata promises `iss`, response parameters, expected result.
            (true, "code=c&state=s&iss=https%3A%2F%2Fid.example", true),
            (true, "code=c&state=s", false),
            (true, "code=c&state=s&iss=https%3A%2F%2Fid.example%2F", false),
            (true, "code=c&state=s&iss=https%3A%2F%2FID.example", false),
            (true, "code=c&state=s&iss=https%3A%2F%2Fid.example:443", false),
            (true, "code=c&state=s&iss=https://id.example&iss=https://id.example", false),
            (false, "code=c&state=s", true),
            (false, "code=c&state=s&iss=https%3A%2F%2Fid.example", true),
            (false, "code=c&state=s&iss=https%3A%2F%2Fevil.example", false),
            (false, "code=c&state=s&iss=", false),
            (false, "code=c&state=s&iss=a&iss=b", false),
            (false, "code=c&state=t", false),
            (false, "code=c", false),
            (false, "code=c&state=s&state=s", false),
            (false, "code=&state=s", false),
            (false, "state=s", false),
            (false, "", false),
        ];
        for (promised, query, good) in cases {
            let auth_server = AuthServerMetadata {
                issuer: issuer.into(),
                authorization_response_iss_parameter_supported: promised,
                ..AuthServerMetadata::default()
            };
            let got = validated_code(&RedirectParams::from_query(query), "s", &auth_server);
            assert_eq!(got.is_ok(), good, "{promised} {query}: {got:?}");
        }
    }

    #[test]
    fn errors_of_unvalidated_responses_are_not_shown() {
        let auth_server = AuthServerMetadata {
            issuer: "https://id.example".into(),
            ..AuthServerMetadata::default()
        };
        let said = "error=access_denied&error_description=call+0900&state=s";
        for (query, is_shown) in [
            (said.to_owned(), true),
            (format!("{said}&iss=https://evil.example"), false),
            (said.replace("state=s", "state=x"), false),
        ] {
            let error =
                validated_code(&RedirectParams::from_query(&query), "s", &auth_server).unwrap_err();
            assert_eq!(error.message.contains("0900"), is_shown, "{query}: {error}");
            assert_eq!(error.message.contains("access_denied"), is_shown, "{query}: {error}");
        }
    }
}
