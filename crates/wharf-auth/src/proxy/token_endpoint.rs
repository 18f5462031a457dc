//! Token endpoint: redeems codes, refreshes tokens, and authenticates clients.

use std::{collections::BTreeSet, time::Duration};

use base64::prelude::{BASE64_STANDARD, Engine};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header, request::Parts};
use serde_json::json;
use url::form_urlencoded;
use wharf_model::Error;

use super::{client_id_documents::is_document_url, form::FormParams};
use crate::jose::{b64, constant_time_eq, random_token, sha256};
use crate::proxy::{
    consent_page,
    consent_page::ProxyResponse,
    records::{AccessRecord, CodeRecord, GrantRecord, REDEEMED_CODE_TTL},
    routes::{ProxyState, form},
    store::{RecordOwner, VersionedRecord, digest},
};

/// Limit of valid access tokens of one grant: a new one replaces the oldest.
const MAX_ACCESS_TOKENS: usize = 4;
/// Limit of grants of one user: a new one replaces the oldest.
const MAX_GRANTS_PER_USER: usize = 64;
/// Prefixes of tokens, so that people and secret scanners recognize them.
pub(super) const ACCESS_PREFIX: &str = "wharf_at_";
pub(super) const REFRESH_PREFIX: &str = "wharf_rt_";

/// OAuth error response: status, code and description.
pub(super) struct OAuthRefusal(StatusCode, &'static str, &'static str);

pub(super) type OAuthResult<T> = Result<Result<T, OAuthRefusal>, Error>;

pub(super) const fn invalid_grant(what: &'static str) -> OAuthRefusal {
    OAuthRefusal(StatusCode::BAD_REQUEST, "invalid_grant", what)
}

pub(super) const fn invalid_request(what: &'static str) -> OAuthRefusal {
    OAuthRefusal(StatusCode::BAD_REQUEST, "invalid_request", what)
}

pub(super) const UNKNOWN_CLIENT: OAuthRefusal = OAuthRefusal(
    StatusCode::UNAUTHORIZED,
    "invalid_client",
    "the client is not registered here (any more), or its secret is wrong",
);

/// The same error for all invalid codes, so that it reveals nothing about them.
pub(super) const BAD_CODE: OAuthRefusal =
    invalid_grant("the code is unknown, used, expired, or of another request: start again");
pub(super) const BAD_REFRESH: OAuthRefusal =
    invalid_grant("the refresh token is unknown, used or expired: the user must sign in again");

impl ProxyState {
    /// Issues tokens for a code or a refresh token.
    pub(super) async fn token(&self, parts: &Parts, body: &Bytes) -> Result<ProxyResponse, Error> {
        let (form, client) = match self.authenticate(parts, body).await? {
            Ok(known) => known,
            Err(refusal) => return Ok(refusal_response(parts, &refusal)),
        };
        if !form.resources().iter().all(|it| self.urls.is_resource(it)) {
            let what = "tokens are issued for this server only: see its resource metadata";
            let refusal = OAuthRefusal(StatusCode::BAD_REQUEST, "invalid_target", what);
            return Ok(refusal_response(parts, &refusal));
        }
        let issued = match form.get("grant_type") {
            Some("authorization_code") => self.redeem(&client, &form).await?,
            Some("refresh_token") => self.refresh(&client, &form).await?,
            _ => Err(OAuthRefusal(
                StatusCode::BAD_REQUEST,
                "unsupported_grant_type",
                "use authorization_code or refresh_token",
            )),
        };
        Ok(match issued {
            Ok(answer) => answer,
            Err(refusal) => refusal_response(parts, &refusal),
        })
    }

