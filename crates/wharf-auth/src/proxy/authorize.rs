//! Authorization endpoint: validates the request, asks the user for consent and redirects to the identity
//! provider.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header, request::Parts};
use url::Url;
use wharf_model::Error;

use super::{
    clients::KnownClient, cookie::BrowserSecret, form::FormParams, idp::SignInParams, redirect,
};
use crate::jose::{constant_time_eq, random_token};
use crate::proxy::{
    consent_page,
    consent_page::{ConsentRequest, ProxyResponse},
    records::{AuthorizationParams, ConsentTicket, PendingSignIn, SIGN_IN_TTL},
    routes::{ProxyState, form},
    store::RecordOwner,
};

/// Cookie that the consent page is bound to.
const CONSENT_COOKIE: &str = "consent";
/// Limit of concurrent sign-ins.
const MAX_PENDING: usize = 50_000;
/// Longest accepted `state` of a client.
const MAX_STATE_BYTES: usize = 4096;

/// OAuth error code and description.
type AuthorizeError = (&'static str, &'static str);

impl ProxyState {
    /// Shows the consent page for an authorization request.
    pub(super) async fn authorize(&self, parts: &Parts) -> Result<ProxyResponse, Error> {
        let problem =
            |what: &str| Ok(consent_page::error_page(StatusCode::BAD_REQUEST, what, None));
        let form = match FormParams::parse(parts.uri.query().unwrap_or_default().as_bytes()) {
            Ok(form) => form,
            Err(why) => return problem(&format!("The request is invalid: {why}.")),
        };
        let Some(id) = form.get("client_id") else {
            return problem("The application sent no client_id.");
        };
        let Some(known) = self.client(id, parts).await? else {
            return problem(
                "The application is not registered here, or not any more. It must register again.",
            );
        };
        // No redirect before the redirect URI has been validated (open redirector).
        let Some(target) = form.get("redirect_uri").filter(|asked| {
            known.client.redirects.iter().any(|own| redirect::is_same(own, asked))
                && redirect::check(asked, &self.settings.schemes).is_ok()
        }) else {
            return problem("The application's redirect_uri is not registered.");
        };
        match self.validate_request(&form, &known, target) {
            Ok(asked) => self.show_consent(parts, asked, &known).await,
            Err((error, what)) => {
                // Any client can register a redirect URI, so the user must follow the link deliberately.
                let error_url = self.error_url(target, form.get("state"), error, what);
                let shown = redirect::shown(target);
                let error_url = error_url.as_ref().map(|url| (url, &*shown));
                Ok(consent_page::error_page(StatusCode::BAD_REQUEST, what, error_url))
            }
        }
    }

    /// Validates the request's parameters.
    fn validate_request(
        &self,
        form: &FormParams,
        known: &KnownClient,
        redirect: &str,
    ) -> Result<AuthorizationParams, AuthorizeError> {
        if form.get("request").is_some() || form.get("request_uri").is_some() {
            return Err(("request_not_supported", "Request objects are not supported."));
        }
        if form.get("response_type") != Some("code") {
            return Err(("unsupported_response_type", "Only the response type code is supported."));
        }
        if form.get("response_mode").is_some_and(|mode| mode != "query") {
            return Err(("invalid_request", "Only the response mode query is supported."));
        }
        if form.get("code_challenge_method") != Some("S256") {
            return Err(("invalid_request", "PKCE with code_challenge_method S256 is required."));
        }
        let challenge = form.get("code_challenge").filter(|it| is_challenge(it));
        let challenge = challenge.ok_or((
            "invalid_request",
            "PKCE with a code_challenge of 43 characters is required.",
        ))?;
        if form.get("state").is_some_and(|state| state.len() > MAX_STATE_BYTES) {
            return Err(("invalid_request", "The state is too long."));
        }
        if form.get("prompt").is_some_and(|it| it.split(' ').any(|it| it == "none")) {
            return Err(("consent_required", "The user's consent is required."));
        }
        if !form.resources().iter().all(|it| self.urls.is_resource(it)) {
            return Err(("invalid_target", "The resource is another server."));
        }
        Ok(AuthorizationParams {
            client: known.client.id.clone(),
            redirect: redirect.to_owned(),
            state: form.get("state").map(str::to_owned),
            challenge: challenge.to_owned(),
            scopes: self.scopes(form.get("scope"))?,
        })
    }

