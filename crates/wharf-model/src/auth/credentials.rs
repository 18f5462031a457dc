//! Credentials provider of HTTP clients: authorization headers, and the reaction to 401 and 403.

use std::fmt;

use crate::{BoxFuture, Error};

/// Provides credentials for a server that requires authorization. The client transport calls it before every
/// request to the server's own origin, and after every authentication failure.
pub trait CredentialsProvider: Send + Sync + 'static {
    /// What to show with a request: `verb` and `url` are its own, without a query.
    fn attach(&self, verb: &str, url: &str) -> BoxFuture<Result<AuthHeaders, Error>>;

    /// A request was answered. `nonce` is what the server wants to see in the next proof.
    fn on_response(&self, mark: u64, status: u16, nonce: Option<&str>);

    /// A request was refused with 401 or 403: whether to send it once more. If not, the refusal is
    /// the answer; an error takes its place.
    fn on_auth_failure(&self, failure: AuthFailure) -> BoxFuture<Result<bool, Error>>;
}

/// Authorization headers of a request.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthHeaders {
    /// Headers and their values, which are secrets.
    pub headers: Vec<(&'static str, String)>,
    /// Tells one credential from the one that replaces it.
    pub mark: u64,
}

impl AuthHeaders {
    /// Shows `headers`, which belong to the credential `mark`.
    #[must_use]
    pub fn new(mark: u64, headers: Vec<(&'static str, String)>) -> AuthHeaders {
        AuthHeaders { headers, mark }
    }
}

/// Shows no values.
impl fmt::Debug for AuthHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.headers.iter().map(|(name, _)| name)).finish()
    }
}

/// Authentication failure of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthFailure {
    /// The request's verb.
    pub verb: String,
    /// The status: 401 or 403.
    pub status: u16,
    /// What the server wants, in the words of `WWW-Authenticate`.
    pub challenges: Vec<String>,
    /// The credential that was shown.
    pub mark: u64,
    /// How often this request was refused before.
    pub times: u32,
    /// Whether somebody waits for the answer, who may be asked for something.
    pub waited: bool,
}

impl AuthFailure {
    /// A request that was refused for the first time.
    pub fn new(verb: impl Into<String>, status: u16, mark: u64) -> AuthFailure {
        AuthFailure {
            verb: verb.into(),
            status,
            challenges: Vec::new(),
            mark,
            times: 0,
            waited: true,
        }
    }
}
