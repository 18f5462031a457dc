//! Obtains and renews the access token for one server.

use std::{
    sync::{Arc, MutexGuard},
    time::Duration,
};

use tokio::{
    sync::OnceCell,
    time::{Instant, timeout},
};
use url::Url;
use wharf_connect::SingleFlight;
use wharf_model::{
    AuthFailure, AuthHeaders, BoxFuture, CredentialsProvider, Error, ErrorKind, Lock,
};

use crate::client::{
    Login, LoginKey, Registration,
    authorization_limit::AuthorizationLimit,
    challenge::AuthRequirement,
    config::{AuthConfig, GrantType},
    dpop::DpopProver,
    failed,
    flow::AuthorizationFlow,
    issuer_selection::RefusedIssuers,
    now, resource_metadata,
    resource_metadata::{DiscoveredMetadata, DiscoveredResource},
    server_url::{is_loopback, server_url},
    token_endpoint::TokenError,
};
use crate::fetch::Fetch;

/// Retries of one request.
const MAX_RETRIES: u32 = 5;
/// Time before expiry when a token is renewed, at most: short-lived tokens are used for most of their
/// lifetime.
const EARLY_RENEWAL_SECS: u64 = 30;
/// Delay after a failed early renewal.
const EARLY_RETRY_DELAY: Duration = Duration::from_secs(30);

/// Time limit of a call for an early renewal.
const EARLY_RENEWAL_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit of an authorization, including user interaction.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Credentials provider of one server.
pub(super) struct TokenManager(Arc<TokenManagerCore>);

pub(super) struct TokenManagerCore {
    pub(super) config: AuthConfig,
    pub(super) server: Url,
    pub(super) fetch: Fetch,
    state: Lock<TokenState>,
    loaded: OnceCell<()>,
    /// Concurrent callers share one renewal and its error.
    renewal: SingleFlight<Error>,
}

/// Current login of the server and its history.
#[derive(Default)]
pub(super) struct TokenState {
    /// Number of the current token.
    mark: u64,
    pub(super) login: Option<Login>,
    pub(super) prover: Option<Arc<DpopProver>>,
    /// The token was obtained here, and no server has accepted it yet.
    is_untried: bool,
    limit: AuthorizationLimit,
    /// Earliest time of the next early renewal.
    next_early_renewal: Option<Instant>,
    /// Registration of a login that failed afterwards; the next attempt reuses it.
    failed_registration: Option<(LoginKey, Registration)>,
}

/// Reason and options of a renewal.
struct RenewalRequest {
    requirement: AuthRequirement,
    /// The user may be prompted: a caller is waiting.
    interactive: bool,
    /// A token refresh is sufficient.
    refresh: bool,
    /// The current token has not been rejected.
    early: bool,
}

/// Steps of a renewal that are allowed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RenewalSteps {
    /// With stored metadata.
    Refresh,
    /// After a refresh that failed.
    Authorize,
    All,
}

impl TokenManager {
    pub(super) fn new(config: AuthConfig, url: &str) -> Result<TokenManager, Error> {
        let server = server_url(url)?;
        // A remote server must not lead requests to loopback (SSRF).
        let fetch = match is_loopback(&server) {
            true => config.fetch.clone(),
            false => config.fetch.public_only(),
        };
        Ok(TokenManager(Arc::new(TokenManagerCore {
            config,
            server,
            fetch,
            state: Lock::default(),
            loaded: OnceCell::new(),
            renewal: SingleFlight::default(),
        })))
    }

    pub(super) async fn log_in(self) -> Result<Login, Error> {
        self.0.load().await?;
        let request = RenewalRequest {
            requirement: AuthRequirement::default(),
            interactive: true,
            refresh: false,
            early: true,
        };
        self.0.renew_with_timeout(request).await?;
        let login = self.0.state().login.clone();
        login.ok_or_else(|| failed("a fixed token has no login".into()))
    }
}