    /// Parses the form and authenticates the client.
    pub(super) async fn authenticate(
        &self,
        parts: &Parts,
        body: &Bytes,
    ) -> OAuthResult<(FormParams, String)> {
        let read = form(parts, body).map_err(invalid_request);
        let given = read.and_then(|form| credentials(parts, &form).map(|given| (form, given)));
        let (form, (id, secret)) = match given {
            Ok(given) => given,
            Err(refusal) => return Ok(Err(refusal)),
        };
        // A client with a metadata document is public. Its metadata mattered at consent only.
        if is_document_url(&id) {
            return Ok(if self.documents.is_some() { Ok((form, id)) } else { Err(UNKNOWN_CLIENT) });
        }
        let Some(known) = self.client(&id, parts).await? else { return Ok(Err(UNKNOWN_CLIENT)) };
        let is_it = match &known.client.secret {
            Some(right) => secret.is_some_and(|secret| matches_digest(&secret, right)),
            None => true,
        };
        Ok(if is_it { Ok((form, id)) } else { Err(UNKNOWN_CLIENT) })
    }

    async fn redeem(&self, client: &str, form: &FormParams) -> OAuthResult<ProxyResponse> {
        let (Some(code), Some(verifier)) = (form.get("code"), form.get("code_verifier")) else {
            return Ok(Err(invalid_request("code and code_verifier are both needed")));
        };
        let Some(mut kept) = self.store.get::<CodeRecord>(code).await? else {
            return Ok(Err(BAD_CODE));
        };
        let asked = &kept.value.asked;
        let redirect = form.get("redirect_uri");
        if asked.client != client
            || redirect.is_some_and(|it| it != asked.redirect)
            || !is_verifier(verifier)
            || !constant_time_eq(
                b64(sha256(verifier.as_bytes())).as_bytes(),
                asked.challenge.as_bytes(),
            )
        {
            return Ok(Err(BAD_CODE));
        }
        let Some((who, upstream)) = kept.value.good.take() else {
            self.revoke_grant(kept.value.grant.as_deref()).await?;
            return Ok(Err(BAD_CODE));
        };
        let scopes = asked.scopes.clone();
        let (id, family) = (random_token(16), random_token(16));
        let owner = digest(&format!("{}\0{}", self.idp.provider.realm(), who.subject));
        let mut grant = GrantRecord {
            client: client.to_owned(),
            resource: self.urls.resource.clone(),
            scopes: scopes.clone(),
            who,
            upstream,
            family: digest(&family),
            newest: String::new(),
            access: Vec::new(),
            refreshing: 0,
            asked: 0,
            since: self.store.now().await?,
        };
        let ttl = self.settings.refresh_ttl.min(self.settings.grant_ttl);
        let answer = self.issue(&mut grant, &id, &family, scopes, ttl).await?;
        self.store.put_evicting(&id, &grant, RecordOwner(&owner, MAX_GRANTS_PER_USER), ttl).await?;
        kept.value.grant = Some(id.clone());
        if !self.store.swap(kept, Some(REDEEMED_CODE_TTL)).await? {
            // Another request redeemed the code meanwhile, so one of the two is an attacker. Revoke both
            // grants.
            self.revoke_grant(Some(&id)).await?;
            let other = self.store.get::<CodeRecord>(code).await?;
            self.revoke_grant(other.as_ref().and_then(|kept| kept.value.grant.as_deref())).await?;
            return Ok(Err(BAD_CODE));
        }
        // The tokens are valid even if this fails.
        let _ = self.record_sign_in(client, &owner, &id).await;
        Ok(Ok(answer))
    }

