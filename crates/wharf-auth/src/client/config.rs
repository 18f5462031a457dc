//! Public configuration of a client's authorization.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use wharf_model::{BoxFuture, CredentialsProvider, Error};

use crate::client::{
    Assertion, Enterprise, Login, MemoryTokenStore, TokenStore, UserAgent,
    auth_server_metadata::AuthServerMetadata,
    logout::log_out,
    scope,
    token_endpoint::{ClientAuthMethod, ClientIdentity},
    token_manager::TokenManager,
};
use crate::{fetch::Fetch, jose::SigningKey};

/// Authorization of a client at servers that require it.
///
/// After a 401, the client discovers and validates the authorization server, registers if necessary,
/// obtains a token (from the user or with its own credentials), refreshes it, and requests more scopes when
/// a call needs them (step-up authorization). Credentials of one authorization server are never sent to
/// another.
///
/// ```no_run
/// use wharf_auth::client::{Auth, UserAgent};
///
/// # fn example(browser: impl UserAgent) {
/// // The user authorizes in a browser; the client registers dynamically where possible.
/// let auth = Auth::code(browser).name("Tug").scopes(["files:read"]);
///
/// // A program authenticates with a secret, which only this issuer receives.
/// let auth = Auth::client_credentials("tug", "secret").issuer("https://id.example");
/// # }
/// ```
#[derive(Clone)]
pub struct Auth(AuthConfig);

/// Settings of an [`Auth`].
#[derive(Clone)]
pub(super) struct AuthConfig {
    pub(super) grant: GrantType,
    pub(super) client: Option<ConfiguredClient>,
    pub(super) issuer: Option<String>,
    /// Confirms that an issuer named by the server may receive the credentials.
    pub(super) confirm: Option<Arc<ConfirmIssuer>>,
    /// The issuer that received the credentials first, if none was configured. No other issuer gets them.
    pub(super) bound_issuer: Arc<OnceLock<String>>,
    pub(super) document: Option<String>,
    pub(super) name: String,
    pub(super) scopes: Option<Vec<String>>,
    pub(super) token_store: Arc<dyn TokenStore>,
    pub(super) dpop: bool,
    pub(super) interactive: bool,
    pub(super) fetch: Fetch,
}

/// Callback that confirms an issuer.
pub(super) type ConfirmIssuer = dyn Fn(String) -> BoxFuture<bool> + Send + Sync;

/// The grant to use.
#[derive(Clone)]
pub(super) enum GrantType {
    Bearer(String),
    Code(Arc<dyn UserAgent>),
    ClientCredentials,
    Enterprise(Enterprise),
    Workload(Assertion),
}

