//! What a user says about how to get in.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use wharf_model::{BoxFuture, CredentialsProvider, Error};

use crate::client::{
    Assertion, Enterprise, Login, MemoryTokenStore, TokenStore, UserAgent,
    logout::log_out,
    metadata::AuthServerMetadata,
    scope,
    token_endpoint::{ClientIdentity, ClientAuthMethod},
    token_manager::TokenManager,
};
use crate::{fetch::Fetch, jose::SigningKey};

/// How a client gets in where a server wants to know who is calling.
///
/// A server that refuses says who lets in; the rest is done without further ado: finding the
/// authorization server and checking that it is the one, registering there if need be, asking the
/// person or proving who the program is, keeping tokens fresh, asking for more when a call needs
/// more. Credentials that one authorization server gave are never shown to another.
///
/// ```no_run
/// use wharf_auth::client::{Auth, UserAgent};
///
/// # fn example(browser: impl UserAgent) {
/// // A person is asked in a browser; this client registers itself where it can.
/// let auth = Auth::code(browser).name("Tug").scopes(["files:read"]);
///
/// // A program is let in by a secret, which only this issuer gets to see.
/// let auth = Auth::client_credentials("tug", "secret").issuer("https://id.example");
/// # }
/// ```
#[derive(Clone)]
pub struct Auth(AuthConfig);

/// What is known beforehand.
#[derive(Clone)]
pub(super) struct AuthConfig {
    pub(super) grant: GrantType,
    pub(super) client: Option<ConfiguredClient>,
    pub(super) issuer: Option<String>,
    /// Decides whether an issuer that the server names is shown the credentials.
    pub(super) confirm: Option<Arc<ConfirmIssuer>>,
    /// The issuer that credentials were shown to first, if none was named: no other gets them.
    pub(super) bound_issuer: Arc<OnceLock<String>>,
    pub(super) document: Option<String>,
    pub(super) name: String,
    pub(super) scopes: Option<Vec<String>>,
    pub(super) token_store: Arc<dyn TokenStore>,
    pub(super) dpop: bool,
    pub(super) interactive: bool,
    pub(super) fetch: Fetch,
}

/// Whether credentials may be shown to an issuer.
pub(super) type ConfirmIssuer = dyn Fn(String) -> BoxFuture<bool> + Send + Sync;

/// What a token is asked for with.
#[derive(Clone)]
pub(super) enum GrantType {
    Bearer(String),
    Code(Arc<dyn UserAgent>),
    ClientCredentials,
    Enterprise(Enterprise),
    Workload(Assertion),
}

/// Who we are to an authorization server that knows us.
#[derive(Clone)]
pub(super) struct ConfiguredClient {
    id: String,
    key: ClientKey,
}

#[derive(Clone)]
enum ClientKey {
    None,
    Secret(String),
    KeyPair(Arc<SigningKey>),
}

impl AuthConfig {
    /// Whether what is shown to an authorization server was given for one that we should know.
    pub(super) fn is_issuer_specific(&self) -> bool {
        self.client.is_some() || !matches!(self.grant, GrantType::Code(_) | GrantType::Bearer(_))
    }

    /// Whether somebody else could use what is shown.
    pub(super) fn sends_secrets(&self) -> bool {
        let has_key = self.client.as_ref().is_some_and(|it| !matches!(it.key, ClientKey::None));
        has_key || !matches!(self.grant, GrantType::Code(_) | GrantType::Bearer(_))
    }

    /// Whether a login was got in the way that is planned, by the client that we are.
    pub(super) fn matches(&self, login: &Login) -> bool {
        let id = login.registration.as_ref().map(|it| &it.client_id);
        let is_same = match (&self.client, id) {
            (Some(ours), Some(id)) => ours.id == *id,
            _ => true,
        };
        is_same && login.grant.as_deref() == self.grant.name()
    }
}

impl GrantType {
    /// What a login says that was got by it, if nobody was asked.
    pub(super) fn name(&self) -> Option<&'static str> {
        match self {
            GrantType::Bearer(_) | GrantType::Code(_) => None,
            GrantType::ClientCredentials => Some("client_credentials"),
            GrantType::Enterprise(_) => Some("enterprise"),
            GrantType::Workload(_) => Some("workload"),
        }
    }
}

impl ConfiguredClient {
    pub(super) fn identity(&self, auth_server: &AuthServerMetadata) -> ClientIdentity {
        match &self.key {
            ClientKey::None => ClientIdentity::public(&self.id),
            ClientKey::Secret(secret) => ClientIdentity::secret(&self.id, Some(secret), None, auth_server),
            ClientKey::KeyPair(key) => ClientIdentity::new(&self.id, ClientAuthMethod::PrivateKeyJwt(key.clone())),
        }
    }
}

