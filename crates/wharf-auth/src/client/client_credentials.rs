//! Grants without a user: client credentials, workload identity and enterprise-managed authorization.

use std::{fmt, io, path::PathBuf, sync::Arc};

use wharf_model::{BoxFuture, Error, excerpt};

use crate::client::{
    failed,
    flow::AuthorizationFlow,
    token_endpoint::{ClientAuthMethod, ClientIdentity, FormFields, OAuthEndpoint, TokenError},
    token_response::TokenResponse,
};

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";

/// A JWT assertion issued by a third party, requested again each time it is needed.
///
/// ```
/// use wharf_auth::client::Assertion;
///
/// let fixed = Assertion::from("eyJ…");
/// let mounted = Assertion::file("/var/run/secrets/tokens/mcp");
/// let asked = Assertion::new(|| async { Ok("eyJ…".to_owned()) });
/// ```
#[derive(Clone)]
pub struct Assertion(Arc<dyn Fn() -> BoxFuture<Result<String, Error>> + Send + Sync>);

impl Assertion {
    /// Calls `current_token` each time.
    pub fn new<F>(current_token: impl Fn() -> F + Send + Sync + 'static) -> Assertion
    where
        F: Future<Output = Result<String, Error>> + Send + 'static,
    {
        Assertion(Arc::new(move || Box::pin(current_token())))
    }

    /// Reads the file each time: platforms rotate the token in it.
    pub fn file(path: impl Into<PathBuf>) -> Assertion {
        let path = path.into();
        Assertion::new(move || {
            let path = path.clone();
            async move {
                let read = path.clone();
                let text = tokio::task::spawn_blocking(move || std::fs::read_to_string(read)).await;
                let text = text.map_err(io::Error::from).flatten();
                text.map(|it| it.trim().to_owned()).map_err(|error| {
                    let problem = format!("cannot read the token in {}: {error}", path.display());
                    failed(problem).with_source(error)
                })
            }
        })
    }

    pub(super) async fn current_token(&self) -> Result<String, Error> {
        (self.0)().await
    }
}

impl From<String> for Assertion {
    fn from(text: String) -> Self {
        Assertion::new(move || std::future::ready(Ok(text.clone())))
    }
}

impl From<&str> for Assertion {
    fn from(text: &str) -> Self {
        Assertion::from(text.to_owned())
    }
}

impl fmt::Debug for Assertion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Assertion(…)")
    }
}

/// A company's identity provider for enterprise-managed authorization
/// ([`Auth::enterprise`](crate::client::Auth::enterprise)).
#[derive(Clone)]
pub struct Enterprise {
    token_endpoint: String,
    client_id: String,
    secret: Option<String>,
    id_token: Assertion,
}

impl Enterprise {
    /// The provider with this token endpoint, where this client is registered as `client_id`. `id_token` is
    /// the user's ID token.
    pub fn new(
        token_endpoint: impl Into<String>,
        client_id: impl Into<String>,
        id_token: impl Into<Assertion>,
    ) -> Enterprise {
        let (token_endpoint, client_id) = (token_endpoint.into(), client_id.into());
        Enterprise { token_endpoint, client_id, secret: None, id_token: id_token.into() }
    }

    /// Sets the client secret at the provider.
    #[must_use]
    pub fn secret(mut self, secret: impl Into<String>) -> Enterprise {
        self.secret = Some(secret.into());
        self
    }
}

impl fmt::Debug for Enterprise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enterprise")
            .field("token_endpoint", &self.token_endpoint)
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

impl AuthorizationFlow<'_> {
    /// Client credentials grant.
    pub(super) async fn authorize_with_client_credentials(
        &self,
    ) -> Result<TokenResponse, TokenError> {
        let identity = self.configured_client()?;
        self.endpoint()?.request_token(&identity, self.scoped_form("client_credentials")).await
    }

    /// Enterprise-managed authorization: an identity assertion of the company's provider (JWT bearer
    /// grant).
    pub(super) async fn authorize_with_enterprise(
        &self,
        company: &Enterprise,
    ) -> Result<TokenResponse, TokenError> {
        let identity = self.configured_client()?;
        let assertion = self.exchange_id_token(company).await?;
        let mut form = self.scoped_form(JWT_BEARER);
        form.push(("assertion", assertion));
        self.endpoint()?.request_token(&identity, form).await
    }

    /// Workload identity: an assertion of the platform that the program runs on (JWT bearer grant).
    pub(super) async fn authorize_with_workload(
        &self,
        assertion: &Assertion,
    ) -> Result<TokenResponse, TokenError> {
        let identity = self.configured_client()?;
        let mut form = self.scoped_form(JWT_BEARER);
        form.push(("assertion", assertion.current_token().await?));
        self.endpoint()?.request_token(&identity, form).await
    }

    fn configured_client(&self) -> Result<ClientIdentity, Error> {
        let client = self.config.client.as_ref();
        client.map(|it| it.identity(self.auth_server)).ok_or_else(|| {
            failed("this grant needs a client id: set it with `Auth::client`".into())
        })
    }

    /// Exchanges the user's ID token for an identity assertion (ID-JAG) for the server's issuer (RFC 8693).
    async fn exchange_id_token(&self, company: &Enterprise) -> Result<String, TokenError> {
        let mut form: FormFields = vec![
            ("grant_type", EXCHANGE.to_owned()),
            ("requested_token_type", ID_JAG.to_owned()),
            ("audience", self.auth_server.issuer.clone()),
            ("resource", self.discovered.resource.clone()),
            ("subject_token", company.id_token.current_token().await?),
            ("subject_token_type", ID_TOKEN.to_owned()),
        ];
        if !self.scopes.is_empty() {
            form.push(("scope", self.scopes.join(" ")));
        }
        let proof = company.secret.clone().map_or(ClientAuthMethod::None, ClientAuthMethod::Post);
        let identity = ClientIdentity::new(&company.client_id, proof);
        // The user configured the provider's URL; no server supplied it.
        let url = company.token_endpoint.as_str();
        let endpoint = OAuthEndpoint { fetch: &self.config.fetch, url, issuer: url, prover: None };
        let granted = endpoint.request_token(&identity, form).await?;
        match granted.issued_token_type.as_deref() {
            Some(ID_JAG) => Ok(granted.access_token),
            other => {
                let got = excerpt(other.unwrap_or("nothing"));
                let problem =
                    format!("{url} returned {got:?} instead of an identity assertion grant");
                Err(failed(problem).into())
            }
        }
    }
}
