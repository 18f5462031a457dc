//! OAuth and OpenID Connect client of the identity provider.

use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine};
use http::{HeaderMap, HeaderValue, header};
use serde::Deserialize;
use serde_json::Value;
use tokio::{sync::Mutex, time::Instant};
use url::{Url, form_urlencoded};

use super::provider_settings::{Provider, ProviderKind};
use crate::proxy::records::{Identity, UpstreamTokens};
use crate::{
    fetch::{Fetch, FetchResponse},
    jose::{JwkSet, b64, sha256},
};

/// Cache lifetime of the provider's metadata and keys.
pub(super) const METADATA_TTL: Duration = Duration::from_secs(3600);
/// Cache lifetime of a failure.
const FAILURE_TTL: Duration = Duration::from_secs(5);
/// Limit of stored claims about a user.
const MAX_CLAIMS_BYTES: usize = 16 * 1024;
/// Limit of a stored token.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// Error for the operator's log. The client gets less detail.
#[derive(Clone, Debug)]
pub(super) struct IdpError {
    pub(super) why: String,
    /// The provider has ended the access permanently.
    pub(super) is_final: bool,
}

impl IdpError {
    pub(super) fn new(why: impl Into<String>) -> Self {
        IdpError { why: why.into(), is_final: false }
    }
}

pub(super) struct IdpClient {
    pub(super) provider: Provider,
    fetch: Fetch,
    /// Redirect URI at the provider.
    callback: String,
    found: Mutex<CachedResult<IdpEndpoints>>,
    pub(super) keys: Mutex<IdpKeys>,
}

/// Cached result and its time.
pub(super) type CachedResult<T> = Option<(Instant, Result<T, IdpError>)>;

#[derive(Default)]
pub(super) struct IdpKeys {
    pub(super) found: CachedResult<JwkSet>,
    /// Time of the last fetch because of an unknown key.
    pub(super) refetched_at: Option<Instant>,
}

/// Endpoints of a provider.
#[derive(Clone)]
pub(super) struct IdpEndpoints {
    authorize: String,
    token: String,
    pub(super) keys: Option<String>,
    secret_in_body: bool,
    sends_iss: bool,
}

/// OpenID Provider metadata.
#[derive(Deserialize)]
struct IdpMetadata {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// Token response.
#[derive(Deserialize)]
struct IdpTokenResponse {
    access_token: Option<String>,
    refresh_token: Option<String>,
    id_token: Option<String>,
    #[serde(default)]
    expires_in: Option<Value>,
    error: Option<String>,
}

/// Parameters of one sign-in. The verifier is sent only as its challenge.
pub(super) struct SignInParams<'a> {
    pub(super) state: &'a str,
    pub(super) nonce: &'a str,
    pub(super) verifier: &'a str,
}

impl IdpClient {
    pub(super) fn new(provider: Provider, fetch: Fetch, callback: String) -> Self {
        let (found, keys) = (Mutex::default(), Mutex::default());
        IdpClient { provider, fetch, callback, found, keys }
    }

    /// Builds the authorization URL.
    pub(super) async fn sign_in(&self, params: &SignInParams<'_>) -> Result<Url, IdpError> {
        let endpoints = self.endpoints().await?;
        let mut url = Url::parse(&endpoints.authorize)
            .ok()
            .filter(|url| matches!(url.scheme(), "https" | "http"))
            .ok_or_else(|| IdpError::new("the authorization endpoint is not a URL"))?;
        let challenge = b64(sha256(params.verifier.as_bytes()));
        let mut pairs = url.query_pairs_mut();
        pairs.append_pair("response_type", "code").append_pair("client_id", &self.provider.id);
        pairs.append_pair("redirect_uri", &self.callback).append_pair("state", params.state);
        pairs
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        if !self.provider.scopes.is_empty() {
            pairs.append_pair("scope", &self.provider.scopes.join(" "));
        }
        if self.is_oidc() {
            pairs.append_pair("nonce", params.nonce);
        }
        pairs.extend_pairs(&self.provider.parameters);
        drop(pairs);
        Ok(url)
    }

    /// Validates the `iss` of a response (RFC 9207).
    pub(super) async fn is_expected_issuer(&self, iss: Option<&str>) -> Result<bool, IdpError> {
        let ProviderKind::Oidc { issuer } = &self.provider.kind else {
            // Such a provider has no issuer; a response with one is from another.
            return Ok(iss.is_none());
        };
        let must = self.endpoints().await?.sends_iss;
        Ok(iss.map_or(!must, |iss| iss == issuer))
    }

