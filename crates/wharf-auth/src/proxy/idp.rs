//! This server as a client of the identity provider.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::prelude::{BASE64_STANDARD, Engine};
use http::{HeaderMap, HeaderValue, header};
use serde::Deserialize;
use serde_json::Value;
use tokio::{sync::Mutex, time::Instant};
use url::{Url, form_urlencoded};

use super::provider::{Kind, Provider};
use crate::proxy::records::{Identity, Tokens};
use crate::{
    fetch::{Fetch, Fetched},
    jose::{Algorithm, Claims, JwkSet, Unverified, b64, same, sha256},
};

/// How long is believed what the provider said about itself.
const FRESH: Duration = Duration::from_secs(3600);
/// How long it is left alone when it does not answer.
const SULK: Duration = Duration::from_secs(5);
/// How often its keys are fetched at most because they do not fit.
const PAUSE: Duration = Duration::from_secs(10);
/// How far its clock may be off.
const SKEW: u64 = 60;
/// The most that is kept of what it says about a user.
const CLAIMS: usize = 16 * 1024;
/// The longest token of its that is kept.
const TOKEN: usize = 16 * 1024;

/// Why it did not work, for the operator: a client is told less.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) why: String,
    /// Whether the provider said that access has ended, for good.
    pub(super) is_final: bool,
}

impl Refused {
    fn new(why: impl Into<String>) -> Self {
        Refused { why: why.into(), is_final: false }
    }
}

pub(super) struct Idp {
    pub(super) provider: Provider,
    fetch: Fetch,
    /// Where the provider sends browsers back to.
    callback: String,
    found: Mutex<Found<Endpoints>>,
    keys: Mutex<Keys>,
}

/// What was found, if anything, and when.
type Found<T> = Option<(Instant, Result<T, Refused>)>;

#[derive(Default)]
struct Keys {
    found: Found<JwkSet>,
    /// When they were fetched because they did not fit.
    again: Option<Instant>,
}

/// Where a provider is asked for what.
#[derive(Clone)]
struct Endpoints {
    authorize: String,
    token: String,
    keys: Option<String>,
    secret_in_body: bool,
    names_itself: bool,
}

/// What an OpenID provider says about itself.
#[derive(Deserialize)]
struct Discovered {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// What a token endpoint answers.
#[derive(Deserialize)]
struct Answered {
    access_token: Option<String>,
    refresh_token: Option<String>,
    id_token: Option<String>,
    #[serde(default)]
    expires_in: Option<Value>,
    error: Option<String>,
}

/// Secrets of one sign-in, of which the provider sees only some.
pub(super) struct Trip<'a> {
    pub(super) state: &'a str,
    pub(super) nonce: &'a str,
    pub(super) verifier: &'a str,
}

impl Idp {
    pub(super) fn new(provider: Provider, fetch: Fetch, callback: String) -> Self {
        let (found, keys) = (Mutex::default(), Mutex::default());
        Idp { provider, fetch, callback, found, keys }
    }

    /// Where the browser goes to sign in.
    pub(super) async fn sign_in(&self, trip: &Trip<'_>) -> Result<Url, Refused> {
        let endpoints = self.endpoints().await?;
        let mut url = Url::parse(&endpoints.authorize)
            .ok()
            .filter(|url| matches!(url.scheme(), "https" | "http"))
            .ok_or_else(|| Refused::new("the authorization endpoint is no URL"))?;
        let challenge = b64(sha256(trip.verifier.as_bytes()));
        let mut pairs = url.query_pairs_mut();
        pairs.append_pair("response_type", "code").append_pair("client_id", &self.provider.id);
        pairs.append_pair("redirect_uri", &self.callback).append_pair("state", trip.state);
        pairs
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        if !self.provider.scopes.is_empty() {
            pairs.append_pair("scope", &self.provider.scopes.join(" "));
        }
        if self.is_oidc() {
            pairs.append_pair("nonce", trip.nonce);
        }
        pairs.extend_pairs(&self.provider.parameters);
        drop(pairs);
        Ok(url)
    }

    /// Whether an answer is this provider's, as far as it says whose it is (RFC 9207).
    pub(super) async fn is_from_here(&self, iss: Option<&str>) -> Result<bool, Refused> {
        let Kind::Oidc { issuer } = &self.provider.kind else {
            // It has no name that it could give; one that gives a name is another.
            return Ok(iss.is_none());
        };
        let must = self.endpoints().await?.names_itself;
        Ok(iss.map_or(!must, |iss| iss == issuer))
    }

