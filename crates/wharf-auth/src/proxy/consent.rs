//! Consent: shows the page to the user, bound to the browser (CSRF), and handles the user's decision.

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header, request::Parts};
use wharf_model::Error;

use super::{clients::KnownClient, cookie::BrowserSecret, redirect_uri};
use crate::jose::random_token;
use crate::proxy::{
    consent_page,
    consent_page::{ConsentRequest, ProxyResponse},
    cookie::set_cookie,
    records::{AuthorizationParams, ConsentTicket, SIGN_IN_TTL},
    routes::{ProxyState, form},
};

/// Cookie that the consent page is bound to.
const CONSENT_COOKIE: &str = "consent";

impl ProxyState {
    /// Shows the consent page, bound to this browser (CSRF).
    pub(super) async fn show_consent(
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
            target: &redirect_uri::shown(&asked.redirect),
            is_local: redirect_uri::is_local(&asked.redirect),
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
}

/// Context of the encryption: only the browser with this secret can submit the ticket.
fn context(secret: &BrowserSecret) -> Vec<u8> {
    format!("wharf oauth consent\0{}", secret.digest()).into_bytes()
}
