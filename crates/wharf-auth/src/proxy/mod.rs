//! OAuth proxy: an authorization server in front of an identity provider without dynamic client
//! registration.
//!
//! MCP clients register dynamically; GitHub, Google, Entra ID and most others do not support that.
//! [`OAuthProxy`] is an authorization server that registers clients, asks users for consent and issues
//! tokens of its own. The identity provider sees one client, which was registered by hand, and
//! authenticates the users.
//!
//! The provider's tokens are never passed to clients (no token passthrough). They are stored encrypted, and
//! handlers may use them to act for the user: see [`Upstream`].

mod authenticate;
mod authorize;
mod callback;
mod client_id_documents;
mod clients;
mod consent;
mod consent_page;
mod cookie;
mod form;
mod id_token;
mod idp;
mod metadata;
mod provider_settings;
mod records;
mod redirect_uri;
mod registration;
mod revocation;
mod routes;
mod sign_in;
mod store;
mod token_endpoint;
mod upstream_token;

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use http::HeaderValue;
use wharf_model::AuthRejection;

pub use self::provider_settings::Provider;
use crate::proxy::{metadata::ProxyUrls, records::ClientRecord, routes::ProxyState};
pub use crate::proxy::{
    records::Identity,
    upstream_token::{AccessToken, Upstream},
};
use crate::{fetch::Fetch, server::ChallengeBuilder};

/// Decides which of the requested scopes a user is granted.
type GrantDecision = dyn Fn(&Identity, &BTreeSet<String>) -> Option<BTreeSet<String>> + Send + Sync;

/// Authorization server in front of an identity provider without dynamic client registration.
///
/// Pass it to the server, and register `PUBLIC-URL/callback` as redirect URI at the provider:
///
/// ```
/// # struct Server;
/// # impl Server {
/// #     fn new(_: &str, _: &str) -> Self { Server }
/// #     fn auth(self, _: impl wharf_model::Authenticator) -> Self { self }
/// # }
/// use wharf_auth::proxy::{OAuthProxy, Provider};
///
/// let github = Provider::github("Iv1.8a61f9b3a7aba766", "the secret");
/// let proxy = OAuthProxy::new("https://harbour.example.com", github)
///     .scopes(["files:read", "files:write"])
///     .grant(|who, asked| (who.claim("login") == Some("octocat")).then(|| asked.clone()));
/// let server = Server::new("harbour", "1.0.0").auth(proxy);
/// # let _ = server;
/// ```
///
/// Handlers take the user as `Principal`, and the user's token at the provider as
/// `Extension<`[`Upstream`]`>`.
///
/// # Behaviour
///
/// - Clients register dynamically (RFC 7591), or publish a client ID metadata document at the URL that is
///   their id. Redirect URIs must be https, or http on loopback, and are compared exactly (except for the
///   port on loopback).
/// - Users consent to each client separately, on a page that other sites can neither embed (clickjacking) nor
///   submit (CSRF). Only then is the browser redirected to the provider, and only that browser can complete the sign-in.
/// - PKCE is used on both sides. States, codes and refresh tokens are valid once; reuse of a code or a
///   refresh token revokes the grant (refresh token rotation).
/// - Tokens are random, and stored as digests. Records are encrypted with the server's keys, kept in its
///   stores, and expire. All processes that share both can serve every step.
pub struct OAuthProxy {
    public: String,
    resource: Option<String>,
    settings: ProxySettings,
    problem: Option<String>,
    shared: OnceLock<Arc<ProxyState>>,
}

/// Settings of a proxy beside its URLs.
#[derive(Clone)]
struct ProxySettings {
    provider: Provider,
    fetch: Fetch,
    documents: Option<Fetch>,
    scopes: BTreeSet<String>,
    first: Option<BTreeSet<String>>,
    schemes: Vec<String>,
    clients: Vec<ClientRecord>,
    access_ttl: Duration,
    refresh_ttl: Duration,
    grant_ttl: Duration,
    decide: Option<Arc<GrantDecision>>,
}

impl ProxySettings {
    /// Scopes of a client that requests none.
    fn first_scopes(&self) -> BTreeSet<String> {
        self.first.clone().unwrap_or_else(|| self.scopes.clone())
    }

    /// Scopes that a user is granted, of those requested; none denies access.
    fn granted(&self, who: &Identity, asked: &BTreeSet<String>) -> Option<BTreeSet<String>> {
        let Some(decide) = &self.decide else { return Some(asked.clone()) };
        // Never more than the consent page has shown.
        decide(who, asked).map(|granted| granted.intersection(asked).cloned().collect())
    }
}

impl OAuthProxy {
    /// A proxy at this public `https` URL in front of `provider`. Tokens are for the endpoint `/mcp` below
    /// it, unless [`resource`](OAuthProxy::resource) sets another.
    #[must_use]
    pub fn new(public: impl Into<String>, provider: Provider) -> Self {
        let settings = ProxySettings {
            provider,
            fetch: Fetch::new(),
            documents: Some(Fetch::new().public_only()),
            scopes: BTreeSet::new(),
            first: None,
            schemes: Vec::new(),
            clients: Vec::new(),
            access_ttl: Duration::from_secs(3600),
            refresh_ttl: Duration::from_secs(30 * 24 * 3600),
            grant_ttl: Duration::from_secs(90 * 24 * 3600),
            decide: None,
        };
        let (public, shared) = (public.into(), OnceLock::new());
        OAuthProxy { public, resource: None, settings, problem: None, shared }
    }

