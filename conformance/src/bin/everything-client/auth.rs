//! Authorization with the credentials that the suite provides.

use std::env;

use http::HeaderMap;
use serde::Deserialize;
use wharf::auth::{
    client::{
        Assertion, Auth, AuthorizationRequest, Enterprise, RedirectParams, UserAgent,
        UserAgentSession,
    },
    fetch::Fetch,
    jose::{Algorithm, SigningKey},
};
use wharf::{Error, ErrorKind, model::BoxFuture};

/// Environment variable with the URL of the client's metadata document.
const CLIENT_DOCUMENT_VARIABLE: &str = "WHARF_CLIENT_DOCUMENT";
/// Redirect URI. Nothing listens there: the suite's authorization servers redirect without a login page.
const REDIRECT_URI: &str = "http://localhost:3000/callback";

/// Credentials from the suite.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct SuiteCredentials {
    client_id: Option<String>,
    client_secret: Option<String>,
    issuer: Option<String>,
    private_key_pem: Option<String>,
    signing_algorithm: Option<Algorithm>,
    idp_client_id: Option<String>,
    idp_id_token: Option<String>,
    idp_token_endpoint: Option<String>,
    valid_jwt: Option<String>,
}

impl SuiteCredentials {
    pub(crate) fn auth(self) -> wharf::Result<Auth> {
        let issuer = self.issuer.clone();
        let auth = self.credentials()?;
        Ok(match issuer {
            Some(issuer) => auth.issuer(issuer),
            // The suite names no issuer for its secrets, keys and assertions: the server under test may choose it. A
            // real client must not do that.
            None => auth.confirm_issuer(|_| async { true }),
        })
    }

    fn credentials(self) -> wharf::Result<Auth> {
        let id = self.client_id.unwrap_or_default();
        if let Some(pem) = self.private_key_pem {
            let algorithm = self.signing_algorithm.unwrap_or(Algorithm::ES256);
            return Ok(Auth::client_credentials_key(id, SigningKey::from_pem(&pem, algorithm)?));
        }
        if let (Some(endpoint), Some(token)) = (self.idp_token_endpoint, self.idp_id_token) {
            let enterprise = Enterprise::new(
                endpoint,
                self.idp_client_id.unwrap_or_default(),
                Assertion::from(token),
            );
            let secret = self.client_secret.unwrap_or_default();
            return Ok(Auth::enterprise(enterprise).client_secret(id, secret));
        }
        if let Some(token) = self.valid_jwt {
            return Ok(Auth::workload(id, token));
        }
        Ok(match (self.client_secret, self.issuer) {
            (Some(secret), Some(_)) => auth_code().client_secret(id, secret),
            (Some(secret), None) => Auth::client_credentials(id, secret),
            _ => auth_code(),
        })
    }
}

fn auth_code() -> Auth {
    let auth = Auth::code(ConsentingUserAgent).name("everything-client");
    match env::var(CLIENT_DOCUMENT_VARIABLE) {
        Ok(url) => auth.client_document(url),
        Err(_) => auth,
    }
}

/// User agent that follows the authorization request without a login page.
struct ConsentingUserAgent;

impl UserAgent for ConsentingUserAgent {
    fn prepare(&self, _: Option<&str>) -> BoxFuture<Result<Box<dyn UserAgentSession>, Error>> {
        Box::pin(async { Ok(Box::new(ConsentingUserAgent) as Box<dyn UserAgentSession>) })
    }
}

impl UserAgentSession for ConsentingUserAgent {
    fn redirect_uri(&self) -> &str {
        REDIRECT_URI
    }

    fn visit(
        self: Box<Self>,
        to: AuthorizationRequest,
    ) -> BoxFuture<Result<RedirectParams, Error>> {
        Box::pin(async move {
            let answer = Fetch::new().get(to.url.as_str(), HeaderMap::new()).await?;
            let back = answer.location().filter(|it| it.starts_with(REDIRECT_URI));
            back.map(RedirectParams::from_url).ok_or_else(|| {
                let problem = "the authorization server does not redirect to the redirect URI";
                Error::new(ErrorKind::AuthorizationFailed).with_message(problem)
            })
        })
    }
}
