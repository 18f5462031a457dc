//! What the proxy keeps, and for how long.

use std::{
    collections::BTreeSet,
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::proxy::store::StoredRecord;

/// How long a person may take to answer, and then to sign in.
pub(super) const SIGN_IN_TTL: Duration = Duration::from_secs(600);
/// How long a code is good for.
pub(super) const CODE_TTL: Duration = Duration::from_secs(60);
/// How long a code that was redeemed is remembered, to notice who redeems it again.
pub(super) const REDEEMED_CODE_TTL: Duration = Duration::from_secs(600);
/// How long a registration is kept that nobody has used yet.
pub(super) const UNUSED_CLIENT_TTL: Duration = Duration::from_secs(24 * 3600);

/// A client that registered.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct ClientRecord {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) redirects: Vec<String>,
    /// A digest of its secret; none for a public client.
    pub(super) secret: Option<String>,
    /// Whether anybody was let in with it.
    pub(super) used: bool,
    /// Whether that was more than one user.
    #[serde(default)]
    pub(super) shared: bool,
    /// The newest grant that is known to have come of it.
    #[serde(default)]
    pub(super) grant: Option<String>,
}

impl ClientRecord {
    /// A client without a secret that did not register here.
    pub(super) fn known(id: String, name: String, redirects: Vec<String>) -> Self {
        ClientRecord { id, name, redirects, secret: None, used: true, shared: false, grant: None }
    }
}

/// What a client asks for.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct AuthorizationParams {
    pub(super) client: String,
    pub(super) redirect: String,
    pub(super) state: Option<String>,
    pub(super) challenge: String,
    pub(super) scopes: BTreeSet<String>,
}

/// What the consent page carries, sealed.
#[derive(Serialize, Deserialize)]
pub(super) struct ConsentTicket {
    pub(super) asked: AuthorizationParams,
    pub(super) number: String,
    pub(super) until: u64,
}

/// A user who agreed and is signing in upstream; named by the `state` that comes back.
#[derive(Serialize, Deserialize)]
pub(super) struct PendingSignIn {
    pub(super) asked: AuthorizationParams,
    /// A digest of what only the browser has that agreed.
    pub(super) browser: String,
    pub(super) verifier: String,
    pub(super) nonce: String,
}

/// A code that the client has not redeemed yet, or just did.
#[derive(Serialize, Deserialize)]
pub(super) struct CodeRecord {
    pub(super) asked: AuthorizationParams,
    /// What it is good for; gone once it was redeemed.
    pub(super) good: Option<(Identity, UpstreamTokens)>,
    /// The grant that it became.
    pub(super) grant: Option<String>,
}

/// A user who let a client in, until it ends or is revoked.
#[derive(Serialize, Deserialize)]
pub(super) struct GrantRecord {
    pub(super) client: String,
    pub(super) resource: String,
    pub(super) scopes: BTreeSet<String>,
    pub(super) who: Identity,
    pub(super) upstream: UpstreamTokens,
    /// Digests: of what all refresh tokens of this grant have in common, and of the newest.
    pub(super) family: String,
    pub(super) newest: String,
    pub(super) access: Vec<AccessRecord>,
    /// Until when somebody is fetching new upstream tokens.
    pub(super) refreshing: u64,
    /// When the provider last gave new upstream tokens.
    #[serde(default)]
    pub(super) asked: u64,
    /// When the user signed in. What was kept before that was noted counts from when it is looked at.
    #[serde(default = "now")]
    pub(super) since: u64,
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// An access token of ours, by its digest.
#[derive(Serialize, Deserialize)]
pub(super) struct AccessRecord {
    pub(super) digest: String,
    pub(super) until: u64,
    pub(super) scopes: BTreeSet<String>,
}

/// Tokens of the identity provider's.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct UpstreamTokens {
    pub(super) access: String,
    pub(super) refresh: Option<String>,
    /// When the access token ends, by the store's clock.
    pub(super) until: Option<u64>,
}

/// Who somebody is, as the identity provider says.
///
/// It is what [`OAuthProxy::grant`](crate::proxy::OAuthProxy::grant) decides by.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Identity {
    /// The provider's own name for the user, which never changes and is never given to another.
    pub subject: String,
    /// All that the provider says: the claims of an ID token, or what its userinfo URL answers.
    pub claims: Value,
}

impl Identity {
    /// A claim that is a text.
    #[must_use]
    pub fn claim(&self, name: &str) -> Option<&str> {
        self.claims.get(name)?.as_str()
    }

    /// The address of the user's mailbox, if the provider says that it was verified. One that says nothing of the kind
    /// (Entra is one) may let users write any address they like, so that it is no name to grant anything by:
    /// [`claim`](Identity::claim) gives it as it stands.
    #[must_use]
    pub fn email(&self) -> Option<&str> {
        let verified = match self.claims.get("email_verified") {
            Some(Value::Bool(verified)) => *verified,
            // Some write it as a text. Whatever else they may mean, it is not this.
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
