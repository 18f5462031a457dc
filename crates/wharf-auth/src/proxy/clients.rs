//! Who may ask people for access: clients that registered, and clients that publish who they are.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header, request::Parts};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use url::Url;
use wharf_model::{Error, Rate};

use super::redirect;
use crate::proxy::{
    consent_page,
    consent_page::Answer,
    records::{Client, Grant, UNUSED},
    routes::{Desk, YEAR_QUARTER, address},
    store::{Kept, Owner, digest},
};
use crate::{fetch::Fetch, jose::random_token};

/// How many clients may be registered without ever having been used.
const MOST_UNUSED: usize = 10_000;
/// How many registrations a user may have signed in with, of those that nobody used before.
const MOST_USED: usize = 64;
/// Whose registrations were that are in use, before they were their users'.
const EVERYBODY: &str = "used";
/// How many redirect URIs a client may have, and how long its name may be.
const MOST_REDIRECTS: usize = 10;
const LONGEST_NAME: usize = 200;
/// The largest registration, and the largest document, that is read.
const LARGEST: usize = 16 * 1024;
/// How many documents are remembered.
const MOST_DOCUMENTS: usize = 256;
/// How often the use of a registration is noted.
const DAY: Duration = Duration::from_secs(24 * 3600);
/// How long documents are believed: if they say nothing, and between which bounds.
const BELIEVED: [Duration; 3] =
    [Duration::from_secs(300), Duration::from_secs(60), Duration::from_secs(3600)];
/// How often documents are fetched, for all clients together.
const FETCHES: Rate = Rate { per_second: 5.0, burst: 50.0 };
/// How often they are fetched for one address.
const FETCHES_OF_ONE: Rate = Rate { per_second: 0.2, burst: 10.0 };

/// A client, and who vouches for it.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) client: Client,
    /// The host that publishes who it is.
    pub(super) vouched: Option<String>,
}

/// What a client says about itself: when it registers (RFC 7591), or in a document.
#[derive(Deserialize)]
struct Metadata {
    client_id: Option<String>,
    client_name: Option<String>,
    #[serde(default)]
    redirect_uris: Vec<String>,
    token_endpoint_auth_method: Option<String>,
    grant_types: Option<Vec<String>>,
    response_types: Option<Vec<String>>,
    client_secret: Option<Value>,
}