    /// Returns the supported scopes of the request; the default ones if it has no `scope`.
    fn scopes(&self, asked: Option<&str>) -> Result<BTreeSet<String>, AuthorizeError> {
        let Some(asked) = asked else { return Ok(self.settings.first_scopes()) };
        let known = &self.settings.scopes;
        let scopes: BTreeSet<String> =
            asked.split(' ').filter(|it| known.contains(*it)).map(str::to_owned).collect();
        match scopes.is_empty() && !known.is_empty() {
            true => Err(("invalid_scope", "None of the requested scopes is supported.")),
            false => Ok(scopes),
        }
    }

    /// Shows the consent page, bound to this browser (CSRF).
    async fn show_consent(
        &self,
        parts: &Parts,
        asked: AuthorizationParams,
        known: &KnownClient,
    ) -> Result<ProxyResponse, Error> {
        // Several pages may be open at once.
        let secret =
            self.cookies.read(&parts.headers, CONSENT_COOKIE).unwrap_or_else(BrowserSecret::new);
        let until = self.store.now().await? + SIGN_IN_TTL.as_secs() * 1000;
        let ticket = ConsentTicket { asked, number: random_token(16), until };
        let plain = serde_json::to_vec(&ticket).map_err(Error::internal)?;
        let sealed = self.seal.seal(&context(&secret), &plain);
        let ConsentTicket { asked, .. } = ticket;
        let mut answer = consent_page::consent(&ConsentRequest {
            action: &self.urls.local("/consent"),
            ticket: &sealed,
            client: &known.client.name,
            publisher: known.publisher.as_deref(),
            target: &redirect::shown(&asked.redirect),
            is_local: redirect::is_local(&asked.redirect),
            resource: &self.urls.resource,
            scopes: &asked.scopes.iter().map(String::as_str).collect::<Vec<_>>(),
            provider: &self.idp.provider.name,
            upstream_scopes: &self.idp.provider.scopes.iter().map(|it| &**it).collect::<Vec<_>>(),
        });
        set_cookie(&mut answer, self.cookies.write(CONSENT_COOKIE, &secret, SIGN_IN_TTL.as_secs()));
        Ok(answer)
    }

    /// Handles the user's decision: continues to the provider, or returns to the client.
    pub(super) async fn consent(
        &self,
        parts: &Parts,
        body: &Bytes,
    ) -> Result<ProxyResponse, Error> {
        let refuse = |what: &str| Ok(consent_page::error_page(StatusCode::FORBIDDEN, what, None));
        let form = match form(parts, body) {
            Ok(form) => form,
            Err(why) => return refuse(&format!("The response is invalid: {why}.")),
        };
        let origin = parts.headers.get(header::ORIGIN).map(HeaderValue::as_bytes);
        if origin.is_some_and(|origin| origin != self.urls.origin.as_bytes()) {
            return refuse("This form was submitted from another site.");
        }
        const STALE: &str = "This page belongs to another browser, was submitted already, or has expired. Start again in the application.";
        let secret = self.cookies.read(&parts.headers, CONSENT_COOKIE);
        let ticket = secret.zip(form.get("ticket")).and_then(|(secret, ticket)| {
            let plain = self.seal.open(&context(&secret), ticket)?;
            serde_json::from_slice::<ConsentTicket>(&plain).ok()
        });
        let now = self.store.now().await?;
        let Some(ConsentTicket { asked, number, .. }) = ticket.filter(|ticket| ticket.until > now)
        else {
            return refuse(STALE);
        };
        if !self.nonces.claim(&format!("oauth consent {number}"), SIGN_IN_TTL).await? {
            return refuse(STALE);
        }
        if form.get("decision") != Some("allow") {
            return Ok(self.error_page(&asked, "access_denied", "The user denied access."));
        }
        self.sign_in(asked).await
    }

