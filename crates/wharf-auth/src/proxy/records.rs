//! Stored records of the proxy and their lifetimes.

use std::{
    collections::BTreeSet,
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::proxy::store::StoredRecord;

/// Time for the consent, and again for the sign-in.
pub(super) const SIGN_IN_TTL: Duration = Duration::from_secs(600);
/// Lifetime of a code.
pub(super) const CODE_TTL: Duration = Duration::from_secs(60);
/// Time for which a redeemed code is remembered, to detect its reuse.
pub(super) const REDEEMED_CODE_TTL: Duration = Duration::from_secs(600);
/// Lifetime of a registration after its last use.
pub(super) const CLIENT_TTL: Duration = Duration::from_secs(90 * 24 * 3600);
/// Lifetime of a registration without use.
pub(super) const UNUSED_CLIENT_TTL: Duration = Duration::from_secs(24 * 3600);

/// A registered client.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct ClientRecord {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) redirects: Vec<String>,
    /// Digest of the secret; none for a public client.
    pub(super) secret: Option<String>,
    /// A user has signed in with it.
    pub(super) used: bool,
    /// More than one user has signed in with it.
    #[serde(default)]
    pub(super) shared: bool,
    /// Id of its newest grant.
    #[serde(default)]
    pub(super) grant: Option<String>,
}

impl ClientRecord {
    /// Creates a public client that did not register here.
    pub(super) fn known(id: String, name: String, redirects: Vec<String>) -> Self {
        ClientRecord { id, name, redirects, secret: None, used: true, shared: false, grant: None }
    }
}

/// Validated parameters of an authorization request.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct AuthorizationParams {
    pub(super) client: String,
    pub(super) redirect: String,
    pub(super) state: Option<String>,
    pub(super) challenge: String,
    pub(super) scopes: BTreeSet<String>,
}

/// Content of the consent page's encrypted ticket.
#[derive(Serialize, Deserialize)]
pub(super) struct ConsentTicket {
    pub(super) asked: AuthorizationParams,
    pub(super) number: String,
    pub(super) until: u64,
}

/// A sign-in in progress, named by its `state`.
#[derive(Serialize, Deserialize)]
pub(super) struct PendingSignIn {
    pub(super) asked: AuthorizationParams,
    /// Digest of the secret of the browser that consented.
    pub(super) browser: String,
    pub(super) verifier: String,
    pub(super) nonce: String,
}

/// A code, before and after its redemption.
#[derive(Serialize, Deserialize)]
pub(super) struct CodeRecord {
    pub(super) asked: AuthorizationParams,
    /// Its value; removed when the code is redeemed.
    pub(super) good: Option<(Identity, UpstreamTokens)>,
    /// Id of the grant that it became.
    pub(super) grant: Option<String>,
}

/// A grant of a user to a client, until it expires or is revoked.
#[derive(Serialize, Deserialize)]
pub(super) struct GrantRecord {
    pub(super) client: String,
    pub(super) resource: String,
    pub(super) scopes: BTreeSet<String>,
    pub(super) who: Identity,
    pub(super) upstream: UpstreamTokens,
    /// Digests of the refresh tokens' common part, and of the newest one (refresh token rotation).
    pub(super) family: String,
    pub(super) newest: String,
    pub(super) access: Vec<AccessRecord>,
    /// Lease of the process that refreshes the upstream tokens, until this time.
    pub(super) refreshing: u64,
    /// Time of the last refresh of the upstream tokens.
    #[serde(default)]
    pub(super) asked: u64,
    /// Time of the sign-in. Records of older versions count from when they are read.
    #[serde(default = "now")]
    pub(super) since: u64,
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// An access token, by its digest.
#[derive(Serialize, Deserialize)]
pub(super) struct AccessRecord {
    pub(super) digest: String,
    pub(super) until: u64,
    pub(super) scopes: BTreeSet<String>,
}

/// Tokens of the identity provider.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct UpstreamTokens {
    pub(super) access: String,
    pub(super) refresh: Option<String>,
    /// Expiry of the access token, by the store's clock.
    pub(super) until: Option<u64>,
}

/// Identity of a user at the identity provider.
///
/// Input of [`OAuthProxy::grant`](crate::proxy::OAuthProxy::grant).
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Identity {
    /// The user's permanent identifier at the provider, never reassigned.
    pub subject: String,
    /// All claims: those of the ID token, or the userinfo response.
    pub claims: Value,
}

impl Identity {
    /// Returns a claim that is a string.
    #[must_use]
    pub fn claim(&self, name: &str) -> Option<&str> {
        self.claims.get(name)?.as_str()
    }

    /// The email address, if the provider states that it is verified. Providers without that claim (such as
    /// Entra) may let users set any address, so it must not decide about access: [`claim`](Identity::claim)
    /// returns it unchecked.
    #[must_use]
    pub fn email(&self) -> Option<&str> {
        let verified = match self.claims.get("email_verified") {
            Some(Value::Bool(verified)) => *verified,
            // Some providers send a string. Any other value means not verified.
            said => said.and_then(Value::as_str) == Some("true"),
        };
        self.claim("email").filter(|_| verified)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("subject", &self.subject).finish_non_exhaustive()
    }
}

impl StoredRecord for ClientRecord {
    const KIND: &'static str = "client";
}

impl StoredRecord for PendingSignIn {
    const KIND: &'static str = "pending";
}

impl StoredRecord for CodeRecord {
    const KIND: &'static str = "code";
}

impl StoredRecord for GrantRecord {
    const KIND: &'static str = "grant";
}