    /// Redeems a code for the user's identity and the provider's tokens.
    pub(super) async fn redeem(
        &self,
        code: &str,
        verifier: &str,
        nonce: &str,
        now: u64,
    ) -> Result<(Identity, UpstreamTokens), IdpError> {
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &*self.callback),
            ("code_verifier", verifier),
        ];
        let response = self.request_tokens(&fields).await?;
        let id_token = response.id_token.clone();
        let tokens = tokens(response, now)?;
        let who = match &self.provider.kind {
            ProviderKind::Oidc { issuer } => {
                let token = id_token.ok_or_else(|| IdpError::new("there is no ID token"))?;
                let claims = self.verify_id_token(&token).await?;
                self.check_id_token(&claims, issuer, nonce)?;
                let subject = claims.text("sub").unwrap_or_default().to_owned();
                Identity { subject, claims: Value::Object(claims.as_map().clone()) }
            }
            ProviderKind::OAuth { userinfo, subject, .. } => {
                self.fetch_userinfo(userinfo, subject, &tokens.access).await?
            }
        };
        check_size(who).map(|who| (who, tokens))
    }

    /// Refreshes the provider's tokens.
    pub(super) async fn renew(
        &self,
        old: &UpstreamTokens,
        now: u64,
    ) -> Result<UpstreamTokens, IdpError> {
        let refresh = old.refresh.as_deref();
        let refresh = refresh.ok_or_else(|| IdpError::new("there is no refresh token"))?;
        let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh)];
        let mut new = tokens(self.request_tokens(&fields).await?, now)?;
        // Providers that do not rotate refresh tokens omit `refresh_token`; keep the old one.
        new.refresh = new.refresh.or_else(|| Some(refresh.to_owned()));
        Ok(new)
    }

    fn is_oidc(&self) -> bool {
        matches!(self.provider.kind, ProviderKind::Oidc { .. })
    }

    async fn request_tokens(&self, fields: &[(&str, &str)]) -> Result<IdpTokenResponse, IdpError> {
        let endpoints = self.endpoints().await?;
        let Provider { id, secret, .. } = &self.provider;
        let (mut fields, mut headers) = (fields.to_vec(), HeaderMap::new());
        if endpoints.secret_in_body {
            fields.extend([("client_id", &**id), ("client_secret", &**secret)]);
        } else {
            headers.insert(header::AUTHORIZATION, basic(id, secret)?);
        }
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let fetched = self.fetch.post_form(&endpoints.token, headers, &fields).await;
        let fetched = fetched.map_err(|error| IdpError::new(format!("token endpoint: {error}")))?;
        let status = fetched.status;
        // An unexpected body is not logged: it may contain secrets.
        let response = fetched.json::<IdpTokenResponse>();
        let response =
            response.map_err(|_| IdpError::new(format!("token endpoint: HTTP {status}")))?;
        match &response.error {
            Some(error) => {
                let error: String = error.chars().filter(char::is_ascii_graphic).take(60).collect();
                // GitHub uses the second code.
                let is_final = matches!(&*error, "invalid_grant" | "bad_refresh_token");
                Err(IdpError { why: format!("token endpoint: {error}"), is_final })
            }
            None if !status.is_success() => {
                Err(IdpError::new(format!("token endpoint: HTTP {status}")))
            }
            None => Ok(response),
        }
    }

    pub(super) async fn endpoints(&self) -> Result<IdpEndpoints, IdpError> {
        let in_body = self.provider.secret_in_body;
        let issuer = match &self.provider.kind {
            ProviderKind::Oidc { issuer } => issuer,
            ProviderKind::OAuth { authorize, token, .. } => {
                return Ok(IdpEndpoints {
                    authorize: authorize.clone(),
                    token: token.clone(),
                    keys: None,
                    secret_in_body: in_body.unwrap_or(false),
                    sends_iss: false,
                });
            }
        };
        let mut found = self.found.lock().await;
        if let Some(known) = still_valid(&found, METADATA_TTL) {
            return known;
        }
        let endpoints = self.find(issuer, in_body).await;
        *found = Some((Instant::now(), endpoints.clone()));
        endpoints
    }

    async fn find(&self, issuer: &str, in_body: Option<bool>) -> Result<IdpEndpoints, IdpError> {
        let document = self.discover(issuer).await?;
        let methods = document.token_endpoint_auth_methods_supported;
        let is_near = crate::fetch::is_loopback(issuer);
        let places =
            [&document.authorization_endpoint, &document.token_endpoint, &document.jwks_uri];
        if !is_near && places.iter().any(|url| crate::fetch::is_loopback(url)) {
            return Err(IdpError::new("the provider's metadata names a loopback address"));
        }
        if !is_near && !document.authorization_endpoint.starts_with("https://") {
            return Err(IdpError::new("the authorization endpoint must be an https URL"));
        }
        let takes =
            |method: &str| methods.as_ref().is_none_or(|all| all.iter().any(|it| it == method));
        Ok(IdpEndpoints {
            authorize: document.authorization_endpoint,
            token: document.token_endpoint,
            keys: Some(document.jwks_uri),
            secret_in_body: in_body.unwrap_or_else(|| !takes("client_secret_basic")),
            sends_iss: document.authorization_response_iss_parameter_supported,
        })
    }

    async fn discover(&self, issuer: &str) -> Result<IdpMetadata, IdpError> {
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let document: IdpMetadata = self.read(&url, HeaderMap::new()).await?;
        if document.issuer != issuer {
            let document: String = document.issuer.chars().take(200).collect();
            return Err(IdpError::new(format!(
                "the provider's metadata names the issuer {document:?}: configure that one"
            )));
        }
        Ok(document)
    }

    async fn fetch_userinfo(
        &self,
        url: &str,
        member: &str,
        access: &str,
    ) -> Result<Identity, IdpError> {
        let bearer = HeaderValue::try_from(format!("Bearer {access}"));
        let mut bearer =
            bearer.map_err(|_| IdpError::new("the access token contains invalid characters"))?;
        bearer.set_sensitive(true);
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, bearer)]);
        let claims: Value = self.read(url, headers).await?;
        let subject = match claims.get(member) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => return Err(IdpError::new(format!("userinfo: the response has no {member:?}"))),
        };
        Ok(Identity { subject, claims })
    }

    pub(super) async fn read<T: serde::de::DeserializeOwned>(
        &self,
        url: &str,
        headers: HeaderMap,
    ) -> Result<T, IdpError> {
        let fetched: FetchResponse =
            self.fetch.get(url, headers).await.map_err(|error| IdpError::new(error.to_string()))?;
        if !fetched.status.is_success() {
            return Err(IdpError::new(format!("{url}: HTTP {}", fetched.status)));
        }
        fetched.json().map_err(|error| IdpError::new(format!("{url}: {error}")))
    }
}