    async fn refresh(&self, client: &str, form: &FormParams) -> OAuthResult<ProxyResponse> {
        let Some([id, family, newest]) = form.get("refresh_token").and_then(refresh_parts) else {
            return Ok(Err(BAD_REFRESH));
        };
        let Some(kept) = self.validated_grant(client, [id, family, newest]).await? else {
            return Ok(Err(BAD_REFRESH));
        };
        let now = self.store.now().await?;
        let Some(remaining) =
            self.remaining(&kept.value, now).filter(|remaining| !remaining.is_zero())
        else {
            self.revoke_grant(Some(id)).await?;
            return Ok(Err(BAD_REFRESH));
        };
        // A user without access at the provider loses access here.
        if !self.is_still_authorized(id, kept, now).await? {
            self.revoke_grant(Some(id)).await?;
            return Ok(Err(BAD_REFRESH));
        }
        let Some(mut kept) = self.validated_grant(client, [id, family, newest]).await? else {
            return Ok(Err(BAD_REFRESH));
        };
        let grant = &mut kept.value;
        let Some(scopes) = self.settings.granted(&grant.who, &grant.scopes) else {
            self.revoke_grant(Some(id)).await?;
            return Ok(Err(BAD_REFRESH));
        };
        grant.scopes = scopes;
        let wanted = match form.get("scope") {
            None => grant.scopes.clone(),
            Some(text) => text.split(' ').filter(|it| !it.is_empty()).map(Into::into).collect(),
        };
        if !wanted.is_subset(&grant.scopes) {
            let what = "scope exceeds the granted scopes; start a new authorization request";
            return Ok(Err(OAuthRefusal(StatusCode::BAD_REQUEST, "invalid_scope", what)));
        }
        let ttl = self.settings.refresh_ttl.min(remaining);
        let answer = self.issue(grant, id, family, wanted, ttl).await?;
        if !self.store.swap(kept, Some(ttl)).await? {
            return self.resolve_conflict(id, newest).await;
        }
        // The tokens are valid even if this fails.
        let _ = self.touch_client(client, id).await;
        Ok(Ok(answer))
    }

    /// Loads the grant of a valid refresh token.
    async fn validated_grant(
        &self,
        client: &str,
        [id, family, newest]: [&str; 3],
    ) -> Result<Option<VersionedRecord<GrantRecord>>, Error> {
        let kept = self.store.get::<GrantRecord>(id).await?;
        let is_genuine =
            |grant: &GrantRecord| grant.client == client && matches_digest(family, &grant.family);
        let Some(kept) = kept.filter(|kept| is_genuine(&kept.value)) else { return Ok(None) };
        // A refresh token that was rotated out is reused: it may be stolen, so the grant is revoked.
        if !matches_digest(newest, &kept.value.newest) {
            self.revoke_grant(Some(id)).await?;
            return Ok(None);
        }
        Ok(Some(kept))
    }

    /// Remaining lifetime of a grant, however often it is refreshed.
    fn remaining(&self, grant: &GrantRecord, now: u64) -> Option<Duration> {
        let age = Duration::from_millis(now.saturating_sub(grant.since));
        self.settings.grant_ttl.checked_sub(age)
    }

    /// Handles a lost compare-and-swap. If another request used the same refresh token, the grant is
    /// revoked; otherwise the client can retry.
    async fn resolve_conflict(&self, id: &str, newest: &str) -> OAuthResult<ProxyResponse> {
        let kept = self.store.get::<GrantRecord>(id).await?;
        if kept.is_some_and(|kept| matches_digest(newest, &kept.value.newest)) {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            return Ok(Err(OAuthRefusal(
                status,
                "temporarily_unavailable",
                "send the request again",
            )));
        }
        self.revoke_grant(Some(id)).await?;
        Ok(Err(BAD_REFRESH))
    }

    /// Issues new tokens of a grant and invalidates the previous refresh token (rotation).
    async fn issue(
        &self,
        grant: &mut GrantRecord,
        id: &str,
        family: &str,
        scopes: BTreeSet<String>,
        lasts: Duration,
    ) -> Result<ProxyResponse, Error> {
        let (access, newest) = (random_token(32), random_token(32));
        let ttl = self.settings.access_ttl.min(lasts);
        let now = self.store.now().await?;
        let until = now.saturating_add(ttl.as_secs().saturating_mul(1000));
        let scope = scopes.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
        grant.newest = digest(&newest);
        grant.access.retain(|it| it.until > now);
        while grant.access.len() >= MAX_ACCESS_TOKENS {
            grant.access.remove(0);
        }
        grant.access.push(AccessRecord { digest: digest(&access), until, scopes });
        Ok(consent_page::json(
            StatusCode::OK,
            &json!({
                "access_token": format!("{ACCESS_PREFIX}{id}.{access}"),
                "token_type": "Bearer",
                "expires_in": ttl.as_secs(),
                "refresh_token": format!("{REFRESH_PREFIX}{id}.{family}.{newest}"),
                "scope": scope,
            }),
        ))
    }

