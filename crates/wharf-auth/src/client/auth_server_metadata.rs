//! Authorization server metadata (RFC 8414, OpenID Connect Discovery): fetches it, and checks that it names the expected
//! issuer and announces PKCE with S256.

use serde::{Deserialize, Deserializer, Serialize};
use url::Url;
use wharf_model::{Error, excerpt};

use crate::client::{failed, resource_metadata::fetch_json, server_url::is_loopback};
use crate::fetch::Fetch;

const OAUTH_METADATA_PATH: &str = "/.well-known/oauth-authorization-server";

const OPENID_METADATA_PATH: &str = "/.well-known/openid-configuration";

/// Authorization server metadata (RFC 8414, OpenID Connect Discovery).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct AuthServerMetadata {
    pub(super) issuer: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) authorization_endpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) token_endpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) registration_endpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) revocation_endpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) scopes_supported: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dpop_signing_alg_values_supported: Option<Vec<String>>,
    #[serde(deserialize_with = "lenient_bool")]
    pub(super) authorization_response_iss_parameter_supported: bool,
    #[serde(deserialize_with = "lenient_bool")]
    pub(super) client_id_metadata_document_supported: bool,
}

impl AuthServerMetadata {
    /// Refuses an authorization server that does not announce PKCE with S256.
    pub(super) fn require_s256(&self) -> Result<(), Error> {
        let methods = self.code_challenge_methods_supported.as_deref().unwrap_or_default();
        match methods.iter().any(|it| it == "S256") {
            true => Ok(()),
            false => Err(failed(format!(
                "the authorization server {:?} does not announce PKCE with S256, which protects codes against theft: it is not used",
                excerpt(&self.issuer)
            ))),
        }
    }
}

/// Fetches the metadata of an authorization server.
pub(super) async fn fetch_auth_server(
    fetch: &Fetch,
    issuer: &str,
) -> Result<AuthServerMetadata, Error> {
    let url = issuer_url(issuer)?;
    let origin = url.origin().ascii_serialization();
    let locations = match url.path().trim_end_matches('/') {
        "" => vec![
            format!("{origin}{OAUTH_METADATA_PATH}"),
            format!("{origin}{OPENID_METADATA_PATH}"),
        ],
        path => vec![
            format!("{origin}{OAUTH_METADATA_PATH}{path}"),
            format!("{origin}{OPENID_METADATA_PATH}{path}"),
            format!("{origin}{path}{OPENID_METADATA_PATH}"),
        ],
    };
    for location in locations {
        let Some(document) = fetch_json::<AuthServerMetadata>(fetch, &location).await? else {
            continue;
        };
        if document.issuer != issuer {
            return Err(failed(format!(
                "the metadata of the authorization server {:?} names the issuer {:?}: it is not used",
                excerpt(issuer),
                excerpt(&document.issuer)
            )));
        }
        return Ok(document);
    }
    Err(failed(format!(
        "the authorization server {:?} publishes no metadata (RFC 8414, OpenID Connect Discovery)",
        excerpt(issuer)
    )))
}

/// Fetches the metadata of a server that is its own authorization server, or uses the default endpoints.
pub(super) async fn fetch_own_auth_server(
    fetch: &Fetch,
    server: &Url,
) -> Result<AuthServerMetadata, Error> {
    let origin = server.origin().ascii_serialization();
    for well_known in [OAUTH_METADATA_PATH, OPENID_METADATA_PATH] {
        let Some(document) =
            fetch_json::<AuthServerMetadata>(fetch, &format!("{origin}{well_known}")).await?
        else {
            continue;
        };
        // The exact spelling of the issuer is not known here, but it must be this server.
        if document.issuer.strip_suffix('/').unwrap_or(&document.issuer) != origin {
            return Err(failed(format!(
                "the metadata of {origin} names the issuer {:?}: it is not used",
                excerpt(&document.issuer)
            )));
        }
        return Ok(document);
    }
    let endpoint = |path: &str| Some(format!("{origin}{path}"));
    Ok(AuthServerMetadata {
        authorization_endpoint: endpoint("/authorize"),
        token_endpoint: endpoint("/token"),
        registration_endpoint: endpoint("/register"),
        code_challenge_methods_supported: Some(vec!["S256".into()]),
        // Default of the revision without metadata.
        token_endpoint_auth_methods_supported: None,
        issuer: origin,
        ..AuthServerMetadata::default()
    })
}

pub(super) fn issuer_url(issuer: &str) -> Result<Url, Error> {
    let bad = |why: &str| failed(format!("invalid issuer {:?}: {why}", excerpt(issuer)));
    // The issuer is shown to the user: characters that could disguise it are rejected.
    if !issuer.bytes().all(|it| it.is_ascii_graphic()) {
        return Err(bad("an issuer has no spaces or control characters, and ASCII letters only"));
    }
    let url = Url::parse(issuer).map_err(|error| bad(&error.to_string()))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("an issuer has no user and no password"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(bad("an issuer has no query and no fragment"));
    }
    let is_safe = url.scheme() == "https" || (url.scheme() == "http" && is_loopback(&url));
    if is_safe { Ok(url) } else { Err(bad("it must begin with https://")) }
}

/// Reads a boolean; any other value is false.
pub(super) fn lenient_bool<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    let value = serde_json::Value::deserialize(from)?;
    Ok(value.as_bool().unwrap_or_default())
}
