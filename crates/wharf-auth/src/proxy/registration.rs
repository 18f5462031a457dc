//! Dynamic client registration (RFC 7591), and the checks of client metadata.

use bytes::Bytes;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use wharf_model::Error;

use super::redirect_uri;
use crate::jose::random_token;
use crate::proxy::{
    consent_page,
    consent_page::ProxyResponse,
    records::{ClientRecord, UNUSED_CLIENT_TTL},
    routes::ProxyState,
    store::{RecordOwner, digest},
};

/// Limit of registrations that were never used.
const MAX_UNUSED_CLIENTS: usize = 10_000;
/// Limits of a client: redirect URIs, and characters of its name.
const MAX_REDIRECTS: usize = 10;

const MAX_NAME_CHARS: usize = 200;

/// Limit of a registration or document.
pub(super) const MAX_DOCUMENT_BYTES: usize = 16 * 1024;

/// Client metadata: in a registration (RFC 7591) or a document.
#[derive(Deserialize)]
pub(super) struct ClientMetadata {
    pub(super) client_id: Option<String>,
    pub(super) client_name: Option<String>,
    #[serde(default)]
    pub(super) redirect_uris: Vec<String>,
    pub(super) token_endpoint_auth_method: Option<String>,
    pub(super) grant_types: Option<Vec<String>>,
    pub(super) response_types: Option<Vec<String>>,
    pub(super) client_secret: Option<Value>,
}

/// Rejection of a registration: error code and description.
pub(super) struct RegistrationError(&'static str, String);

impl ClientMetadata {
    pub(super) fn check(&self, schemes: &[String]) -> Result<(), RegistrationError> {
        let no = |what: &str| Err(RegistrationError("invalid_client_metadata", what.to_owned()));
        if self.redirect_uris.is_empty() || self.redirect_uris.len() > MAX_REDIRECTS {
            return Err(RegistrationError(
                "invalid_redirect_uri",
                "give 1 to 10 redirect_uris".into(),
            ));
        }
        for uri in &self.redirect_uris {
            redirect_uri::check(uri, schemes).map_err(|why| {
                RegistrationError("invalid_redirect_uri", format!("redirect_uris: {why}"))
            })?;
        }
        if self.client_name.as_ref().is_some_and(|name| name.chars().count() > MAX_NAME_CHARS) {
            return no("client_name is longer than 200 characters");
        }
        let has = |all: &Option<Vec<String>>, one: &str| {
            all.as_ref().is_none_or(|all| all.iter().any(|it| it == one))
        };
        if !has(&self.grant_types, "authorization_code") || !has(&self.response_types, "code") {
            return no(
                "only the grant type authorization_code with response type code is supported",
            );
        }
        Ok(())
    }

    pub(super) fn name(&self, id: &str) -> String {
        self.client_name.clone().unwrap_or_else(|| id.to_owned())
    }
}

impl ProxyState {
    /// Registers a client.
    pub(super) async fn register(&self, body: &Bytes) -> Result<ProxyResponse, Error> {
        let rejected =
            |error, what: &str| consent_page::oauth_error(StatusCode::BAD_REQUEST, error, what);
        if body.len() > MAX_DOCUMENT_BYTES {
            let status = StatusCode::PAYLOAD_TOO_LARGE;
            let what = "a registration is at most 16 KiB";
            return Ok(consent_page::oauth_error(status, "invalid_client_metadata", what));
        }
        let Ok(metadata) = serde_json::from_slice::<ClientMetadata>(body) else {
            return Ok(rejected("invalid_client_metadata", "the body must be a JSON object"));
        };
        if let Err(RegistrationError(error, what)) = metadata.check(&self.settings.schemes) {
            return Ok(rejected(error, &what));
        }
        // Default of RFC 7591.
        let method =
            metadata.token_endpoint_auth_method.as_deref().unwrap_or("client_secret_basic");
        let secret = match method {
            "none" => None,
            "client_secret_basic" | "client_secret_post" => Some(random_token(32)),
            _ => {
                let what = "token_endpoint_auth_method: none, client_secret_basic or \
                            client_secret_post";
                return Ok(rejected("invalid_client_metadata", what));
            }
        };
        let id = random_token(16);
        let known = ClientRecord::known(id.clone(), metadata.name(&id), metadata.redirect_uris);
        let client = ClientRecord { secret: secret.as_deref().map(digest), used: false, ..known };
        let owner = RecordOwner("unused", MAX_UNUSED_CLIENTS);
        // Evicts the oldest, so that a flood of registrations does not lock out other clients.
        self.store.put_evicting(&id, &client, owner, UNUSED_CLIENT_TTL).await?;
        let mut document = json!({
            "client_id": id,
            "client_id_issued_at": self.store.now().await? / 1000,
            "client_name": client.name,
            "redirect_uris": client.redirects,
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
        });
        if let Some(secret) = secret {
            document["client_secret"] = secret.into();
            // Never expires by itself: it ends with the registration, which is removed after a long time
            // without use.
            document["client_secret_expires_at"] = 0.into();
        }
        Ok(consent_page::json(StatusCode::CREATED, &document))
    }
}
