//! Identity of the client at an authorization server: a configured one, a client id metadata document, or dynamic client
//! registration (RFC 7591).

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header::CONTENT_TYPE};
use serde::Deserialize;
use serde_json::json;
use url::Url;
use wharf_model::{Error, excerpt};

use crate::client::{
    Login, Registration,
    auth_server_metadata::AuthServerMetadata,
    failed,
    flow::AuthorizationFlow,
    now,
    server_url::is_loopback,
    token_endpoint::{ClientIdentity, error_from, exceeds_limit},
    token_response::lenient_seconds,
};
use crate::fetch::Fetch;

impl AuthorizationFlow<'_> {
    /// The client's identity at the authorization server, if it is registered there.
    pub(super) fn client_identity(&self, login: &Login) -> Option<ClientIdentity> {
        if let Some(client) = &self.config.client {
            return Some(client.identity(self.auth_server));
        }
        login.registration.as_ref().map(|it| self.registered_identity(it))
    }

    /// Returns true if the client registered dynamically, and can do so again.
    pub(super) fn is_dynamically_registered(&self, login: &Login) -> bool {
        // A manual registration has no method.
        let told = login.registration.as_ref().is_some_and(|it| it.method.is_some());
        told && self.config.client.is_none()
    }

    pub(super) fn registered_identity(&self, it: &Registration) -> ClientIdentity {
        let (secret, method) = (it.client_secret.as_deref(), it.method.as_deref());
        ClientIdentity::secret(&it.client_id, secret, method, self.auth_server)
    }

    /// Returns the client's identity; registers dynamically if necessary.
    pub(super) async fn ensure_registered(
        &self,
        login: &mut Login,
        redirect_uri: &str,
    ) -> Result<ClientIdentity, Error> {
        if let Some(client) = &self.config.client {
            return Ok(client.identity(self.auth_server));
        }
        let document = self.config.document.as_ref();
        let document = document.filter(|_| self.auth_server.client_id_metadata_document_supported);
        let registration = match (document, &login.registration) {
            (Some(document), _) => Registration {
                client_id: document.clone(),
                client_secret: None,
                method: Some("none".into()),
                redirect_uri: Some(redirect_uri.to_owned()),
                expires_at: None,
            },
            (None, Some(known)) if is_usable(known, redirect_uri) => known.clone(),
            (None, _) => {
                register(self.fetch, self.auth_server, &self.config.name, redirect_uri).await?
            }
        };
        let identity = self.registered_identity(&registration);
        // Saved together with the tokens: a failed login leaves nothing in the store.
        login.registration = Some(registration);
        Ok(identity)
    }

    /// Removes a registration that the authorization server no longer accepts. Keeps the tokens, because
    /// another process may have renewed them.
    pub(super) async fn remove_registration(&self, login: &mut Login) -> Result<(), Error> {
        let removed = login.registration.take();
        let token_store = &self.config.token_store;
        let is_kept = |kept: &Login| kept.registration == removed;
        if !token_store.load(&login.key).await?.is_some_and(|it| is_kept(&it)) {
            return Ok(());
        }
        let _lock = token_store.lock(&login.key).await?;
        match token_store.load(&login.key).await?.filter(is_kept) {
            Some(kept) => token_store.save(&Login { registration: None, ..kept }).await,
            None => Ok(()),
        }
    }
}

/// Returns true if a registration is valid for this redirect URI.
fn is_usable(known: &Registration, redirect_uri: &str) -> bool {
    let is_same = known.redirect_uri.as_deref().is_none_or(|it| it == redirect_uri);
    is_same && known.expires_at.is_none_or(|at| at > now() + 60)
}

/// Registers this client at the authorization server.
async fn register(
    fetch: &Fetch,
    auth_server: &AuthServerMetadata,
    name: &str,
    redirect_uri: &str,
) -> Result<Registration, Error> {
    let Some(endpoint) = &auth_server.registration_endpoint else {
        return Err(failed(format!(
            "the authorization server {:?} does not support dynamic client registration; register this client by hand, and use its client id",
            excerpt(&auth_server.issuer)
        )));
    };
    let method = method(auth_server);
    let body = json!({
        "client_name": name,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        "application_type": application_type(redirect_uri),
    });
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let answer = fetch.post(endpoint, headers, Bytes::from(body.to_string())).await?;
    if !answer.status.is_success() {
        let problem = error_from(&answer).into_error();
        return Err(failed(format!("client registration failed: {problem}")));
    }
    let response: RegistrationResponse = answer.json()?;
    let (secret, shown) =
        (response.client_secret.as_deref(), response.token_endpoint_auth_method.as_deref());
    if exceeds_limit([Some(response.client_id.as_str()), secret, shown]) {
        let problem = "client registration failed: the client id or secret is too long";
        return Err(failed(problem.into()));
    }
    Ok(Registration {
        client_id: response.client_id,
        client_secret: response.client_secret.filter(|it| !it.is_empty()),
        method: response.token_endpoint_auth_method.or(Some(method.to_owned())),
        redirect_uri: Some(redirect_uri.to_owned()),
        expires_at: response.client_secret_expires_at.filter(|it| *it != 0),
    })
}

/// Selects the authentication method: `none` if possible, because a native program cannot keep a secret.
/// Otherwise the first method of the server's list: Python's `mcp` lists basic authentication after the
/// form, and cannot revoke tokens with it.
fn method(auth_server: &AuthServerMetadata) -> &'static str {
    const SECRET: [&str; 2] = ["client_secret_basic", "client_secret_post"];
    let Some(listed) = &auth_server.token_endpoint_auth_methods_supported else {
        return "client_secret_basic";
    };
    if listed.iter().any(|it| it == "none") {
        return "none";
    }
    listed.iter().find_map(|it| SECRET.into_iter().find(|ours| it == ours)).unwrap_or("none")
}

/// Distinguishes native applications from web applications.
fn application_type(redirect_uri: &str) -> &'static str {
    let is_web = Url::parse(redirect_uri)
        .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && !is_loopback(&url));
    if is_web { "web" } else { "native" }
}

/// Client registration response (RFC 7591).
#[derive(Deserialize)]
struct RegistrationResponse {
    client_id: String,
    #[serde(default)]
    client_secret: Option<String>,
    #[serde(default, deserialize_with = "lenient_seconds")]
    client_secret_expires_at: Option<u64>,
    #[serde(default)]
    token_endpoint_auth_method: Option<String>,
}
