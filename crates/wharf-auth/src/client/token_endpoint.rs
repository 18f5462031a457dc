//! Token endpoint and client authentication.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header::AUTHORIZATION};
use serde::Deserialize;
use serde_json::json;
use url::form_urlencoded::byte_serialize;
use wharf_model::{Error, ErrorKind, excerpt};

use crate::client::{
    auth_server_metadata::AuthServerMetadata, dpop::DpopProver, failed, now,
    token_response::TokenResponse,
};
use crate::{
    fetch::{Fetch, FetchResponse},
    jose::{SigningKey, random_token},
};

pub(super) const DPOP: HeaderName = HeaderName::from_static("dpop");
pub(super) const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// Lifetime of a client assertion.
const ASSERTION_LIFETIME_SECS: u64 = 300;
/// Limit of values that an authorization server issues, because they are stored together.
const MAX_VALUE_BYTES: usize = 16 << 10;

/// Client identity at one authorization server.
#[derive(Clone)]
pub(super) struct ClientIdentity {
    pub(super) client_id: String,
    pub(super) proof: ClientAuthMethod,
    /// Alternative method for the secret, if the server supports both and the registered one is unknown.
    fallback: Option<ClientAuthMethod>,
}

/// Client authentication method (RFC 6749, RFC 7523).
#[derive(Clone)]
pub(super) enum ClientAuthMethod {
    /// `none`: public client.
    None,
    /// `client_secret_basic`.
    Basic(String),
    /// `client_secret_post`.
    Post(String),
    /// `private_key_jwt`.
    PrivateKeyJwt(Arc<SigningKey>),
}

impl ClientIdentity {
    pub(super) fn public(client_id: &str) -> ClientIdentity {
        ClientIdentity::new(client_id, ClientAuthMethod::None)
    }

    pub(super) fn new(client_id: &str, proof: ClientAuthMethod) -> ClientIdentity {
        ClientIdentity { client_id: client_id.to_owned(), proof, fallback: None }
    }

    /// Identity with a secret, sent with `method` or as the authorization server supports.
    pub(super) fn secret(
        client_id: &str,
        secret: Option<&str>,
        method: Option<&str>,
        auth_server: &AuthServerMetadata,
    ) -> ClientIdentity {
        let listed = auth_server.token_endpoint_auth_methods_supported.as_deref();
        let supports = |method: &str| listed.is_some_and(|it| it.iter().any(|it| it == method));
        let proof = match (secret, method) {
            (None, _) | (_, Some("none")) => ClientAuthMethod::None,
            (Some(secret), Some("client_secret_post")) => ClientAuthMethod::Post(secret.to_owned()),
            (Some(secret), Some("client_secret_basic")) => {
                ClientAuthMethod::Basic(secret.to_owned())
            }
            (Some(secret), _)
                if !supports("client_secret_basic") && supports("client_secret_post") =>
            {
                ClientAuthMethod::Post(secret.to_owned())
            }
            (Some(secret), _) => ClientAuthMethod::Basic(secret.to_owned()),
        };
        let is_unspecified = method.is_none() && supports("client_secret_post");
        let fallback = match &proof {
            ClientAuthMethod::Basic(secret) if is_unspecified => {
                Some(ClientAuthMethod::Post(secret.clone()))
            }
            _ => None,
        };
        ClientIdentity { fallback, ..ClientIdentity::new(client_id, proof) }
    }
}

/// Error of a token request.
pub(super) enum TokenError {
    /// The endpoint rejected the request with an OAuth error code.
    Rejected { error: String, problem: Error },
    /// The request failed.
    Failed(Error),
}

impl From<Error> for TokenError {
    fn from(error: Error) -> Self {
        TokenError::Failed(error)
    }
}

impl TokenError {
    pub(super) fn into_error(self) -> Error {
        match self {
            TokenError::Rejected { problem, .. } | TokenError::Failed(problem) => problem,
        }
    }
}

/// Parameters of a token request.
pub(super) type FormFields = Vec<(&'static str, String)>;

/// An endpoint that requires client authentication.
pub(super) struct OAuthEndpoint<'a> {
    pub(super) fetch: &'a Fetch,
    pub(super) url: &'a str,
    /// Audience of assertions.
    pub(super) issuer: &'a str,
    pub(super) prover: Option<&'a DpopProver>,
}