impl Auth {
    fn new(grant: GrantType) -> Auth {
        Auth(AuthConfig {
            grant,
            client: None,
            issuer: None,
            confirm: None,
            bound_issuer: Arc::default(),
            document: None,
            name: "Wharf".into(),
            scopes: None,
            token_store: Arc::new(MemoryTokenStore::default()),
            dpop: false,
            interactive: true,
            fetch: Fetch::new(),
        })
    }

    /// Shows one token, which somebody got by other means. It is not replaced when it ends.
    pub fn bearer(token: impl Into<String>) -> Auth {
        Auth::new(GrantType::Bearer(token.into()))
    }

    /// Asks a person, who is sent to the authorization server by `visit`.
    pub fn code(visit: impl UserAgent) -> Auth {
        Auth::new(GrantType::Code(Arc::new(visit)))
    }

    /// Gets in as the program itself, by a secret that the authorization server gave it. Name that
    /// authorization server with [`Auth::issuer`]: without it nothing is sent and the attempt fails,
    /// because an MCP server could otherwise choose who gets the secret.
    ///
    /// ```
    /// use wharf_auth::client::Auth;
    ///
    /// let auth = Auth::client_credentials("tug", "secret").issuer("https://id.example");
    /// # let _ = auth;
    /// ```
    pub fn client_credentials(id: impl Into<String>, secret: impl Into<String>) -> Auth {
        Auth::new(GrantType::ClientCredentials).client_secret(id, secret)
    }

    /// Gets in as the program itself, by tokens that it signs with its own key. Needs an
    /// [issuer](Auth::issuer).
    pub fn client_credentials_key(id: impl Into<String>, key: SigningKey) -> Auth {
        Auth::new(GrantType::ClientCredentials).client_key(id, key)
    }

    /// Gets in as somebody who has signed in at a company's identity provider, which decides who may
    /// use which server. The server's own authorization server knows this client by
    /// [`Auth::client_secret`]. Needs an [issuer](Auth::issuer): that authorization server's.
    ///
    /// ```
    /// use wharf_auth::client::{Auth, Enterprise};
    ///
    /// let company = Enterprise::new("https://idp.example/token", "tug-at-idp", "eyJ…");
    /// let auth = Auth::enterprise(company)
    ///     .client_secret("tug", "secret")
    ///     .issuer("https://id.example");
    /// ```
    pub fn enterprise(company: Enterprise) -> Auth {
        Auth::new(GrantType::Enterprise(company))
    }

    /// Gets in as a program whose platform says what it is, in a token of its own. Needs an
    /// [issuer](Auth::issuer).
    pub fn workload(id: impl Into<String>, assertion: impl Into<Assertion>) -> Auth {
        Auth::new(GrantType::Workload(assertion.into())).client(id)
    }

    /// The authorization server knows this client by an id alone.
    #[must_use]
    pub fn client(self, id: impl Into<String>) -> Auth {
        self.with_client(id.into(), ClientKey::None)
    }

    /// The authorization server knows this client by an id and a secret. Needs an
    /// [issuer](Auth::issuer).
    #[must_use]
    pub fn client_secret(self, id: impl Into<String>, secret: impl Into<String>) -> Auth {
        self.with_client(id.into(), ClientKey::Secret(secret.into()))
    }

    /// The authorization server knows this client by an id and the public half of a key. Needs an
    /// [issuer](Auth::issuer).
    #[must_use]
    pub fn client_key(self, id: impl Into<String>, key: SigningKey) -> Auth {
        self.with_client(id.into(), ClientKey::KeyPair(Arc::new(key)))
    }

    fn with_client(mut self, id: String, key: ClientKey) -> Auth {
        self.0.client = Some(ConfiguredClient { id, key });
        // Other credentials may be for another issuer.
        self.0.bound_issuer = Arc::default();
        self
    }

    /// The only authorization server that is asked, and shown credentials, to the letter. A server
    /// that names others is refused. Required wherever a secret, a key or an assertion is given.
    #[must_use]
    pub fn issuer(mut self, issuer: impl Into<String>) -> Auth {
        self.0.issuer = Some(issuer.into());
        self
    }

