//! Authenticates requests to the MCP server with the tokens that the proxy issued.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use wharf_model::{
    AuthDecision, AuthRejection, AuthRequest, AuthResult, Authenticated, Authenticator, BoxFuture,
    Error, Principal, Sharing, StateCipher, Stores,
};

use crate::proxy::routes::ProxyState;
use crate::proxy::{OAuthProxy, consent_page, token_endpoint, upstream_token::Upstream};
use crate::server::{AuthScheme, PresentedToken, presented_token};

/// Error of an unknown token.
const UNKNOWN: (&str, &str) = ("invalid_token", "The token is unknown or has expired");

impl Authenticator for OAuthProxy {
    fn admit(&self, request: &AuthRequest<'_>) -> AuthDecision {
        let Some(shared) = self.shared.get() else {
            return AuthDecision::Now(Err(AuthRejection::new(
                503,
                "The OAuth proxy has no store yet",
            )));
        };
        let token = match presented_token(request) {
            Ok(Some(PresentedToken { scheme: AuthScheme::Bearer, token })) => token.to_owned(),
            Ok(Some(_)) => return AuthDecision::Now(Err(self.rejection(Some(UNKNOWN)))),
            Ok(None) => return AuthDecision::Now(Err(self.rejection(None))),
            Err(what) => {
                return AuthDecision::Now(Err(self.rejection(Some(("invalid_request", what)))));
            }
        };
        let (shared, rejection) = (shared.clone(), self.rejection(Some(UNKNOWN)));
        AuthDecision::Later(Box::pin(async move { authenticate(shared, &token, rejection).await }))
    }

    fn denied(
        &self,
        error: &Error,
        _request: &AuthRequest<'_>,
        who: &Principal,
    ) -> Vec<HeaderValue> {
        let what = "The token's scopes are insufficient";
        // With the granted scopes: not every client requests them again by itself.
        let scopes: Vec<_> = who.scopes().chain(error.required_scopes()).collect();
        vec![match error.kind.is_insufficient_scope() {
            true => self.challenge(Some(("insufficient_scope", what)), &scopes),
            false => self.challenge(None, &[]),
        }]
    }

    fn problems(&self) -> Vec<String> {
        self.urls().err().into_iter().collect()
    }

    fn origin(&self) -> Option<String> {
        self.urls().ok().map(|urls| urls.origin)
    }

    fn resource_url(&self) -> Option<String> {
        self.urls().ok().map(|urls| urls.resource)
    }

    fn paths(&self) -> Vec<String> {
        self.urls().map(|urls| urls.paths()).unwrap_or_default()
    }

    fn page(&self, request: Request<Bytes>) -> BoxFuture<Response<Bytes>> {
        match self.shared.get() {
            Some(shared) => Box::pin(shared.clone().serve(request)),
            None => {
                let what = "The OAuth proxy has no store yet.";
                let answer = consent_page::error_page(StatusCode::SERVICE_UNAVAILABLE, what, None);
                Box::pin(std::future::ready(answer))
            }
        }
    }

    fn configure(&self, stores: &Stores, seal: Arc<dyn StateCipher>) -> Result<(), String> {
        let urls = self.urls()?;
        if stores.sharing > Sharing::Process && !seal.is_shared() {
            return Err(
                "the records of the OAuth proxy outlive this process, but their encryption key would not: set \
                 `WHARF_STATE_KEY` (`openssl rand -base64 32` makes one), or pass keys to the server with `.state_cipher(…)`"
                    .into(),
            );
        }
        self.shared
            .get_or_init(|| Arc::new(ProxyState::new(urls, self.settings.clone(), stores, seal)));
        Ok(())
    }
}

async fn authenticate(
    shared: Arc<ProxyState>,
    token: &str,
    rejection: AuthRejection,
) -> AuthResult {
    let found = shared.find_access_token(token).await.map_err(|error| {
        tracing::debug!(%error, "cannot access the store of the OAuth proxy");
        AuthRejection::new(503, "Tokens cannot be verified at the moment: try again later")
    })?;
    let Some((kept, access)) = found else { return Err(rejection) };
    let grant = kept.value;
    let id = format!("{} {}", shared.idp.provider.realm(), grant.who.subject);
    let mut principal = Principal::new(id);
    for scope in access.scopes {
        principal = principal.with_scope(scope);
    }
    let until = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(access.until));
    let mut pass = Authenticated::new(principal);
    pass.until = until;
    if let Some((name, _)) = token_endpoint::access_parts(token) {
        pass.extensions.insert(Upstream::new(shared, name, grant));
    }
    Ok(pass)
}
