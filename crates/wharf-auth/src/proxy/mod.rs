//! An authorization server of one's own, in front of an identity provider that registers nobody by
//! itself.
//!
//! MCP clients register by themselves; GitHub, Google, Entra ID and most others do not let them.
//! [`OAuthProxy`] stands between: clients see an authorization server that registers them, asks people
//! for their consent, and gives out tokens of its own. The identity provider sees one client, which was
//! registered there by hand, and says who it is that signs in.
//!
//! What the provider gives is never given to clients. It is kept, sealed, and handlers may use it to act
//! for the user at the provider: see [`Upstream`].

mod authorize;
mod callback;
mod clients;
mod consent_page;
mod cookie;
mod form;
mod idp;
mod metadata;
mod provider;
mod records;
mod redirect;
mod routes;
mod store;
mod token;
mod upstream_token;

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use wharf_model::{
    AuthDecision, AuthRejection, AuthRequest, AuthResult, Authenticated, Authenticator, BoxFuture,
    Error, Principal, Sharing, StateCipher, Stores,
};

pub use self::provider::Provider;
use crate::proxy::{metadata::ProxyUrls, records::ClientRecord, routes::ProxyState};
pub use crate::proxy::{
    records::Identity,
    upstream_token::{AccessToken, Upstream},
};
use crate::{
    fetch::Fetch,
    server::{ChallengeBuilder, PresentedToken, AuthScheme, presented_token},
};

/// Decides what somebody may do, of what a client asks for.
type GrantDecision = dyn Fn(&Identity, &BTreeSet<String>) -> Option<BTreeSet<String>> + Send + Sync;

/// An authorization server in front of an identity provider that registers nobody by itself.
///
/// Give it to the server, and let the provider send browsers back to `PUBLIC-URL/callback`:
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
/// Handlers take who it is as `Principal`, and what to act with at the provider as
/// `Extension<`[`Upstream`]`>`.
///
/// # What it does
///
/// - Clients register (RFC 7591), or publish a document about themselves at the URL that is their id.
///   Where they want to be answered must be https, or http on loopback, and is compared byte for byte
///   (the port on loopback excepted).
/// - People are asked for each client anew, on a page that no other page can frame, fill in or send.
///   Only then does the browser go on to the provider, and only that browser can come back.
/// - PKCE is used on both sides. States, codes and refresh tokens are good once; whoever uses a code or
///   a refresh token twice ends all that came of it.
/// - Tokens are random, and kept only by their digests. What is kept is sealed with the server's keys,
///   lies in its stores, and ends. Any process that shares both can serve any step.
pub struct OAuthProxy {
    public: String,
    resource: Option<String>,
    settings: ProxySettings,
    problem: Option<String>,
    shared: OnceLock<Arc<ProxyState>>,
}

/// All that can be said about a proxy besides where it is.
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
    /// What a client is granted that asks for nothing in particular.
    fn first_scopes(&self) -> BTreeSet<String> {
        self.first.clone().unwrap_or_else(|| self.scopes.clone())
    }

    /// What somebody is granted, of what a client asked for; none to let nobody in.
    fn granted(&self, who: &Identity, asked: &BTreeSet<String>) -> Option<BTreeSet<String>> {
        let Some(decide) = &self.decide else { return Some(asked.clone()) };
        // Nobody gets more than the page has shown.
        decide(who, asked).map(|granted| granted.intersection(asked).cloned().collect())
    }
}

impl OAuthProxy {
    /// A proxy at this public URL, which clients reach by https, in front of `provider`. Tokens are for
    /// the endpoint `/mcp` there, unless [told](OAuthProxy::resource) otherwise.
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

    /// The URL of the endpoint that tokens are for, if it is not `/mcp` at the public URL.
    #[must_use]
    pub fn resource(mut self, url: impl Into<String>) -> Self {
        self.resource = Some(url.into());
        self
    }