    /// Where no [issuer](Auth::issuer) is given: asks `confirm` whether the secret, the key or the
    /// assertion may be shown to the authorization server that the MCP server names. Nothing is sent
    /// there before it has said `true`. The first one that was confirmed is the only one that ever
    /// gets them, however many servers this `Auth` and its clones are used for.
    ///
    /// Ask a person, or compare with a list. Whatever is confirmed without looking is decided by the
    /// MCP server.
    ///
    /// ```
    /// use wharf_auth::client::Auth;
    ///
    /// let ours = ["https://id.example", "https://id-eu.example"];
    /// let auth = Auth::client_credentials("tug", "secret")
    ///     .confirm_issuer(move |issuer| async move { ours.contains(&&*issuer) });
    /// # let _ = auth;
    /// ```
    #[must_use]
    pub fn confirm_issuer<F>(
        mut self,
        confirm: impl Fn(String) -> F + Send + Sync + 'static,
    ) -> Auth
    where
        F: Future<Output = bool> + Send + 'static,
    {
        self.0.confirm = Some(Arc::new(move |issuer| Box::pin(confirm(issuer))));
        self
    }

    /// Where this client publishes what it is: an `https` URL, which is its id wherever that is
    /// understood.
    #[must_use]
    pub fn client_document(mut self, url: impl Into<String>) -> Auth {
        self.0.document = Some(url.into());
        self
    }

    /// What this client is called where it registers.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Auth {
        self.0.name = name.into();
        self
    }

    /// The scopes to ask for in the beginning, beside those that a refusal names. Without them, what
    /// the server says that it needs.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Auth {
        let scopes = scopes.into_iter().map(Into::into).collect();
        self.0.scopes = Some(scope::union([scopes]));
        self
    }

    /// Where logins are kept: in memory if nothing is said.
    #[must_use]
    pub fn token_store(mut self, token_store: impl TokenStore) -> Auth {
        self.0.token_store = Arc::new(token_store);
        self
    }

    /// Binds tokens to a key of this client, so that nobody else can use them (DPoP), even where the
    /// server does not ask for it.
    #[must_use]
    pub fn dpop(mut self) -> Auth {
        self.0.dpop = true;
        self
    }

    /// Sends nobody anywhere: a login that is kept is used and renewed, and where that does not do,
    /// the server's refusal is the answer.
    #[must_use]
    pub fn unattended(mut self) -> Auth {
        self.0.interactive = false;
        self
    }

    /// Reaches authorization servers with `fetch`: with other roots, or in a private network.
    #[must_use]
    pub fn fetch(mut self, fetch: Fetch) -> Auth {
        self.0.fetch = fetch;
        self
    }

    /// The official extension of the protocol that says how this way in works, if one does: a client
    /// declares it.
    #[must_use]
    pub fn extension(&self) -> Option<&'static str> {
        match self.0.grant {
            GrantType::ClientCredentials => Some("io.modelcontextprotocol/oauth-client-credentials"),
            GrantType::Enterprise(_) => {
                Some("io.modelcontextprotocol/enterprise-managed-authorization")
            }
            _ => None,
        }
    }

    /// What a link to the server at `url` needs.
    ///
    /// # Errors
    /// If tokens could be read on the way there: it must be `https`, or on this machine.
    pub fn at(&self, url: &str) -> Result<Arc<dyn CredentialsProvider>, Error> {
        Ok(Arc::new(TokenManager::new(self.0.clone(), url)?))
    }

    /// Gets in at the server at `url` now, before it refuses anything.
    ///
    /// # Errors
    /// If there is no way in.
    pub async fn login(&self, url: &str) -> Result<Login, Error> {
        TokenManager::new(self.0.clone(), url)?.log_in().await
    }

    /// Forgets how to get in at the server at `url`, and tells the authorization servers that take
    /// note of it (RFC 7009). How many logins were forgotten.
    ///
    /// # Errors
    /// If the vault fails, or an authorization server was not told. What could be forgotten is
    /// forgotten even then.
    pub async fn logout(&self, url: &str) -> Result<usize, Error> {
        log_out(&self.0, url).await
    }
}

/// Shows no secret.
impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let grant = match &self.0.grant {
            GrantType::Bearer(_) => "bearer",
            GrantType::Code(_) => "code",
            GrantType::ClientCredentials => "client credentials",
            GrantType::Enterprise(_) => "enterprise",
            GrantType::Workload(_) => "workload",
        };
        f.debug_struct("Auth")
            .field("grant", &grant)
            .field("client", &self.0.client.as_ref().map(|it| &it.id))
            .field("issuer", &self.0.issuer)
            .field("scopes", &self.0.scopes)
            .finish_non_exhaustive()
    }
}