impl OAuthEndpoint<'_> {
    /// Requests a token.
    pub(super) async fn request_token(
        &self,
        identity: &ClientIdentity,
        form: FormFields,
    ) -> Result<TokenResponse, TokenError> {
        let mut answer = self.post(identity, &form).await?;
        if self.requires_nonce(&answer) {
            answer = self.post(identity, &form).await?;
        }
        if answer.status != StatusCode::OK {
            return Err(error_from(&answer));
        }
        let granted: TokenResponse = answer.json().map_err(Error::from)?;
        if !is_header_safe(&granted.access_token) {
            let problem =
                format!("{} returned a token that does not fit in a header", answer.url());
            return Err(failed(problem).into());
        }
        let (refresh, scope) = (granted.refresh_token.as_deref(), granted.scope.as_deref());
        if exceeds_limit([Some(granted.access_token.as_str()), refresh, scope]) {
            let problem = format!("{} returned a token that is too long", answer.url());
            return Err(failed(problem).into());
        }
        Ok(granted)
    }

    /// Sends a form with client authentication.
    ///
    /// The form contains the `client_id` beside basic authentication too, as RFC 6749 (3.2.1) allows and
    /// Python's `mcp` requires. Some servers, such as Okta, treat that as a second authentication and
    /// reject it with `invalid_request` (5.2) before they check the grant: the request is repeated without
    /// it. A manually registered client without a known method tries both methods that the server lists.
    pub(super) async fn post(
        &self,
        identity: &ClientIdentity,
        form: &FormFields,
    ) -> Result<FetchResponse, Error> {
        let mut named = form.clone();
        named.push(("client_id", identity.client_id.clone()));
        let answer = self.send(&identity.client_id, &identity.proof, named.clone()).await?;
        let is_basic = matches!(identity.proof, ClientAuthMethod::Basic(_));
        if is_basic && has_error_code(&answer, "invalid_request") {
            return self.send(&identity.client_id, &identity.proof, form.clone()).await;
        }
        if let Some(fallback) = &identity.fallback
            && is_client_rejected(&answer)
        {
            let second = self.send(&identity.client_id, fallback, named).await?;
            return Ok(if second.status.is_success() { second } else { answer });
        }
        Ok(answer)
    }

    /// Sends a form with this authentication method.
    async fn send(
        &self,
        id: &str,
        proof: &ClientAuthMethod,
        mut form: FormFields,
    ) -> Result<FetchResponse, Error> {
        let mut headers = HeaderMap::new();
        match proof {
            ClientAuthMethod::None => {}
            ClientAuthMethod::Basic(secret) => {
                headers.insert(AUTHORIZATION, basic(id, secret)?);
            }
            ClientAuthMethod::Post(secret) => form.push(("client_secret", secret.clone())),
            ClientAuthMethod::PrivateKeyJwt(key) => {
                form.push(("client_assertion_type", ASSERTION_TYPE.to_owned()));
                form.push(("client_assertion", self.assertion(id, key)?));
            }
        }
        if let Some(prover) = self.prover {
            let proof = prover.sign_proof("POST", self.url, None)?;
            headers.insert(DPOP, header(&proof)?);
        }
        let fields: Vec<_> = form.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let answer = self.fetch.post_form(self.url, headers, &fields).await?;
        let nonce = answer.headers.get(DPOP_NONCE).and_then(|it| it.to_str().ok());
        if let (Some(prover), Some(nonce)) = (self.prover, nonce) {
            prover.store_nonce(self.url, nonce);
        }
        Ok(answer)
    }

    /// Returns true if a retry with the received DPoP nonce may succeed.
    fn requires_nonce(&self, answer: &FetchResponse) -> bool {
        self.prover.is_some()
            && answer.headers.contains_key(DPOP_NONCE)
            && has_error_code(answer, "use_dpop_nonce")
    }

    fn assertion(&self, client_id: &str, key: &SigningKey) -> Result<String, Error> {
        let iat = now();
        let claims = json!({
            "iss": client_id,
            "sub": client_id,
            "aud": self.issuer,
            "jti": random_token(16),
            "iat": iat,
            "exp": iat + ASSERTION_LIFETIME_SECS,
        });
        let mut head = json!({"typ": "JWT"});
        if let Some(kid) = key.public_jwk().kid() {
            head["kid"] = kid.into();
        }
        key.sign(&head, &claims)
            .map_err(|error| failed(format!("cannot sign the client assertion: {error}")))
    }
}

/// Returns true if an endpoint responded with this error code.
fn has_error_code(answer: &FetchResponse, error: &str) -> bool {
    matches!(answer.status, StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED)
        && answer.json::<ErrorResponse>().is_ok_and(|it| it.error == error)
}

/// Returns true if client authentication failed. Python's `mcp` uses a different code at revocation.
fn is_client_rejected(answer: &FetchResponse) -> bool {
    let is_other = answer.status == StatusCode::UNAUTHORIZED;
    has_error_code(answer, "invalid_client")
        || is_other && has_error_code(answer, "unauthorized_client")
}

/// Converts an error response.
pub(super) fn error_from(answer: &FetchResponse) -> TokenError {
    let (url, status) = (answer.url(), answer.status);
    let Ok(response) = answer.json::<ErrorResponse>() else {
        return failed(format!("{url} returned {status}")).into();
    };
    let why =
        response.error_description.map_or(String::new(), |it| format!(" ({})", sanitized(&it)));
    let problem = format!("{url} refused: {}{why}", sanitized(&response.error));
    let problem = Error::new(ErrorKind::AuthorizationFailed).with_message(problem);
    match status.is_client_error() && !response.error.is_empty() {
        true => TokenError::Rejected { error: response.error, problem },
        false => TokenError::Failed(problem),
    }
}

/// Text of a remote server, on one line and shortened.
pub(super) fn sanitized(text: &str) -> String {
    let plain: String = text.chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
    excerpt(plain.trim()).into_owned()
}

/// Returns true if a value exceeds the limit.
pub(super) fn exceeds_limit<'a>(texts: impl IntoIterator<Item = Option<&'a str>>) -> bool {
    texts.into_iter().flatten().any(|it| it.len() > MAX_VALUE_BYTES)
}

/// Returns true if a header can contain the token.
fn is_header_safe(token: &str) -> bool {
    !token.is_empty() && token.bytes().all(|it| it.is_ascii_graphic())
}

/// HTTP Basic credentials, form-encoded as OAuth requires. A space becomes `%20`, which servers without `+`
/// support read too.
fn basic(client_id: &str, secret: &str) -> Result<HeaderValue, Error> {
    let encoded =
        |text: &str| byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20");
    let pair = format!("{}:{}", encoded(client_id), encoded(secret));
    header(&format!("Basic {}", STANDARD.encode(pair)))
}

fn header(text: &str) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::from_str(text).map_err(|_| {
        failed("a credential contains characters that are not allowed in a header".into())
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// OAuth error response.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ErrorResponse {
    error: String,
    error_description: Option<String>,
}