    /// Sets the URL of the endpoint that tokens are for, instead of `/mcp` below the public URL.
    #[must_use]
    pub fn resource(mut self, url: impl Into<String>) -> Self {
        self.resource = Some(url.into());
        self
    }

    /// Sets the supported scopes: those that tools, resources and prompts require. They are this server's
    /// own; [`Provider::scopes`] sets the scopes at the provider.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.settings.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the scopes of a client that requests none: all by default. Clients request others when they
    /// need them (step-up authorization).
    #[must_use]
    pub fn first_scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.settings.first = Some(scopes.into_iter().map(Into::into).collect());
        self
    }

    /// Decides about access, and about the granted scopes of those requested; `None` denies access. Without
    /// it, every user who can sign in at the provider gets access, **which may be the whole world**.
    ///
    /// Called at sign-in, and whenever tokens are refreshed.
    #[must_use]
    pub fn grant(
        mut self,
        decide: impl Fn(&Identity, &BTreeSet<String>) -> Option<BTreeSet<String>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.settings.decide = Some(Arc::new(decide));
        self
    }

    /// Allows redirect URIs with this custom scheme, which a native application has registered with the
    /// operating system. Prefer one with a dot, such as `com.example.app`, to avoid collisions.
    #[must_use]
    pub fn redirect_scheme(mut self, scheme: impl Into<String>) -> Self {
        let scheme = scheme.into();
        if !redirect_uri::is_possible_scheme(&scheme) {
            let what = format!("{scheme:?} is not allowed as a custom redirect scheme");
            self.problem.get_or_insert(what);
        }
        self.settings.schemes.push(scheme);
        self
    }

    /// Adds a public client that is known in advance.
    #[must_use]
    pub fn client<S: Into<String>>(
        mut self,
        id: impl Into<String>,
        name: impl Into<String>,
        redirects: impl IntoIterator<Item = S>,
    ) -> Self {
        let redirects = redirects.into_iter().map(Into::into).collect();
        let (id, name) = (id.into(), name.into());
        self.settings.clients.push(ClientRecord::known(id, name, redirects));
        self
    }

    /// Sets the lifetime of an access token: one hour by default.
    #[must_use]
    pub fn access_ttl(mut self, ttl: Duration) -> Self {
        self.settings.access_ttl = ttl;
        self
    }

    /// Sets the lifetime of a grant without a refresh: 30 days by default.
    #[must_use]
    pub fn refresh_ttl(mut self, ttl: Duration) -> Self {
        self.settings.refresh_ttl = ttl;
        self
    }

    /// Sets the maximum lifetime of a grant, however often it is refreshed: 90 days by default. Then the
    /// user must sign in again.
    #[must_use]
    pub fn grant_ttl(mut self, ttl: Duration) -> Self {
        self.settings.grant_ttl = ttl;
        self
    }

    /// Sets the HTTP client for the provider: [`Fetch::allow_private`] is for one inside a company's
    /// network.
    #[must_use]
    pub fn fetch(mut self, fetch: Fetch) -> Self {
        self.settings.fetch = fetch;
        self
    }

    /// Sets the HTTP client for client ID metadata documents: public addresses only by default; `None`
    /// disables them. Clients choose these URLs (SSRF).
    #[must_use]
    pub fn client_documents(mut self, fetch: impl Into<Option<Fetch>>) -> Self {
        self.settings.documents = fetch.into();
        self
    }

    fn urls(&self) -> Result<ProxyUrls, String> {
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        for client in &self.settings.clients {
            for uri in &client.redirects {
                redirect_uri::check(uri, &self.settings.schemes)
                    .map_err(|why| format!("the redirect URI {uri:?} of a client: {why}"))?;
            }
        }
        let public = self.public.trim_end_matches('/');
        match &self.resource {
            Some(resource) => ProxyUrls::new(public, resource),
            None => ProxyUrls::new(public, &format!("{public}/mcp")),
        }
    }

    /// Challenge for a request without a sufficient token.
    fn challenge(&self, error: Option<(&str, &str)>, scopes: &[&str]) -> HeaderValue {
        let mut challenge = ChallengeBuilder::new("Bearer");
        if let Some((error, what)) = error {
            challenge = challenge.with("error", error).with("error_description", what);
        }
        let metadata = self.shared.get().map(|shared| shared.urls.resource_metadata());
        let challenge = challenge.scopes(scopes.iter().copied());
        challenge.with_optional("resource_metadata", metadata.as_deref()).header()
    }

    /// Rejection of a request without a valid token.
    fn rejection(&self, error: Option<(&str, &'static str)>) -> AuthRejection {
        let (status, what) = match error {
            Some(("invalid_request", what)) => (400, what),
            Some((_, what)) => (401, what),
            None => (401, "A token is required: see resource_metadata"),
        };
        let first = self.settings.first_scopes();
        let first: Vec<_> = first.iter().map(String::as_str).collect();
        AuthRejection::new(status, what).challenge(self.challenge(error, &first))
    }
}

impl fmt::Debug for OAuthProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut it = f.debug_struct("OAuthProxy");
        it.field("public", &self.public).field("provider", &self.settings.provider);
        it.field("scopes", &self.settings.scopes).finish_non_exhaustive()
    }
}