impl CredentialsProvider for TokenManager {
    fn attach(&self, verb: &str, url: &str) -> BoxFuture<Result<AuthHeaders, Error>> {
        let (core, verb, url) = (self.0.clone(), verb.to_owned(), url.to_owned());
        Box::pin(async move { core.attach(&verb, &url).await })
    }

    fn on_response(&self, mark: u64, status: u16, nonce: Option<&str>) {
        let mut state = self.0.state();
        if let (Some(prover), Some(nonce)) = (&state.prover, nonce) {
            prover.store_nonce(self.0.server.as_str(), nonce);
        }
        if status < 400 && mark == state.mark {
            state.is_untried = false;
            // A server that alternates between accepting and rejecting must not prompt the user without
            // end.
            if !matches!(self.0.config.grant, GrantType::Code(_)) {
                state.limit.reset();
            }
        }
    }

    fn on_auth_failure(&self, failure: AuthFailure) -> BoxFuture<Result<bool, Error>> {
        let core = self.0.clone();
        Box::pin(async move { core.on_auth_failure(failure).await })
    }
}

impl TokenManagerCore {
    pub(super) fn state(&self) -> MutexGuard<'_, TokenState> {
        self.state.lock()
    }

    async fn attach(self: &Arc<Self>, verb: &str, url: &str) -> Result<AuthHeaders, Error> {
        if let GrantType::Bearer(token) = &self.config.grant {
            return Ok(AuthHeaders::new(0, vec![("authorization", format!("Bearer {token}"))]));
        }
        self.load().await?;
        self.renew_early().await;
        let (mark, tokens, prover) = {
            let state = self.state();
            let tokens = state.login.as_ref().and_then(|it| it.tokens.clone());
            (state.mark, tokens, state.prover.clone())
        };
        let headers = match (tokens, prover) {
            (None, _) => Vec::new(),
            (Some(tokens), Some(prover)) if tokens.bound => {
                let proof = prover.sign_proof(verb, url, Some(&tokens.access))?;
                vec![("authorization", format!("DPoP {}", tokens.access)), ("dpop", proof)]
            }
            (Some(tokens), _) => vec![("authorization", format!("Bearer {}", tokens.access))],
        };
        Ok(AuthHeaders::new(mark, headers))
    }

    /// Loads the most recent login of this server.
    async fn load(&self) -> Result<(), Error> {
        let load = || async {
            let mut last: Option<Login> = None;
            for key in self.keys().await? {
                let is_ours = self.config.issuer.as_ref().is_none_or(|it| *it == key.issuer);
                let login = if is_ours { self.config.token_store.load(&key).await? } else { None };
                let login = login.filter(|it| it.tokens.is_some() && self.config.matches(it));
                let is_newer =
                    |it: &Login| last.as_ref().is_none_or(|last| last.saved_at < it.saved_at);
                if let Some(login) = login.filter(is_newer) {
                    last = Some(login);
                }
            }
            if let Some(login) = last {
                let prover = login.dpop_key.as_deref().map(|it| DpopProver::new(Some(it)));
                let mut state = self.state();
                state.prover = prover.transpose()?.map(Arc::new);
                state.login = Some(login);
                state.mark += 1;
            }
            Ok(())
        };
        self.loaded.get_or_try_init(load).await.copied()
    }

    /// Keys of the logins at this server.
    pub(super) async fn keys(&self) -> Result<Vec<LoginKey>, Error> {
        let mut keys = self.config.token_store.list().await?;
        keys.retain(|key| key.server == self.server.as_str());
        Ok(keys)
    }

    /// Renews a token that is about to expire, if that needs no user.
    async fn renew_early(self: &Arc<Self>) {
        let (mark, is_due) = {
            let state = self.state();
            let tokens = state.login.as_ref().and_then(|it| it.tokens.as_ref());
            let can = tokens.is_some_and(|it| {
                it.refresh.is_some() || !matches!(self.config.grant, GrantType::Code(_))
            });
            let ends = tokens.and_then(|it| it.expires_at);
            let since = state.login.as_ref().map_or(0, |it| it.saved_at);
            let early = |ends: u64| EARLY_RENEWAL_SECS.min(ends.saturating_sub(since) / 4);
            let is_ending = ends.is_some_and(|ends| ends <= now() + early(ends));
            let may = state.next_early_renewal.is_none_or(|at| at <= Instant::now());
            (state.mark, can && is_ending && may)
        };
        if is_due {
            let request = RenewalRequest {
                requirement: AuthRequirement::default(),
                interactive: false,
                refresh: true,
                early: true,
            };
            // Errors are ignored: they are reported when the server rejects the token.
            let renewed = timeout(EARLY_RENEWAL_TIMEOUT, self.renew_once(mark, request)).await;
            if !matches!(renewed, Ok(Ok(true))) {
                self.state().next_early_renewal = Some(Instant::now() + EARLY_RETRY_DELAY);
            }
        }
    }

    async fn on_auth_failure(self: &Arc<Self>, failure: AuthFailure) -> Result<bool, Error> {
        let requirement = AuthRequirement::parse(&failure.challenges);
        if failure.times >= MAX_RETRIES || matches!(self.config.grant, GrantType::Bearer(_)) {
            return Ok(false);
        }
        if failure.status == 403 && !requirement.requires_scope() {
            return Ok(false);
        }
        if requirement.requires_nonce() && self.state().prover.is_some() {
            return Ok(failure.times < 2);
        }
        let refresh = !requirement.requires_scope();
        self.renew_once(
            failure.mark,
            RenewalRequest { requirement, interactive: failure.waited, refresh, early: false },
        )
        .await
    }

    /// Replaces the token with this mark, unless another caller has done so.
    async fn renew_once(
        self: &Arc<Self>,
        mark: u64,
        request: RenewalRequest,
    ) -> Result<bool, Error> {
        let core = self.clone();
        let is_renewed = || (self.state().mark != mark).then_some(Ok(true));
        // In a task of its own: the user may respond after the caller has given up.
        let renewing = || async move { core.renew_with_timeout(request).await };
        let renewed = self.renewal.run_in_task(is_renewed, renewing).await;
        renewed.unwrap_or_else(|| Err(Error::new(ErrorKind::InternalError)))
    }

    /// Renews within the time limit. Returns true if there is a new token.
    async fn renew_with_timeout(&self, request: RenewalRequest) -> Result<bool, Error> {
        timeout(LOGIN_TIMEOUT, self.renew(request)).await.unwrap_or_else(|_| {
            let server = resource_metadata::display_url(&self.server);
            Err(failed(format!(
                "authorization at {server} timed out after {LOGIN_TIMEOUT:?}; try again"
            )))
        })
    }

    /// Discovers the metadata of the server and of its authorization server.
    async fn discover(
        &self,
        requirement: &AuthRequirement,
        refused: &mut RefusedIssuers,
    ) -> Result<DiscoveredMetadata, Error> {
        let resource = self.discover_resource(requirement).await?;
        let auth_server = self.auth_server(&resource, refused).await?;
        Ok(DiscoveredMetadata { resource, auth_server })
    }

    /// Discovers the resource from the challenge, or from the metadata URL of the last login.
    async fn discover_resource(
        &self,
        requirement: &AuthRequirement,
    ) -> Result<DiscoveredResource, Error> {
        let find = |hint| resource_metadata::discover_resource(&self.fetch, &self.server, hint);
        if let Some(hint) = &requirement.metadata {
            return find(Some(hint)).await;
        }
        let last = self.state().login.as_ref().and_then(|it| it.metadata.clone());
        match last {
            Some(last) => match find(Some(&last)).await {
                Ok(discovered) => Ok(discovered),
                // The metadata may have moved.
                Err(_) => find(None).await,
            },
            None => find(None).await,
        }
    }

    /// Refreshes with the metadata that is stored with the login, which is one request. If that fails, the
    /// metadata may be out of date: it is discovered again, once.
    async fn renew(&self, request: RenewalRequest) -> Result<bool, Error> {
        let mut refused = RefusedIssuers::default();
        let stored = match self.may_refresh(&request) && self.can_refresh() {
            true => self.stored_metadata(&request.requirement, &mut refused).await,
            false => None,
        };
        let mut problem = None;
        if let Some(metadata) = &stored {
            match self.renew_with(&request, metadata, RenewalSteps::Refresh).await {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) => problem = Some(error),
            }
        }
        let found = self.discover(&request.requirement, &mut refused).await;
        // A refresh token is not sent twice in the same request.
        let is_same = |found: &DiscoveredMetadata| {
            stored.as_ref().is_some_and(|stored| stored.refreshes_like(found))
        };
        let metadata = match (found, problem) {
            (Err(_), Some(problem)) => return Err(problem),
            (Ok(found), Some(problem)) if is_same(&found) => return Err(problem),
            (found, _) => found?,
        };
        let steps = match is_same(&metadata) {
            true => RenewalSteps::Authorize,
            false => RenewalSteps::All,
        };
        self.renew_with(&request, &metadata, steps).await
    }

    /// Returns whether a refresh may help. A token that was rejected right after it was issued is not refreshed:
    /// the result would be the same.
    fn may_refresh(&self, request: &RenewalRequest) -> bool {
        request.refresh && (request.early || !self.state().is_untried)
    }

    async fn renew_with(
        &self,
        request: &RenewalRequest,
        metadata: &DiscoveredMetadata,
        steps: RenewalSteps,
    ) -> Result<bool, Error> {
        let DiscoveredMetadata { resource: discovered, auth_server } = metadata;
        let key = LoginKey::new(self.server.as_str(), &auth_server.issuer);
        // Other processes with the same token store wait, and use the new tokens.
        let lock = match request.refresh && self.can_refresh() {
            true => Some(self.config.token_store.lock(&key).await?),
            false => None,
        };
        let stored = self.config.token_store.load(&key).await?.filter(|it| self.config.matches(it));
        let mut login = match stored {
            Some(login) if request.refresh && self.is_newer_in_store(&login) => {
                return self.adopt(login);
            }
            Some(login) => self.unsaved_login(&login).unwrap_or(login),
            None => Login::new(key),
        };
        login.resource = Some(discovered.resource.clone());
        login.metadata = discovered.metadata.clone();
        login.discovered = metadata.storable();
        let prover = self.prover(&request.requirement, discovered, auth_server, &login)?;
        let scopes = self.scopes(&request.requirement, discovered, auth_server, &login);
        let flow = AuthorizationFlow {
            config: &self.config,
            fetch: &self.fetch,
            server: &self.server,
            discovered,
            auth_server,
            scopes: &scopes,
            prover: prover.as_ref(),
        };
        let may_refresh = steps != RenewalSteps::Authorize && self.may_refresh(request);
        if may_refresh && self.try_refresh(&flow, &mut login).await? {
            self.save_login(login, prover).await?;
            return Ok(true);
        }
        drop(lock);
        if steps == RenewalSteps::Refresh {
            return Ok(false);
        }
        let is_interactive = matches!(self.config.grant, GrantType::Code(_));
        if (is_interactive && !(request.interactive && self.config.interactive))
            || !self.state().limit.may_authorize(&request.requirement)
        {
            return Ok(false);
        }
        self.reuse_registration(&mut login);
        let tokens = flow.authorize(&mut login).await;
        self.state().limit.record(tokens.is_ok().then_some(&scopes));
        self.remember_registration(&login, tokens.is_ok());
        login.tokens = Some(tokens?);
        login.grant = self.config.grant.name().map(str::to_owned);
        login.asked = scopes;
        self.save_login(login, prover).await?;
        Ok(true)
    }

    /// Returns true if there is a refresh token.
    fn can_refresh(&self) -> bool {
        let state = self.state();
        let tokens = state.login.as_ref().and_then(|it| it.tokens.as_ref());
        tokens.is_some_and(|it| it.refresh.is_some())
    }

    /// Returns true if another process has saved other tokens.
    fn is_newer_in_store(&self, login: &Login) -> bool {
        let access = |it: &Login| it.tokens.as_ref().map(|it| it.access.clone());
        let state = self.state();
        let ours = state.login.as_ref().filter(|it| it.key == login.key);
        // A process without tokens has not sent the stored ones either.
        let is_later = ours.is_none_or(|it| it.saved_at <= login.saved_at);
        let ours = ours.and_then(access);
        is_later && access(login).is_some_and(|it| Some(it) != ours)
    }

    /// Our login, if saving it failed: the stored refresh token has been used.
    fn unsaved_login(&self, stored: &Login) -> Option<Login> {
        let state = self.state();
        let ours = state.login.as_ref().filter(|it| it.key == stored.key);
        ours.filter(|it| it.saved_at > stored.saved_at).cloned()
    }

    /// Uses the tokens that another process obtained.
    fn adopt(&self, login: Login) -> Result<bool, Error> {
        let prover = login.dpop_key.as_deref().map(|it| DpopProver::new(Some(it))).transpose()?;
        let mut state = self.state();
        state.mark += 1;
        state.is_untried = false;
        state.next_early_renewal = None;
        state.prover = prover.map(Arc::new);
        state.login = Some(login);
        Ok(true)
    }

    /// Refreshes the tokens of `login`, if possible.
    async fn try_refresh(
        &self,
        flow: &AuthorizationFlow<'_>,
        login: &mut Login,
    ) -> Result<bool, Error> {
        let is_known = flow.client_identity(login).is_some();
        if !is_known || login.tokens.as_ref().is_none_or(|it| it.refresh.is_none()) {
            return Ok(false);
        }
        match flow.refresh(login).await {
            Ok(tokens) => {
                login.tokens = Some(tokens);
                Ok(true)
            }
            Err(TokenError::Rejected { error, problem }) => match error.as_str() {
                "invalid_grant" => {
                    // The refresh token is invalid for good.
                    if let Some(tokens) = &mut login.tokens {
                        tokens.refresh = None;
                    }
                    self.config.token_store.save(login).await?;
                    Ok(false)
                }
                "invalid_client" if flow.is_dynamically_registered(login) => {
                    // The authorization server has removed our registration; the next attempt registers
                    // again.
                    login.registration = None;
                    self.config.token_store.save(login).await?;
                    Ok(false)
                }
                // Refreshing is not supported for this client; authorization may still work.
                "unauthorized_client" | "unsupported_grant_type" => Ok(false),
                _ => Err(problem),
            },
            Err(TokenError::Failed(error)) => Err(error),
        }
    }

    /// Reuses the registration of a failed attempt.
    fn reuse_registration(&self, login: &mut Login) {
        let state = self.state();
        if let Some((_, known)) =
            state.failed_registration.as_ref().filter(|(key, _)| *key == login.key)
        {
            login.registration = Some(known.clone());
        }
    }

    /// Remembers the registration of a failed attempt, in this process.
    fn remember_registration(&self, login: &Login, succeeded: bool) {
        let known =
            login.registration.clone().filter(|_| !succeeded && self.config.client.is_none());
        self.state().failed_registration = known.map(|it| (login.key.clone(), it));
    }

    /// Saves a login with new tokens.
    async fn save_login(
        &self,
        mut login: Login,
        prover: Option<Arc<DpopProver>>,
    ) -> Result<(), Error> {
        // Always later than the login it replaces, even within one second, so that they can be compared.
        login.saved_at = now().max(login.saved_at.saturating_add(1));
        login.allow_private = self.fetch.allows_private();
        login.dpop_key = prover.as_ref().map(|it| it.export_key());
        let before = {
            let mut state = self.state();
            state.mark += 1;
            state.is_untried = true;
            state.next_early_renewal = None;
            state.prover = prover;
            state.login.replace(login.clone())
        };
        if let Some(mut before) = before.filter(|it| it.key != login.key) {
            // The server has changed its authorization server: the old tokens are useless.
            before.tokens = None;
            self.config.token_store.save(&before).await?;
        }
        self.config.token_store.save(&login).await
    }
}
