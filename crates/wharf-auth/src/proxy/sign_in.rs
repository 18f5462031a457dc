//! Sign-in at the identity provider: redirects the user there, and binds the sign-in to the browser that consented.

use http::request::Parts;
use wharf_model::Error;

use super::{cookie::BrowserSecret, idp::SignInParams};
use crate::jose::{constant_time_eq, random_token};
use crate::proxy::{
    consent_page,
    consent_page::ProxyResponse,
    cookie::set_cookie,
    records::{AuthorizationParams, PendingSignIn, SIGN_IN_TTL},
    routes::ProxyState,
    store::RecordOwner,
};

/// Limit of concurrent sign-ins.
const MAX_PENDING: usize = 50_000;

impl ProxyState {
    /// Redirects a user who consented to the provider, and binds the sign-in to this browser.
    pub(super) async fn sign_in(&self, asked: AuthorizationParams) -> Result<ProxyResponse, Error> {
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
}

/// Name of the cookie of one sign-in, so that several can run at once. It does not reveal the `state`.
fn sign_in_cookie(state: &str) -> String {
    let digest = crate::proxy::store::digest(state);
    format!("signin-{}", digest.get(..12).unwrap_or_default())
}