    /// Finds the grant and the record of an access token.
    pub(super) async fn find_access_token(
        &self,
        token: &str,
    ) -> Result<Option<(VersionedRecord<GrantRecord>, AccessRecord)>, Error> {
        let Some((id, secret)) = access_parts(token) else { return Ok(None) };
        let Some(mut kept) = self.store.get::<GrantRecord>(id).await? else { return Ok(None) };
        let now = self.store.now().await?;
        let access = &mut kept.value.access;
        let at = access.iter().position(|it| it.until > now && matches_digest(secret, &it.digest));
        let Some(access) = at.map(|at| access.remove(at)) else { return Ok(None) };
        Ok((kept.value.resource == self.urls.resource).then_some((kept, access)))
    }
}

/// Returns true if the secret has this digest.
pub(super) fn matches_digest(secret: &str, right: &str) -> bool {
    constant_time_eq(digest(secret).as_bytes(), right.as_bytes())
}

/// Splits an access token into grant id and secret.
pub(super) fn access_parts(token: &str) -> Option<(&str, &str)> {
    token.strip_prefix(ACCESS_PREFIX).filter(|it| it.len() <= 128)?.split_once('.')
}

/// Splits a refresh token into grant id, the part common to the grant, and its own secret.
pub(super) fn refresh_parts(token: &str) -> Option<[&str; 3]> {
    let (id, rest) =
        token.strip_prefix(REFRESH_PREFIX).filter(|it| it.len() <= 160)?.split_once('.')?;
    let (family, newest) = rest.split_once('.')?;
    Some([id, family, newest])
}

fn is_verifier(text: &str) -> bool {
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || b"-._~".contains(&it);
    (43..=128).contains(&text.len()) && text.bytes().all(is_plain)
}

/// Client credentials: in a header or in the body, but not in both.
fn credentials(parts: &Parts, form: &FormParams) -> Result<(String, Option<String>), OAuthRefusal> {
    let (id, secret) = (form.get("client_id"), form.get("client_secret"));
    let mut headers = parts.headers.get_all(header::AUTHORIZATION).iter();
    let Some(given) = headers.next() else {
        let id = id.ok_or(invalid_request("client_id is missing"))?;
        return Ok((id.to_owned(), secret.map(str::to_owned)));
    };
    if headers.next().is_some() || secret.is_some() {
        return Err(invalid_request("authenticate in one way only"));
    }
    let (name, password) = basic(given).ok_or(UNKNOWN_CLIENT)?;
    match id {
        Some(id) if id != name => Err(UNKNOWN_CLIENT),
        _ => Ok((name, Some(password))),
    }
}

fn basic(value: &HeaderValue) -> Option<(String, String)> {
    let (scheme, encoded) = value.to_str().ok()?.split_once(' ')?;
    let plain = BASE64_STANDARD.decode(encoded.trim()).ok()?;
    let plain = String::from_utf8(plain).ok()?;
    let (id, secret) = plain.split_once(':').filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
    // Both parts are form-encoded (RFC 6749, 2.3.1).
    let decode = |text: &str| {
        let pair = format!("it={text}");
        let value = form_urlencoded::parse(pair.as_bytes()).next().map(|it| it.1.into_owned());
        value.unwrap_or_default()
    };
    Some((decode(id), decode(secret)))
}

pub(super) fn refusal_response(parts: &Parts, refusal: &OAuthRefusal) -> ProxyResponse {
    let OAuthRefusal(status, error, what) = refusal;
    let mut answer = consent_page::oauth_error(*status, error, what);
    if *status == StatusCode::UNAUTHORIZED && parts.headers.contains_key(header::AUTHORIZATION) {
        let challenge = HeaderValue::from_static("Basic realm=\"token\"");
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    answer
}