    /// The scopes that there are here: those which tools, resources and prompts ask for. They are this
    /// server's own; what to ask the provider for is said by [`Provider::scopes`].
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.settings.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// The scopes of a client that asks for none; without it, all that there are. Clients ask for
    /// others when they need them.
    #[must_use]
    pub fn first_scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.settings.first = Some(scopes.into_iter().map(Into::into).collect());
        self
    }

    /// Decides who is let in, and with which of the scopes that a client asked for; `None` keeps
    /// somebody out. Without it, everybody is let in who can sign in at the provider, **which may be
    /// the whole world**.
    ///
    /// It is asked when somebody signs in, and whenever tokens are renewed.
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

    /// Lets clients be answered by URLs with this scheme, which an application on the user's machine
    /// has registered with the system there: better one with a dot, such as `com.example.app`, which
    /// nobody else takes by accident.
    #[must_use]
    pub fn redirect_scheme(mut self, scheme: impl Into<String>) -> Self {
        let scheme = scheme.into();
        if !redirect::is_possible_scheme(&scheme) {
            let what = format!("{scheme:?} cannot be the scheme of an application's own URLs");
            self.problem.get_or_insert(what);
        }
        self.settings.schemes.push(scheme);
        self
    }

    /// A client that is known beforehand, and has no secret.
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

    /// How long an access token is good: an hour, unless told otherwise.
    #[must_use]
    pub fn access_ttl(mut self, ttl: Duration) -> Self {
        self.settings.access_ttl = ttl;
        self
    }

    /// How long a client stays in that does not renew its tokens: 30 days, unless told otherwise.
    #[must_use]
    pub fn refresh_ttl(mut self, ttl: Duration) -> Self {
        self.settings.refresh_ttl = ttl;
        self
    }

    /// How long a client stays in at most, however often it renews its tokens: 90 days, unless told otherwise. Then the
    /// user must sign in again.
    #[must_use]
    pub fn grant_ttl(mut self, ttl: Duration) -> Self {
        self.settings.grant_ttl = ttl;
        self
    }

    /// How the provider is reached: [`Fetch::allow_private`] is for one inside a company's network.
    #[must_use]
    pub fn fetch(mut self, fetch: Fetch) -> Self {
        self.settings.fetch = fetch;
        self
    }

    /// How documents are fetched that clients publish about themselves: from public addresses only,
    /// unless told otherwise; `None` for not at all. Their URLs are anybody's choice.
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
                redirect::check(uri, &self.settings.schemes)
                    .map_err(|why| format!("the redirect URI {uri:?} of a client: {why}"))?;
            }
        }
        let public = self.public.trim_end_matches('/');
        match &self.resource {
            Some(resource) => ProxyUrls::new(public, resource),
            None => ProxyUrls::new(public, &format!("{public}/mcp")),
        }
    }

    /// The challenge for who needs a token, or another one.
    fn challenge(&self, error: Option<(&str, &str)>, scopes: &[&str]) -> HeaderValue {
        let mut challenge = ChallengeBuilder::new("Bearer");
        if let Some((error, what)) = error {
            challenge = challenge.with("error", error).with("error_description", what);
        }
        let metadata = self.shared.get().map(|shared| shared.urls.resource_metadata());
        let challenge = challenge.scopes(scopes.iter().copied());
        challenge.with_optional("resource_metadata", metadata.as_deref()).header()
    }

    /// Somebody who shows no token that is good, and why that is so.
    fn rejection(&self, error: Option<(&str, &'static str)>) -> AuthRejection {
        let (status, what) = match error {
            Some(("invalid_request", what)) => (400, what),
            Some((_, what)) => (401, what),
            None => (401, "A token is needed: get one where resource_metadata says"),
        };
        let first = self.settings.first_scopes();
        let first: Vec<_> = first.iter().map(String::as_str).collect();
        AuthRejection::new(status, what).challenge(self.challenge(error, &first))
    }
}

/// What to tell who shows a token that is none.
const UNKNOWN: (&str, &str) = ("invalid_token", "The token is not known here, or has ended");