/// Why a registration is refused: the code, and what to tell.
struct Unfit(&'static str, String);

impl Metadata {
    fn check(&self, schemes: &[String]) -> Result<(), Unfit> {
        let no = |what: &str| Err(Unfit("invalid_client_metadata", what.to_owned()));
        if self.redirect_uris.is_empty() || self.redirect_uris.len() > MOST_REDIRECTS {
            return Err(Unfit("invalid_redirect_uri", "give 1 to 10 redirect_uris".into()));
        }
        for uri in &self.redirect_uris {
            redirect::check(uri, schemes)
                .map_err(|why| Unfit("invalid_redirect_uri", format!("redirect_uris: {why}")))?;
        }
        if self.client_name.as_ref().is_some_and(|name| name.chars().count() > LONGEST_NAME) {
            return no("client_name is longer than 200 characters");
        }
        let has = |all: &Option<Vec<String>>, one: &str| {
            all.as_ref().is_none_or(|all| all.iter().any(|it| it == one))
        };
        if !has(&self.grant_types, "authorization_code") || !has(&self.response_types, "code") {
            return no("only the grant type authorization_code with response type code is served");
        }
        Ok(())
    }

    fn name(&self, id: &str) -> String {
        self.client_name.clone().unwrap_or_else(|| id.to_owned())
    }
}

impl Desk {
    /// Registers a client.
    pub(super) async fn register(&self, body: &Bytes) -> Result<Answer, Error> {
        let unfit =
            |error, what: &str| consent_page::oauth_error(StatusCode::BAD_REQUEST, error, what);
        if body.len() > LARGEST {
            let status = StatusCode::PAYLOAD_TOO_LARGE;
            let what = "a registration is at most 16 KiB";
            return Ok(consent_page::oauth_error(status, "invalid_client_metadata", what));
        }
        let Ok(metadata) = serde_json::from_slice::<Metadata>(body) else {
            return Ok(unfit("invalid_client_metadata", "the body must be a JSON object"));
        };
        if let Err(Unfit(error, what)) = metadata.check(&self.settings.schemes) {
            return Ok(unfit(error, &what));
        }
        // What RFC 7591 says of a client that says nothing.
        let method =
            metadata.token_endpoint_auth_method.as_deref().unwrap_or("client_secret_basic");
        let secret = match method {
            "none" => None,
            "client_secret_basic" | "client_secret_post" => Some(random_token(32)),
            _ => {
                let what = "token_endpoint_auth_method: none, client_secret_basic or \
                            client_secret_post";
                return Ok(unfit("invalid_client_metadata", what));
            }
        };
        let id = random_token(16);
        let known = Client::known(id.clone(), metadata.name(&id), metadata.redirect_uris);
        let client = Client { secret: secret.as_deref().map(digest), used: false, ..known };
        let owner = Owner("unused", MOST_UNUSED);
        // Who fills the shelf must not keep everybody else from registering.
        self.shelf.put_last(&id, &client, owner, UNUSED).await?;
        let mut said = json!({
            "client_id": id,
            "client_id_issued_at": self.shelf.now().await? / 1000,
            "client_name": client.name,
            "redirect_uris": client.redirects,
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
        });
        if let Some(secret) = secret {
            said["client_secret"] = secret.into();
            // It ends with the registration, when nobody has used that for long.
            said["client_secret_expires_at"] = 0.into();
        }
        Ok(consent_page::json(StatusCode::CREATED, &said))
    }

    /// The client of this id, wherever it is known from.
    pub(super) async fn client(&self, id: &str, parts: &Parts) -> Result<Option<Known>, Error> {
        if let Some(client) = self.settings.clients.iter().find(|client| client.id == id) {
            return Ok(Some(Known { client: client.clone(), vouched: None }));
        }
        if is_document(id) {
            return self.document(id, parts).await;
        }
        let kept = self.shelf.get::<Client>(id).await?;
        Ok(kept.map(|kept| Known { client: kept.thing, vouched: None }))
    }

    /// Keeps a registration that a user signed in with, among those of the first who did.
    pub(super) async fn keep_client(&self, id: &str, user: &str, grant: &str) -> Result<(), Error> {
        let Some(mut kept) = self.registered(id).await? else { return Ok(()) };
        if !kept.thing.used || kept.is_of(EVERYBODY) {
            // What an older version kept for everybody may be anybody's.
            kept.thing.shared |= kept.is_of(EVERYBODY);
            self.make_room(user).await?;
            kept.belongs_to(user);
        }
        kept.thing.used = true;
        kept.thing.shared |= !kept.is_of(user);
        kept.thing.grant = Some(grant.to_owned());
        // Whoever was faster wanted the same.
        self.shelf.swap(kept, Some(YEAR_QUARTER)).await?;
        Ok(())
    }

    /// Notes that a registration is in use, now and then.
    pub(super) async fn touch_client(&self, id: &str, grant: &str) -> Result<(), Error> {
        let Some(mut kept) = self.registered(id).await? else { return Ok(()) };
        if kept.ends_within(self.shelf.now().await?, YEAR_QUARTER - DAY) {
            kept.thing.grant = Some(grant.to_owned());
            self.shelf.swap(kept, Some(YEAR_QUARTER)).await?;
        }
        Ok(())
    }

    /// Makes room for one more registration of a user's: what the user alone uses goes first, of that what lets nobody
    /// in, and of that what was not used for longest.
    async fn make_room(&self, user: &str) -> Result<(), Error> {
        // Those who come at the same time may have made it more than there should be.
        let all = self.shelf.list::<Client>(user, 2 * MOST_USED).await?;
        let surplus = (all.len() + 1).saturating_sub(MOST_USED);
        if surplus == 0 {
            return Ok(());
        }
        let mut by_worth = Vec::with_capacity(all.len());
        for kept in &all {
            let client = &kept.thing;
            let lets_in = match &client.grant {
                Some(grant) => self.shelf.get::<Grant>(grant).await?.is_some(),
                None => false,
            };
            // Nobody ends what others use by giving up a grant of their own.
            by_worth.push(((client.shared, lets_in, kept.ends()), &client.id));
        }
        by_worth.sort_unstable();
        for (_, id) in by_worth.into_iter().take(surplus) {
            self.shelf.take::<Client>(id).await?;
        }
        Ok(())
    }

    async fn registered(&self, id: &str) -> Result<Option<Kept<Client>>, Error> {
        if is_document(id) {
            return Ok(None);
        }
        self.shelf.get::<Client>(id).await
    }

    /// A client that publishes a document about itself, at the URL that is its id.
    async fn document(&self, id: &str, parts: &Parts) -> Result<Option<Known>, Error> {
        let Some(documents) = self.documents.as_ref().filter(|_| is_fit_for_document(id)) else {
            return Ok(None);
        };
        if let Some(known) = documents.recall(id) {
            return Ok(known);
        }
        // One address does not use up what there is for all.
        if let Some(address) = address(parts) {
            let key = format!("oauth documents {address}");
            if self.rates.take(&key, FETCHES_OF_ONE).taken().await.is_err() {
                return Err(Error::overloaded(Duration::from_secs(5)));
            }
        }
        if self.rates.take("oauth documents", FETCHES).taken().await.is_err() {
            return Err(Error::overloaded(Duration::from_secs(1)));
        }
        let (known, believed) = documents.fetch(id, &self.settings.schemes).await;
        documents.remember(id, known.clone(), believed);
        Ok(known)
    }
}

/// Whether a client's id is the URL of a document.
pub(super) fn is_document(id: &str) -> bool {
    id.starts_with("https://")
}

/// Whether the URL is one that a client may have for an id.
fn is_fit_for_document(id: &str) -> bool {
    let Ok(url) = Url::parse(id) else { return false };
    let plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    // A path with dots, or anything else that is written in two ways, would not be itself.
    plain && url.as_str() == id && url.path().len() > 1 && id.len() <= 512
}

/// Documents that clients publish about themselves, remembered for a while.
pub(super) struct Documents {
    fetch: Fetch,
    known: Mutex<BTreeMap<String, (Instant, Option<Known>)>>,
}

impl Documents {
    pub(super) fn new(fetch: Fetch) -> Self {
        Documents { fetch: fetch.limit(LARGEST), known: Mutex::default() }
    }

    fn recall(&self, id: &str) -> Option<Option<Known>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(id).filter(|(until, _)| *until > Instant::now()).map(|(_, known)| known.clone())
    }

    fn remember(&self, id: &str, document: Option<Known>, believed: Duration) {
        let now = Instant::now();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_DOCUMENTS {
            known.retain(|_, (until, _)| *until > now);
        }
        if known.len() >= MOST_DOCUMENTS {
            // What was not there first, then what ends first.
            let worth = |(_, (until, found)): &(&String, &(Instant, Option<Known>))| {
                (found.is_some(), *until)
            };
            if let Some(least) = known.iter().min_by_key(worth).map(|(id, _)| id.clone()) {
                known.remove(&least);
            }
        }
        known.insert(id.to_owned(), (now + believed, document));
    }

    async fn fetch(&self, id: &str, schemes: &[String]) -> (Option<Known>, Duration) {
        // What is not there is asked for again soon, but not at once.
        let nothing = (None, BELIEVED[1] / 6);
        let Ok(fetched) = self.fetch.get(id, HeaderMap::new()).await else { return nothing };
        let Ok(said) = fetched.json::<Metadata>() else { return nothing };
        let is_public = said.token_endpoint_auth_method.as_deref().is_none_or(|it| it == "none");
        let is_itself = said.client_id.as_deref() == Some(id) && said.client_name.is_some();
        let fits = said.check(schemes).is_ok() && is_public && said.client_secret.is_none();
        if fetched.status != StatusCode::OK || !is_itself || !fits {
            return nothing;
        }
        let client = Client::known(id.to_owned(), said.name(id), said.redirect_uris);
        let host = Url::parse(id).ok().and_then(|url| url.host_str().map(str::to_owned));
        (Some(Known { client, vouched: host }), believed(&fetched.headers))
    }
}

impl fmt::Debug for Documents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Documents").finish_non_exhaustive()
    }
}

/// How long a document may be believed, by what it says and within bounds.
fn believed(headers: &HeaderMap) -> Duration {
    let [usual, least, most] = BELIEVED;
    let control = headers.get(header::CACHE_CONTROL).and_then(|it| it.to_str().ok());
    let words = || control.unwrap_or_default().split(',').map(str::trim);
    if words().any(|it| it.eq_ignore_ascii_case("no-store") || it.eq_ignore_ascii_case("no-cache"))
    {
        return least;
    }
    let age = words().find_map(|it| it.strip_prefix("max-age=")?.parse().ok());
    age.map_or(usual, |seconds| Duration::from_secs(seconds).clamp(least, most))
}