    /// Redeems a code: who signed in, and the tokens with which to act for them.
    pub(super) async fn redeem(
        &self,
        code: &str,
        verifier: &str,
        nonce: &str,
        now: u64,
    ) -> Result<(Identity, Tokens), Refused> {
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &*self.callback),
            ("code_verifier", verifier),
        ];
        let answered = self.ask_for_tokens(&fields).await?;
        let id_token = answered.id_token.clone();
        let tokens = tokens(answered, now)?;
        let who = match &self.provider.kind {
            Kind::Oidc { issuer } => {
                let token = id_token.ok_or_else(|| Refused::new("there is no ID token"))?;
                let claims = self.verified(&token).await?;
                self.check(&claims, issuer, nonce)?;
                let subject = claims.text("sub").unwrap_or_default().to_owned();
                Identity { subject, claims: Value::Object(claims.as_map().clone()) }
            }
            Kind::OAuth { userinfo, subject, .. } => {
                self.look_up(userinfo, subject, &tokens.access).await?
            }
        };
        bounded(who).map(|who| (who, tokens))
    }

    /// New tokens for old.
    pub(super) async fn renew(&self, old: &Tokens, now: u64) -> Result<Tokens, Refused> {
        let refresh = old.refresh.as_deref();
        let refresh = refresh.ok_or_else(|| Refused::new("there is no refresh token"))?;
        let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh)];
        let mut new = tokens(self.ask_for_tokens(&fields).await?, now)?;
        // A provider that does not rotate says nothing.
        new.refresh = new.refresh.or_else(|| Some(refresh.to_owned()));
        Ok(new)
    }

    fn is_oidc(&self) -> bool {
        matches!(self.provider.kind, Kind::Oidc { .. })
    }

    async fn ask_for_tokens(&self, fields: &[(&str, &str)]) -> Result<Answered, Refused> {
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
        let fetched = fetched.map_err(|error| Refused::new(format!("token endpoint: {error}")))?;
        let status = fetched.status;
        // What a body says that is no answer may be anything, so nobody repeats it.
        let answered = fetched.json::<Answered>();
        let answered =
            answered.map_err(|_| Refused::new(format!("token endpoint: HTTP {status}")))?;
        match &answered.error {
            Some(error) => {
                let error: String = error.chars().filter(char::is_ascii_graphic).take(60).collect();
                // The second is how GitHub says it.
                let is_final = matches!(&*error, "invalid_grant" | "bad_refresh_token");
                Err(Refused { why: format!("token endpoint: {error}"), is_final })
            }
            None if !status.is_success() => {
                Err(Refused::new(format!("token endpoint: HTTP {status}")))
            }
            None => Ok(answered),
        }
    }

    async fn endpoints(&self) -> Result<Endpoints, Refused> {
        let in_body = self.provider.secret_in_body;
        let issuer = match &self.provider.kind {
            Kind::Oidc { issuer } => issuer,
            Kind::OAuth { authorize, token, .. } => {
                return Ok(Endpoints {
                    authorize: authorize.clone(),
                    token: token.clone(),
                    keys: None,
                    secret_in_body: in_body.unwrap_or(false),
                    names_itself: false,
                });
            }
        };
        let mut found = self.found.lock().await;
        if let Some(known) = still(&found, FRESH) {
            return known;
        }
        let endpoints = self.find(issuer, in_body).await;
        *found = Some((Instant::now(), endpoints.clone()));
        endpoints
    }

    async fn find(&self, issuer: &str, in_body: Option<bool>) -> Result<Endpoints, Refused> {
        let said = self.discover(issuer).await?;
        let methods = said.token_endpoint_auth_methods_supported;
        let is_near = crate::fetch::is_this_machine(issuer);
        let places = [&said.authorization_endpoint, &said.token_endpoint, &said.jwks_uri];
        if !is_near && places.iter().any(|url| crate::fetch::is_this_machine(url)) {
            return Err(Refused::new("the provider says that it is on this machine"));
        }
        if !is_near && !said.authorization_endpoint.starts_with("https://") {
            return Err(Refused::new("the authorization endpoint must be an https URL"));
        }
        let takes =
            |method: &str| methods.as_ref().is_none_or(|all| all.iter().any(|it| it == method));
        Ok(Endpoints {
            authorize: said.authorization_endpoint,
            token: said.token_endpoint,
            keys: Some(said.jwks_uri),
            secret_in_body: in_body.unwrap_or_else(|| !takes("client_secret_basic")),
            names_itself: said.authorization_response_iss_parameter_supported,
        })
    }

    async fn discover(&self, issuer: &str) -> Result<Discovered, Refused> {
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let said: Discovered = self.read(&url, HeaderMap::new()).await?;
        if said.issuer != issuer {
            let said: String = said.issuer.chars().take(200).collect();
            return Err(Refused::new(format!(
                "the provider calls itself {said:?}: give that as its issuer"
            )));
        }
        Ok(said)
    }

    async fn verified(&self, token: &str) -> Result<Claims, Refused> {
        let wrong = |why: &dyn std::fmt::Display| Refused::new(format!("ID token: {why}"));
        let token = Unverified::parse(token).map_err(|error| wrong(&error))?;
        let mut last = wrong(&"no key of the provider's is known");
        // Keys that do not fit may be old ones.
        for again in [false, true] {
            let keys = self.keys(again).await?;
            let wanted = token.header.kid.as_deref();
            let fits = |kid: Option<&str>| wanted.is_none() || kid.is_none() || kid == wanted;
            for key in keys.keys.iter().filter(|key| fits(key.kid())) {
                match token.verify(key, Algorithm::ALL) {
                    Ok(claims) => return Ok(claims),
                    Err(error) => last = wrong(&error),
                }
            }
        }
        Err(last)
    }

    /// The provider's keys: fetched again if those that are known do not fit, but not all the time.
    async fn keys(&self, again: bool) -> Result<JwkSet, Refused> {
        let url = self.endpoints().await?.keys;
        let url = url.ok_or_else(|| Refused::new("the provider has no keys"))?;
        let mut known = self.keys.lock().await;
        let is_recent = known.again.is_some_and(|at| at.elapsed() < PAUSE);
        if let Some(keys) = still(&known.found, FRESH).filter(|_| !again || is_recent) {
            return keys;
        }
        let old = known.found.as_ref().and_then(|(_, found)| found.as_ref().ok().cloned());
        if let Some(old) = old.clone().filter(|_| is_recent) {
            return Ok(old);
        }
        if again || old.is_some() {
            known.again = Some(Instant::now());
        }
        match (self.read::<JwkSet>(&url, HeaderMap::new()).await, old) {
            // Old keys do while there are no others.
            (Err(_), Some(old)) => Ok(old),
            (keys, _) => {
                known.found = Some((Instant::now(), keys.clone()));
                keys
            }
        }
    }

    /// Whether an ID token is for us, from there, of now and of this sign-in.
    fn check(&self, claims: &Claims, issuer: &str, nonce: &str) -> Result<(), Refused> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
        let (id, audience) = (&*self.provider.id, claims.texts("aud"));
        let party = claims.text("azp");
        let wrong = |what: &str| Err(Refused::new(format!("ID token: {what}")));
        if claims.text("iss") != Some(issuer) {
            return wrong("it is another issuer's");
        }
        if !audience.contains(&id) || party.is_some_and(|it| it != id) {
            return wrong("it is for another client");
        }
        if audience.len() > 1 && party.is_none() {
            return wrong("it is for several clients and does not say whose");
        }
        if claims.time("exp").is_none_or(|exp| exp.saturating_add(SKEW) <= now) {
            return wrong("it has expired");
        }
        if claims.time("iat").is_some_and(|iat| iat > now.saturating_add(SKEW)) {
            return wrong("it is from the future: do the clocks agree?");
        }
        if !same(claims.text("nonce").unwrap_or_default().as_bytes(), nonce.as_bytes()) {
            return wrong("it is of another sign-in");
        }
        Ok(())
    }

    async fn look_up(&self, url: &str, member: &str, access: &str) -> Result<Identity, Refused> {
        let bearer = HeaderValue::try_from(format!("Bearer {access}"));
        let mut bearer = bearer.map_err(|_| Refused::new("the access token is no header"))?;
        bearer.set_sensitive(true);
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, bearer)]);
        let claims: Value = self.read(url, headers).await?;
        let subject = match claims.get(member) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => return Err(Refused::new(format!("userinfo: it has no {member:?}"))),
        };
        Ok(Identity { subject, claims })
    }

    async fn read<T: serde::de::DeserializeOwned>(
        &self,
        url: &str,
        headers: HeaderMap,
    ) -> Result<T, Refused> {
        let fetched: Fetched =
            self.fetch.get(url, headers).await.map_err(|error| Refused::new(error.to_string()))?;
        if !fetched.status.is_success() {
            return Err(Refused::new(format!("{url}: HTTP {}", fetched.status)));
        }
        fetched.json().map_err(|error| Refused::new(format!("{url}: {error}")))
    }
}

