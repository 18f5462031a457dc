//! Redirect endpoint for the identity provider.

use http::{StatusCode, request::Parts};
use wharf_model::Error;

use super::form::FormParams;
use crate::jose::random_token;
use crate::proxy::{
    consent_page,
    consent_page::ProxyResponse,
    records::{AuthorizationParams, CODE_TTL, CodeRecord, PendingSignIn},
    routes::ProxyState,
    store::RecordOwner,
};

/// Limit of codes that have not been redeemed.
const MAX_CODES: usize = 50_000;

impl ProxyState {
    /// Handles the provider's redirect: validates it, authenticates the user and issues a code to the
    /// client.
    pub(super) async fn callback(&self, parts: &Parts) -> Result<ProxyResponse, Error> {
        let problem =
            |what: &str| Ok(consent_page::error_page(StatusCode::BAD_REQUEST, what, None));
        let form = match FormParams::parse(parts.uri.query().unwrap_or_default().as_bytes()) {
            Ok(form) => form,
            Err(why) => return problem(&format!("The response is invalid: {why}.")),
        };
        const UNKNOWN: &str = "This browser is not signing in here, or took too long. Start again \
                               in the application.";
        let Some(state) = form.get("state") else { return problem(UNKNOWN) };
        let Some(kept) = self.store.get::<PendingSignIn>(state).await? else {
            return problem(UNKNOWN);
        };
        let pending = kept.value;
        // The browser that consented must be the one that signed in. Requests of other browsers change
        // nothing.
        if !self.is_same_browser(parts, state, &pending) {
            return problem(UNKNOWN);
        }
        if !self.store.remove::<PendingSignIn>(state).await? {
            return problem(UNKNOWN);
        }
        let mut answer = self.finish_sign_in(&form, &pending).await?;
        self.clear_sign_in_cookie(&mut answer, state);
        Ok(answer)
    }

    async fn finish_sign_in(
        &self,
        form: &FormParams,
        pending: &PendingSignIn,
    ) -> Result<ProxyResponse, Error> {
        let asked = &pending.asked;
        let failed = |why: &str, error: &str| {
            tracing::warn!(why, "cannot complete the sign-in at the identity provider");
            Ok(self.error_redirect(asked, error))
        };
        match self.idp.is_expected_issuer(form.get("iss")).await {
            Ok(true) => {}
            Ok(false) => return failed("the response is from another issuer", "server_error"),
            Err(refused) => return failed(&refused.why, "temporarily_unavailable"),
        }
        match form.get("error") {
            Some("access_denied") => return Ok(self.error_redirect(asked, "access_denied")),
            Some("temporarily_unavailable") => {
                return failed(
                    "the provider is temporarily unavailable",
                    "temporarily_unavailable",
                );
            }
            Some(_) => return failed("the provider returned an error", "server_error"),
            None => {}
        }
        let Some(code) = form.get("code") else {
            return failed("the response has no code", "server_error");
        };
        let now = self.store.now().await?;
        let redeemed = self.idp.redeem(code, &pending.verifier, &pending.nonce, now).await;
        let (who, tokens) = match redeemed {
            Ok(good) => good,
            Err(refused) => return failed(&refused.why, "server_error"),
        };
        let Some(scopes) = self.settings.granted(&who, &asked.scopes) else {
            return Ok(self.error_redirect(asked, "access_denied"));
        };
        let mut asked = asked.clone();
        asked.scopes = scopes;
        let code = random_token(32);
        let kept = CodeRecord { asked, good: Some((who, tokens)), grant: None };
        self.store.put_evicting(&code, &kept, RecordOwner("all", MAX_CODES), CODE_TTL).await?;
        let AuthorizationParams { redirect, state, .. } = &kept.asked;
        Ok(match self.client_redirect(redirect, state.as_deref(), &[("code", &code)]) {
            Some(url) => consent_page::redirect(&url),
            None => consent_page::error_page(
                StatusCode::BAD_REQUEST,
                "The redirect URI is invalid.",
                None,
            ),
        })
    }
}