/// Returns a cached result; failures expire sooner.
pub(super) fn still_valid<T: Clone>(
    found: &CachedResult<T>,
    fresh: Duration,
) -> Option<Result<T, IdpError>> {
    let (at, found) = found.as_ref()?;
    let fresh = if found.is_ok() { fresh } else { FAILURE_TTL };
    (at.elapsed() < fresh).then(|| found.clone())
}

fn tokens(response: IdpTokenResponse, now: u64) -> Result<UpstreamTokens, IdpError> {
    let access = response.access_token.ok_or_else(|| IdpError::new("there is no access token"))?;
    let refresh = response.refresh_token;
    if access.len() > MAX_TOKEN_BYTES
        || refresh.as_ref().is_some_and(|it| it.len() > MAX_TOKEN_BYTES)
    {
        return Err(IdpError::new("a token is too long"));
    }
    // Some providers send a string.
    let seconds = response.expires_in.and_then(|it| match it {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    });
    let until = seconds.map(|it: u64| now.saturating_add(it.saturating_mul(1000)));
    Ok(UpstreamTokens { access, refresh, until })
}

/// Rejects claims that are too large: a truncated set must not decide about access.
fn check_size(who: Identity) -> Result<Identity, IdpError> {
    if who.subject.is_empty() || who.subject.len() > 256 {
        return Err(IdpError::new("the provider does not identify the user"));
    }
    if who.claims.to_string().len() > MAX_CLAIMS_BYTES {
        return Err(IdpError::new("the provider's claims about the user exceed 16 KiB"));
    }
    Ok(who)
}

fn basic(id: &str, secret: &str) -> Result<HeaderValue, IdpError> {
    let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let text =
        format!("Basic {}", BASE64_STANDARD.encode(format!("{}:{}", encode(id), encode(secret))));
    let mut value = HeaderValue::try_from(text)
        .map_err(|_| IdpError::new("the client id contains invalid characters"))?;
    value.set_sensitive(true);
    Ok(value)
}
