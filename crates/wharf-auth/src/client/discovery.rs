//! Who lets in: from a server to its authorization server.

use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;
use url::Url;
use wharf_model::{Error, excerpt};

use super::{
    failed,
    metadata::{Authority, Resource},
};
use crate::client::resource_url::is_this_machine;
use crate::fetch::{Fetch, FetchError};

const RESOURCE: &str = "/.well-known/oauth-protected-resource";
const OAUTH: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";
/// How many authorization servers of one server are looked at.
const MOST: usize = 16;

/// What a server says about who lets in.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// What the server calls itself, to the byte: tokens are asked for under this name.
    pub(super) resource: String,
    /// Where it says so.
    pub(super) metadata: Option<String>,
    pub(super) scopes: Option<Vec<String>>,
    pub(super) issuers: Vec<String>,
    pub(super) needs_proof: bool,
    /// Whether the server is its own authorization server, as in the first revision that had any.
    pub(super) is_own: bool,
}

/// Asks the server who lets in. `hint` is where a refusal said that it is written.
pub(super) async fn find(fetch: &Fetch, server: &Url, hint: Option<&str>) -> Result<Found, Error> {
    if let Some(hint) = hint {
        return match ask::<Resource>(fetch, hint).await? {
            Some(said) => found(server, said, hint),
            None => Err(failed(format!(
                "{} says that its metadata is at {:?}, but there is none",
                shown(server),
                excerpt(hint)
            ))),
        };
    }
    let origin = server.origin().ascii_serialization();
    let path = server.path();
    let places = [Some(path).filter(|it| *it != "/"), Some("")];
    for path in places.into_iter().flatten() {
        let place = format!("{origin}{RESOURCE}{path}");
        if let Some(said) = ask::<Resource>(fetch, &place).await? {
            return found(server, said, &place);
        }
    }
    Ok(Found {
        resource: server.as_str().strip_suffix('/').unwrap_or(server.as_str()).to_owned(),
        metadata: None,
        scopes: None,
        issuers: vec![origin],
        needs_proof: false,
        is_own: true,
    })
}

fn found(server: &Url, said: Resource, place: &str) -> Result<Found, Error> {
    if !is_for(&said.resource, server, place) {
        return Err(failed(format!(
            "The metadata of {} is for {:?}, which is another server: nothing was sent to anybody it names",
            shown(server),
            excerpt(&said.resource)
        )));
    }
    if said.authorization_servers.is_empty() {
        let problem = format!("{} names no authorization server in its metadata", shown(server));
        return Err(failed(problem));
    }
    let mut issuers = said.authorization_servers;
    issuers.truncate(MOST);
    Ok(Found {
        resource: said.resource,
        metadata: Some(place.to_owned()),
        scopes: said.scopes_supported,
        issuers,
        needs_proof: said.dpop_bound_access_tokens_required,
        is_own: false,
    })
}

/// Whether what is published at `place` about `resource` is about the server.
fn is_for(resource: &str, server: &Url, place: &str) -> bool {
    let Ok(url) = Url::parse(resource) else { return false };
    let is_plain = url.fragment().is_none()
        && url.query().is_none()
        && url.username().is_empty()
        && url.password().is_none();
    if !is_plain || url.origin() != server.origin() {
        return false;
    }
    let path = |url: &Url| url.path().trim_end_matches('/').to_owned();
    // The one place where a whole origin may speak for what is below it: nobody who has but a path
    // there can write to it.
    let root = format!("{}{RESOURCE}", server.origin().ascii_serialization());
    path(&url) == path(server) || (path(&url).is_empty() && place == root)
}

/// Asks an authorization server about itself.
pub(super) async fn authority(fetch: &Fetch, issuer: &str) -> Result<Authority, Error> {
    let url = issuer_url(issuer)?;
    let origin = url.origin().ascii_serialization();
    let places = match url.path().trim_end_matches('/') {
        "" => vec![format!("{origin}{OAUTH}"), format!("{origin}{OPENID}")],
        path => vec![
            format!("{origin}{OAUTH}{path}"),
            format!("{origin}{OPENID}{path}"),
            format!("{origin}{path}{OPENID}"),
        ],
    };
    for place in places {
        let Some(said) = ask::<Authority>(fetch, &place).await? else { continue };
        if said.issuer != issuer {
            return Err(failed(format!(
                "The metadata of the authorization server {:?} says that it is {:?}: it is not used",
                excerpt(issuer),
                excerpt(&said.issuer)
            )));
        }
        return Ok(said);
    }
    Err(failed(format!(
        "The authorization server {:?} publishes no metadata that we know of",
        excerpt(issuer)
    )))
}

/// Asks a server that is its own authorization server, or supposes what it would say.
pub(super) async fn own_authority(fetch: &Fetch, server: &Url) -> Result<Authority, Error> {
    let origin = server.origin().ascii_serialization();
    for well_known in [OAUTH, OPENID] {
        let Some(said) = ask::<Authority>(fetch, &format!("{origin}{well_known}")).await? else {
            continue;
        };
        // Nobody said how the issuer is written, but it is this server and no other.
        if said.issuer.strip_suffix('/').unwrap_or(&said.issuer) != origin {
            return Err(failed(format!(
                "The metadata of {origin} says that it is {:?}: it is not used",
                excerpt(&said.issuer)
            )));
        }
        return Ok(said);
    }
    let endpoint = |path: &str| Some(format!("{origin}{path}"));
    Ok(Authority {
        authorization_endpoint: endpoint("/authorize"),
        token_endpoint: endpoint("/token"),
        registration_endpoint: endpoint("/register"),
        code_challenge_methods_supported: Some(vec!["S256".into()]),
        // What the revision that had no metadata took for granted.
        token_endpoint_auth_methods_supported: None,
        issuer: origin,
        ..Authority::default()
    })
}

pub(super) fn issuer_url(issuer: &str) -> Result<Url, Error> {
    let bad = |why: &str| {
        failed(format!("The authorization server {:?} is not asked: {why}", excerpt(issuer)))
    };
    // People are shown who asks them: nothing in it may look like something else.
    if !issuer.bytes().all(|it| it.is_ascii_graphic()) {
        return Err(bad("an issuer has no blanks, no control characters and ASCII letters only"));
    }
    let url = Url::parse(issuer).map_err(|error| bad(&error.to_string()))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("an issuer has no user and no password"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(bad("an issuer has no query and no fragment"));
    }
    let is_safe = url.scheme() == "https" || (url.scheme() == "http" && is_this_machine(&url));
    if is_safe { Ok(url) } else { Err(bad("it must begin with https://")) }
}

/// What is published at `place`; nothing if it is not there.
async fn ask<T: DeserializeOwned>(fetch: &Fetch, place: &str) -> Result<Option<T>, Error> {
    let answer = fetch.get(place, HeaderMap::new()).await?;
    if answer.status != StatusCode::OK {
        return Ok(None);
    }
    match answer.json() {
        Ok(said) => Ok(Some(said)),
        // A page for people, which some servers have at every path.
        Err(FetchError::Garbled(_)) if !is_json(&answer.headers) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(http::header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    kind.is_some_and(|kind| kind.to_ascii_lowercase().contains("json"))
}

pub(super) fn shown(server: &Url) -> String {
    format!("{}{}", server.origin().ascii_serialization(), server.path())
}