/// What was found not too long ago; that nothing was found, for a short while.
fn still<T: Clone>(found: &Found<T>, fresh: Duration) -> Option<Result<T, Refused>> {
    let (at, found) = found.as_ref()?;
    let fresh = if found.is_ok() { fresh } else { SULK };
    (at.elapsed() < fresh).then(|| found.clone())
}

fn tokens(answered: Answered, now: u64) -> Result<Tokens, Refused> {
    let access = answered.access_token.ok_or_else(|| Refused::new("there is no access token"))?;
    let refresh = answered.refresh_token;
    if access.len() > TOKEN || refresh.as_ref().is_some_and(|it| it.len() > TOKEN) {
        return Err(Refused::new("a token is too long"));
    }
    // Some write the number as a text.
    let seconds = answered.expires_in.and_then(|it| match it {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    });
    let until = seconds.map(|it: u64| now.saturating_add(it.saturating_mul(1000)));
    Ok(Tokens { access, refresh, until })
}

/// What is said about somebody, unless there is too much of it: who decides by it must not see half of it.
fn bounded(who: Identity) -> Result<Identity, Refused> {
    if who.subject.is_empty() || who.subject.len() > 256 {
        return Err(Refused::new("the provider does not say who it is"));
    }
    if who.claims.to_string().len() > CLAIMS {
        return Err(Refused::new("the provider says more than 16 KiB about the user"));
    }
    Ok(who)
}

fn basic(id: &str, secret: &str) -> Result<HeaderValue, Refused> {
    let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let text =
        format!("Basic {}", BASE64_STANDARD.encode(format!("{}:{}", encode(id), encode(secret))));
    let mut value = HeaderValue::try_from(text).map_err(|_| Refused::new("the id is no header"))?;
    value.set_sensitive(true);
    Ok(value)
}