    /// Redirects a user who consented to the provider, and binds the sign-in to this browser.
    async fn sign_in(&self, asked: AuthorizationParams) -> Result<ProxyResponse, Error> {
        let (state, browser) = (random_token(32), BrowserSecret::new());
        let pending = PendingSignIn {
            asked,
            browser: browser.digest(),
            verifier: random_token(32),
            nonce: random_token(32),
        };
        let params =
            SignInParams { state: &state, nonce: &pending.nonce, verifier: &pending.verifier };
        let url = match self.idp.sign_in(&params).await {
            Ok(url) => url,
            Err(refused) => {
                tracing::warn!(
                    why = refused.why,
                    "cannot start the sign-in at the identity provider"
                );
                let what = "The identity provider cannot be reached.";
                return Ok(self.error_page(&pending.asked, "temporarily_unavailable", what));
            }
        };
        let owner = RecordOwner("all", MAX_PENDING);
        self.store.put_evicting(&state, &pending, owner, SIGN_IN_TTL).await?;
        let mut answer = consent_page::forward_page(&url, &self.idp.provider.name);
        let cookie = self.cookies.write(&sign_in_cookie(&state), &browser, SIGN_IN_TTL.as_secs());
        set_cookie(&mut answer, cookie);
        Ok(answer)
    }

    /// Returns true if this browser is the one that consented.
    pub(super) fn is_same_browser(
        &self,
        parts: &Parts,
        state: &str,
        pending: &PendingSignIn,
    ) -> bool {
        let secret = self.cookies.read(&parts.headers, &sign_in_cookie(state));
        secret
            .is_some_and(|it| constant_time_eq(it.digest().as_bytes(), pending.browser.as_bytes()))
    }

    /// Clears the browser's sign-in cookie.
    pub(super) fn clear_sign_in_cookie(&self, answer: &mut ProxyResponse, state: &str) {
        set_cookie(answer, self.cookies.clear(&sign_in_cookie(state)));
    }

    /// Redirects to the client with an error, after the user consented.
    pub(super) fn error_redirect(&self, asked: &AuthorizationParams, error: &str) -> ProxyResponse {
        let what = "The sign-in failed.";
        match self.error_url(&asked.redirect, asked.state.as_deref(), error, what) {
            Some(url) => consent_page::redirect(&url),
            None => consent_page::error_page(StatusCode::BAD_GATEWAY, what, None),
        }
    }

    /// The same as a page, for responses to a form.
    fn error_page(&self, asked: &AuthorizationParams, error: &str, what: &str) -> ProxyResponse {
        match self.error_url(&asked.redirect, asked.state.as_deref(), error, what) {
            Some(url) => consent_page::forward_page(&url, &redirect::shown(&asked.redirect)),
            None => consent_page::error_page(StatusCode::BAD_GATEWAY, what, None),
        }
    }

    fn error_url(
        &self,
        redirect: &str,
        state: Option<&str>,
        error: &str,
        what: &str,
    ) -> Option<Url> {
        self.client_redirect(redirect, state, &[("error", error), ("error_description", what)])
    }

    /// The client's redirect URI with response parameters.
    pub(super) fn client_redirect(
        &self,
        redirect: &str,
        state: Option<&str>,
        pairs: &[(&str, &str)],
    ) -> Option<Url> {
        let mut url = Url::parse(redirect).ok()?;
        let mut query = url.query_pairs_mut();
        query.extend_pairs(pairs).extend_pairs(state.map(|state| ("state", state)));
        query.append_pair("iss", &self.urls.issuer);
        drop(query);
        Some(url)
    }
}

/// Context of the encryption: only the browser with this secret can submit the ticket.
fn context(secret: &BrowserSecret) -> Vec<u8> {
    format!("wharf oauth consent\0{}", secret.digest()).into_bytes()
}

/// Name of the cookie of one sign-in, so that several can run at once. It does not reveal the `state`.
fn sign_in_cookie(state: &str) -> String {
    let digest = crate::proxy::store::digest(state);
    format!("signin-{}", digest.get(..12).unwrap_or_default())
}

fn is_challenge(text: &str) -> bool {
    text.len() == 43 && text.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_".contains(&it))
}

fn set_cookie(answer: &mut ProxyResponse, cookie: Option<HeaderValue>) {
    if let Some(cookie) = cookie {
        answer.headers_mut().append(header::SET_COOKIE, cookie);
    }
}
