//! Discovery: fetches protected resource metadata (RFC 9728), which names the authorization servers.

use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use url::Url;
use wharf_model::{Error, excerpt};

use super::{auth_server_metadata::lenient_bool, failed};
use crate::client::auth_server_metadata::AuthServerMetadata;
use crate::fetch::{Fetch, FetchError};

const RESOURCE_METADATA_PATH: &str = "/.well-known/oauth-protected-resource";
/// Maximum length of the metadata that is stored with a login.
const MAX_STORED_BYTES: usize = 16 << 10;
/// Limit of authorization servers of one resource.
const MAX_ISSUERS: usize = 16;

/// Metadata of a server and of its authorization server. It is stored with the login, so that a token refresh
/// needs no discovery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DiscoveredMetadata {
    pub(super) resource: DiscoveredResource,
    pub(super) auth_server: AuthServerMetadata,
}

impl DiscoveredMetadata {
    /// Returns whether a refresh with `other` would send the same request.
    pub(super) fn refreshes_like(&self, other: &DiscoveredMetadata) -> bool {
        let request = |it: &DiscoveredMetadata| {
            let AuthServerMetadata {
                issuer,
                token_endpoint,
                token_endpoint_auth_methods_supported: methods,
                ..
            } = it.auth_server.clone();
            (it.resource.resource.clone(), issuer, token_endpoint, methods)
        };
        request(self) == request(other)
    }

    /// Returns a copy to store with a login, unless it is too long.
    pub(super) fn storable(&self) -> Option<Box<DiscoveredMetadata>> {
        let length = serde_json::to_vec(self).map_or(usize::MAX, |it| it.len());
        (length <= MAX_STORED_BYTES).then(|| Box::new(self.clone()))
    }
}

/// Protected resource metadata (RFC 9728).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResourceDocument {
    pub(super) resource: String,
    pub(super) authorization_servers: Vec<String>,
    pub(super) scopes_supported: Option<Vec<String>>,
    #[serde(deserialize_with = "lenient_bool")]
    pub(super) dpop_bound_access_tokens_required: bool,
}

/// Result of the discovery of a protected resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DiscoveredResource {
    /// Resource identifier exactly as published; token requests use it.
    pub(super) resource: String,
    /// URL of the metadata.
    pub(super) metadata: Option<String>,
    pub(super) scopes: Option<Vec<String>>,
    pub(super) issuers: Vec<String>,
    pub(super) requires_dpop: bool,
    /// The server is its own authorization server, as in the first revision with authorization.
    pub(super) is_own_issuer: bool,
}

/// Discovers the metadata of a server. `hint` is the `resource_metadata` of a challenge.
pub(super) async fn discover_resource(
    fetch: &Fetch,
    server: &Url,
    hint: Option<&str>,
) -> Result<DiscoveredResource, Error> {
    if let Some(hint) = hint {
        return match fetch_json::<ResourceDocument>(fetch, hint).await? {
            Some(document) => validated(server, document, hint),
            None => Err(failed(format!(
                "{} names {:?} as its metadata, but there is none",
                display_url(server),
                excerpt(hint)
            ))),
        };
    }
    let origin = server.origin().ascii_serialization();
    let path = server.path();
    let locations = [Some(path).filter(|it| *it != "/"), Some("")];
    for path in locations.into_iter().flatten() {
        let location = format!("{origin}{RESOURCE_METADATA_PATH}{path}");
        if let Some(document) = fetch_json::<ResourceDocument>(fetch, &location).await? {
            return validated(server, document, &location);
        }
    }
    Ok(DiscoveredResource {
        resource: server.as_str().strip_suffix('/').unwrap_or(server.as_str()).to_owned(),
        metadata: None,
        scopes: None,
        issuers: vec![origin],
        requires_dpop: false,
        is_own_issuer: true,
    })
}

fn validated(
    server: &Url,
    document: ResourceDocument,
    location: &str,
) -> Result<DiscoveredResource, Error> {
    if !describes(&document.resource, server, location) {
        return Err(failed(format!(
            "the metadata of {} is for {:?}, which is another server: it was not used",
            display_url(server),
            excerpt(&document.resource)
        )));
    }
    if document.authorization_servers.is_empty() {
        let problem =
            format!("{} names no authorization server in its metadata", display_url(server));
        return Err(failed(problem));
    }
    let mut issuers = document.authorization_servers;
    issuers.truncate(MAX_ISSUERS);
    Ok(DiscoveredResource {
        resource: document.resource,
        metadata: Some(location.to_owned()),
        scopes: document.scopes_supported,
        issuers,
        requires_dpop: document.dpop_bound_access_tokens_required,
        is_own_issuer: false,
    })
}

/// Returns true if metadata for `resource`, published at `location`, describes the server.
fn describes(resource: &str, server: &Url, location: &str) -> bool {
    let Ok(url) = Url::parse(resource) else { return false };
    let is_plain = url.fragment().is_none()
        && url.query().is_none()
        && url.username().is_empty()
        && url.password().is_none();
    if !is_plain || url.origin() != server.origin() {
        return false;
    }
    let path = |url: &Url| url.path().trim_end_matches('/').to_owned();
    // Only the root metadata may describe the whole origin: a tenant with a path of its own cannot write
    // there.
    let root = format!("{}{RESOURCE_METADATA_PATH}", server.origin().ascii_serialization());
    path(&url) == path(server) || (path(&url).is_empty() && location == root)
}

/// Fetches the JSON document at `location`; none if there is none.
pub(super) async fn fetch_json<T: DeserializeOwned>(
    fetch: &Fetch,
    location: &str,
) -> Result<Option<T>, Error> {
    let answer = fetch.get(location, HeaderMap::new()).await?;
    if answer.status != StatusCode::OK {
        return Ok(None);
    }
    match answer.json() {
        Ok(document) => Ok(Some(document)),
        // An HTML page, which some servers return for every path.
        Err(FetchError::InvalidResponse { .. }) if !is_json(&answer.headers) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(http::header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    kind.is_some_and(|kind| kind.to_ascii_lowercase().contains("json"))
}

pub(super) fn display_url(server: &Url) -> String {
    format!("{}{}", server.origin().ascii_serialization(), server.path())
}