impl Authenticator for OAuthProxy {
    fn admit(&self, request: &AuthRequest<'_>) -> AuthDecision {
        let Some(shared) = self.shared.get() else {
            return AuthDecision::Now(Err(AuthRejection::new(
                503,
                "The OAuth proxy has no store yet",
            )));
        };
        let token = match presented_token(request) {
            Ok(Some(PresentedToken { scheme: AuthScheme::Bearer, token })) => token.to_owned(),
            Ok(Some(_)) => return AuthDecision::Now(Err(self.rejection(Some(UNKNOWN)))),
            Ok(None) => return AuthDecision::Now(Err(self.rejection(None))),
            Err(what) => {
                return AuthDecision::Now(Err(self.rejection(Some(("invalid_request", what)))));
            }
        };
        let (shared, rejection) = (shared.clone(), self.rejection(Some(UNKNOWN)));
        AuthDecision::Later(Box::pin(async move { authenticate(shared, &token, rejection).await }))
    }

    fn denied(&self, error: &Error, _request: &AuthRequest<'_>, who: &Principal) -> Vec<HeaderValue> {
        let what = "More is needed for this than was granted";
        // With what there is already: not every client asks for that again by itself.
        let scopes: Vec<_> = who.scopes().chain(error.required_scopes()).collect();
        vec![match error.kind.is_insufficient_scope() {
            true => self.challenge(Some(("insufficient_scope", what)), &scopes),
            false => self.challenge(None, &[]),
        }]
    }

    fn problems(&self) -> Vec<String> {
        self.urls().err().into_iter().collect()
    }

    fn origin(&self) -> Option<String> {
        self.urls().ok().map(|urls| urls.origin)
    }

    fn paths(&self) -> Vec<String> {
        self.urls().map(|urls| urls.paths()).unwrap_or_default()
    }

    fn page(&self, request: Request<Bytes>) -> BoxFuture<Response<Bytes>> {
        match self.shared.get() {
            Some(shared) => Box::pin(shared.clone().serve(request)),
            None => {
                let what = "The OAuth proxy has no store yet.";
                let answer = consent_page::error_page(StatusCode::SERVICE_UNAVAILABLE, what, None);
                Box::pin(std::future::ready(answer))
            }
        }
    }

    fn settle(&self, stores: &Stores, seal: Arc<dyn StateCipher>) -> Result<(), String> {
        let urls = self.urls()?;
        if stores.reach > Sharing::Process && !seal.is_shared() {
            return Err(
                "what the OAuth proxy keeps outlives this process, and its key would not: set \
                 `WHARF_STATE_KEY` (`openssl rand -base64 32` makes one), or give the server its \
                 keys with `.seal(…)`"
                    .into(),
            );
        }
        self.shared.get_or_init(|| Arc::new(ProxyState::new(urls, self.settings.clone(), stores, seal)));
        Ok(())
    }
}

async fn authenticate(shared: Arc<ProxyState>, token: &str, rejection: AuthRejection) -> AuthResult {
    let found = shared.find_access_token(token).await.map_err(|error| {
        tracing::warn!(%error, "the OAuth proxy cannot reach what it keeps");
        AuthRejection::new(503, "Tokens cannot be checked at the moment: try again later")
    })?;
    let Some((kept, access)) = found else { return Err(rejection) };
    let grant = kept.value;
    let id = format!("{} {}", shared.idp.provider.realm(), grant.who.subject);
    let mut principal = Principal::new(id);
    for scope in access.scopes {
        principal = principal.with_scope(scope);
    }
    let until = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(access.until));
    let mut pass = Authenticated::new(principal);
    pass.until = until;
    if let Some((name, _)) = token::access_parts(token) {
        pass.extensions.insert(Upstream::new(shared, name, grant));
    }
    Ok(pass)
}

impl fmt::Debug for OAuthProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut it = f.debug_struct("OAuthProxy");
        it.field("public", &self.public).field("provider", &self.settings.provider);
        it.field("scopes", &self.settings.scopes).finish_non_exhaustive()
    }
}
