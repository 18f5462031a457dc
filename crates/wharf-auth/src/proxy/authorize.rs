//! Authorization endpoint: validates the request of a client, and redirects to the client.

use std::collections::BTreeSet;

use http::{StatusCode, request::Parts};
use url::Url;
use wharf_model::Error;

use super::{clients::KnownClient, form::FormParams, redirect_uri};
use crate::proxy::{
    consent_page, consent_page::ProxyResponse, records::AuthorizationParams, routes::ProxyState,
};

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
            known.client.redirects.iter().any(|own| redirect_uri::is_same(own, asked))
                && redirect_uri::check(asked, &self.settings.schemes).is_ok()
        }) else {
            return problem("The application's redirect_uri is not registered.");
        };
        match self.validate_request(&form, &known, target) {
            Ok(asked) => self.show_consent(parts, asked, &known).await,
            Err((error, what)) => {
                // Any client can register a redirect URI, so the user must follow the link deliberately.
                let error_url = self.error_url(target, form.get("state"), error, what);
                let shown = redirect_uri::shown(target);
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

    /// Redirects to the client with an error, after the user consented.
    pub(super) fn error_redirect(&self, asked: &AuthorizationParams, error: &str) -> ProxyResponse {
        let what = "The sign-in failed.";
        match self.error_url(&asked.redirect, asked.state.as_deref(), error, what) {
            Some(url) => consent_page::redirect(&url),
            None => consent_page::error_page(StatusCode::BAD_GATEWAY, what, None),
        }
    }

    /// Redirects to the client with an error by an HTML page. The response to a form is a page, because the
    /// `form-action` of its CSP forbids a redirect to another origin.
    pub(super) fn error_page(
        &self,
        asked: &AuthorizationParams,
        error: &str,
        what: &str,
    ) -> ProxyResponse {
        match self.error_url(&asked.redirect, asked.state.as_deref(), error, what) {
            Some(url) => consent_page::forward_page(&url, &redirect_uri::shown(&asked.redirect)),
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

fn is_challenge(text: &str) -> bool {
    text.len() == 43 && text.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_".contains(&it))
}