/// A client that is registered by hand at the authorization server.
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
    /// Returns true if the credentials were issued by one authorization server.
    pub(super) fn is_issuer_specific(&self) -> bool {
        self.client.is_some() || !matches!(self.grant, GrantType::Code(_) | GrantType::Bearer(_))
    }

    /// Returns true if the authorization server receives a secret, a key's assertion or another assertion.
    pub(super) fn sends_secrets(&self) -> bool {
        let has_key = self.client.as_ref().is_some_and(|it| !matches!(it.key, ClientKey::None));
        has_key || !matches!(self.grant, GrantType::Code(_) | GrantType::Bearer(_))
    }

    /// Returns true if a login was obtained with the configured grant and client.
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
    /// Name of a grant without a user, as stored in a login.
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
            ClientKey::Secret(secret) => {
                ClientIdentity::secret(&self.id, Some(secret), None, auth_server)
            }
            ClientKey::KeyPair(key) => {
                ClientIdentity::new(&self.id, ClientAuthMethod::PrivateKeyJwt(key.clone()))
            }
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

    /// Sends a fixed Bearer token. It is not renewed when it expires.
    pub fn bearer(token: impl Into<String>) -> Auth {
        Auth::new(GrantType::Bearer(token.into()))
    }

    /// Authorization code grant: `visit` opens the authorization page for the user.
    pub fn code(visit: impl UserAgent) -> Auth {
        Auth::new(GrantType::Code(Arc::new(visit)))
    }

    /// Client credentials grant with a client secret. Name the authorization server with [`Auth::issuer`]:
    /// without it nothing is sent and the attempt fails, because an MCP server could otherwise choose the
    /// recipient of the secret.
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

    /// Client credentials grant with `private_key_jwt`. Requires an [issuer](Auth::issuer).
    pub fn client_credentials_key(id: impl Into<String>, key: SigningKey) -> Auth {
        Auth::new(GrantType::ClientCredentials).client_key(id, key)
    }

    /// Enterprise-managed authorization: the user has signed in at a company's identity provider, which
    /// decides about access to servers. [`Auth::client_secret`] sets the credentials at the server's own
    /// authorization server. Requires the [issuer](Auth::issuer) of that authorization server.
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

    /// Workload identity: the platform issues an assertion for the program. Requires an
    /// [issuer](Auth::issuer).
    pub fn workload(id: impl Into<String>, assertion: impl Into<Assertion>) -> Auth {
        Auth::new(GrantType::Workload(assertion.into())).client(id)
    }

    /// Uses a registered public client.
    #[must_use]
    pub fn client(self, id: impl Into<String>) -> Auth {
        self.with_client(id.into(), ClientKey::None)
    }

    /// Uses a registered client with a secret. Requires an [issuer](Auth::issuer).
    #[must_use]
    pub fn client_secret(self, id: impl Into<String>, secret: impl Into<String>) -> Auth {
        self.with_client(id.into(), ClientKey::Secret(secret.into()))
    }

    /// Uses a registered client with `private_key_jwt`. Requires an [issuer](Auth::issuer).
    #[must_use]
    pub fn client_key(self, id: impl Into<String>, key: SigningKey) -> Auth {
        self.with_client(id.into(), ClientKey::KeyPair(Arc::new(key)))
    }

    fn with_client(mut self, id: String, key: ClientKey) -> Auth {
        self.0.client = Some(ConfiguredClient { id, key });
        // New credentials may belong to another issuer.
        self.0.bound_issuer = Arc::default();
        self
    }

    /// Sets the only accepted authorization server, compared exactly. If the server names others,
    /// authorization fails. Required with a secret, a key or an assertion.
    #[must_use]
    pub fn issuer(mut self, issuer: impl Into<String>) -> Auth {
        self.0.issuer = Some(issuer.into());
        self
    }

    /// Without an [issuer](Auth::issuer): asks `confirm` if the secret, key or assertion may be sent to the
    /// authorization server that the MCP server names. Nothing is sent before it returns `true`. The first
    /// confirmed issuer is the only one that receives them, for all servers that this `Auth` and its clones
    /// are used for.
    ///
    /// Ask the user, or compare with a list. If `confirm` always returns `true`, the MCP server chooses the
    /// recipient.
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

    /// Sets the URL of the client ID metadata document, which is used as client id where the authorization
    /// server supports it. Must be `https`.
    #[must_use]
    pub fn client_document(mut self, url: impl Into<String>) -> Auth {
        self.0.document = Some(url.into());
        self
    }

    /// Sets the client name for dynamic client registration.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Auth {
        self.0.name = name.into();
        self
    }

    /// Sets the scopes of the first authorization, in addition to those of the challenge. Without it, the
    /// scopes that the server publishes.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Auth {
        let scopes = scopes.into_iter().map(Into::into).collect();
        self.0.scopes = Some(scope::union([scopes]));
        self
    }

    /// Sets the store of logins: memory by default.
    #[must_use]
    pub fn token_store(mut self, token_store: impl TokenStore) -> Auth {
        self.0.token_store = Arc::new(token_store);
        self
    }

    /// Binds tokens to a key of this client (DPoP), even if the server does not require it, so that stolen
    /// tokens are useless.
    #[must_use]
    pub fn dpop(mut self) -> Auth {
        self.0.dpop = true;
        self
    }

    /// Never opens the authorization page: stored logins are used and refreshed, otherwise the server's
    /// rejection is returned.
    #[must_use]
    pub fn unattended(mut self) -> Auth {
        self.0.interactive = false;
        self
    }

    /// Sets the HTTP client for authorization servers: for other root certificates or private networks.
    #[must_use]
    pub fn fetch(mut self, fetch: Fetch) -> Auth {
        self.0.fetch = fetch;
        self
    }

    /// The MCP extension that defines the configured grant, if there is one. The client declares it as a
    /// capability.
    #[must_use]
    pub fn extension(&self) -> Option<&'static str> {
        match self.0.grant {
            GrantType::ClientCredentials => {
                Some("io.modelcontextprotocol/oauth-client-credentials")
            }
            GrantType::Enterprise(_) => {
                Some("io.modelcontextprotocol/enterprise-managed-authorization")
            }
            _ => None,
        }
    }

    /// Returns the credentials provider for the server at `url`.
    ///
    /// # Errors
    /// If the URL is neither `https` nor loopback: tokens could be intercepted.
    pub fn at(&self, url: &str) -> Result<Arc<dyn CredentialsProvider>, Error> {
        Ok(Arc::new(TokenManager::new(self.0.clone(), url)?))
    }

    /// Logs in to the server at `url` now, without waiting for a 401.
    ///
    /// # Errors
    /// If authorization fails.
    pub async fn login(&self, url: &str) -> Result<Login, Error> {
        TokenManager::new(self.0.clone(), url)?.log_in().await
    }

    /// Removes the logins of the server at `url`, and revokes their tokens where supported (RFC 7009).
    /// Returns the number of removed logins.
    ///
    /// # Errors
    /// If the token store fails, or a token was not revoked. The other logins are removed all the same.
    pub async fn logout(&self, url: &str) -> Result<usize, Error> {
        log_out(&self.0, url).await
    }
}

/// Omits secrets.
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
