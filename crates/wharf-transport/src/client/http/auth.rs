//! Attaches credentials to requests, and handles 401 and 403 responses.

use http::{
    HeaderMap, HeaderName, HeaderValue, Method as Verb, StatusCode, header::WWW_AUTHENTICATE,
};
use wharf_model::{AuthFailure, Error, ErrorKind, FailureOrigin, Outbox};

use crate::client::ClientTransportOptions;
use crate::client::http::response::ServerResponse;

/// Maximum number of times that one message is sent again after a 401 or 403, whatever the credentials provider
/// returns. The header of `wharf-client/src/call/mod.rs` has a table of all retries.
pub(crate) const MAX_AUTH_RETRIES: u32 = 5;

const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");
/// Maximum number of `WWW-Authenticate` challenges of one response that are read, and the maximum
/// length of each.
const MAX_CHALLENGES: usize = 16;
const MAX_CHALLENGE_BYTES: usize = 8 << 10;

/// A response, and the mark of the credentials that its request carried.
pub(super) struct AuthAttempt {
    pub(super) response: ServerResponse,
    pub(super) mark: u64,
}

/// The party that waits for the response, and may have to log in for it.
#[derive(Clone, Copy)]
pub(super) enum AuthWait<'a> {
    Background,
    Interactive,
    /// The caller of this call, whose deadline is paused.
    Call(&'a Outbox),
}

/// Sets the credential headers of a request, replacing those of the same name.
pub(crate) async fn attach_credentials(
    options: &ClientTransportOptions,
    verb: &Verb,
    url: &str,
    headers: &mut HeaderMap,
) -> Result<u64, Error> {
    let Some(credentials) = &options.credentials else { return Ok(0) };
    let pass = credentials.attach(verb.as_str(), url).await.map_err(unauthorized)?;
    for (name, value) in pass.headers {
        let mut value = HeaderValue::from_str(&value).map_err(|_| {
            let problem = format!("The credentials contain an invalid value for the header {name}");
            unauthorized(Error::new(ErrorKind::InvalidCredentials).with_message(problem))
        })?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(pass.mark)
}

/// Reports the status and the DPoP nonce of a response to the credentials provider.
pub(crate) fn report_response(
    options: &ClientTransportOptions,
    mark: u64,
    status: StatusCode,
    headers: &HeaderMap,
) {
    if let Some(credentials) = &options.credentials {
        let nonce = headers.get(DPOP_NONCE).and_then(|it| it.to_str().ok());
        credentials.on_response(mark, status.as_u16(), nonce);
    }
}

/// Returns whether to send the request again after this response. Background requests do not start
/// a login.
pub(super) async fn should_retry(
    options: &ClientTransportOptions,
    verb: &Verb,
    attempt: &AuthAttempt,
    times: u32,
    wait: AuthWait<'_>,
) -> Result<bool, Error> {
    let (mark, response) = (attempt.mark, &attempt.response);
    match auth_failure(verb, response.status, &response.headers, mark, times) {
        Some(mut auth_failure) => {
            auth_failure.waited = !matches!(wait, AuthWait::Background);
            // The time that a login takes does not count against the server.
            let _paused = match wait {
                AuthWait::Call(outbox) => Some(outbox.pause()),
                AuthWait::Background | AuthWait::Interactive => None,
            };
            handle_auth_failure(options, auth_failure).await
        }
        None => Ok(false),
    }
}

/// Passes a rejection to the credentials provider; returns whether to retry.
pub(crate) async fn handle_auth_failure(
    options: &ClientTransportOptions,
    auth_failure: AuthFailure,
) -> Result<bool, Error> {
    let Some(credentials) = &options.credentials else { return Ok(false) };
    if auth_failure.times >= MAX_AUTH_RETRIES {
        return Ok(false);
    }
    options.note(format_args!("rejected with {}: trying to authorize", auth_failure.status));
    credentials.on_auth_failure(auth_failure).await.map_err(unauthorized)
}

/// Error of the credentials provider.
pub(crate) fn unauthorized(error: Error) -> Error {
    error.from_client(FailureOrigin::Authorization)
}

/// Describes a 401 or 403 response; `None` for any other status.
pub(crate) fn auth_failure(
    verb: &Verb,
    status: StatusCode,
    headers: &HeaderMap,
    mark: u64,
    times: u32,
) -> Option<AuthFailure> {
    if !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return None;
    }
    let mut auth_failure = AuthFailure::new(verb.as_str(), status.as_u16(), mark);
    let said = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|it| it.to_str().ok());
    let said = said.filter(|it| it.len() <= MAX_CHALLENGE_BYTES).take(MAX_CHALLENGES);
    auth_failure.challenges = said.map(str::to_owned).collect();
    auth_failure.times = times;
    Some(auth_failure)
}
