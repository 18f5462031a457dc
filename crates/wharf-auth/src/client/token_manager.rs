//! Gets into one server, and stays in.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::OnceCell,
    time::{Instant, timeout},
};
use url::Url;
use wharf_model::{AuthFailure, AuthHeaders, BoxFuture, CredentialsProvider, Error, ErrorKind};

use crate::client::{
    Login, LoginKey, Registration,
    challenge::Demand,
    config::{Grant, Plan},
    discovery,
    discovery::Found,
    dpop::Prover,
    failed,
    flow::Flow,
    now,
    resource_url::{is_this_machine, server_url},
    scope,
    token_endpoint::Denial,
};
use crate::fetch::Fetch;

/// How often one request is sent again.
const AGAIN: u32 = 5;
/// How often in a row somebody is asked although it does not help.
const IN_VAIN: u32 = 3;
/// How long that counts.
const COOLING: Duration = Duration::from_secs(60);
/// How long before its end a token is replaced, at most: a short-lived one is used for most of its life.
const EARLY: u64 = 30;
/// How long nobody tries to replace a token early after that failed.
const LATER: Duration = Duration::from_secs(30);

/// How long a call waits for its token to be replaced early.
const MOMENT: Duration = Duration::from_secs(10);
/// How long getting in may take in all, with people who have to be asked.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// Gets into one server.
pub(super) struct Agent(Arc<Core>);

pub(super) struct Core {
    pub(super) plan: Plan,
    pub(super) server: Url,
    pub(super) fetch: Fetch,
    state: Mutex<State>,
    loaded: OnceCell<()>,
    /// Held by whoever gets the next token: all others wait, and share how it failed.
    turn: Arc<tokio::sync::Mutex<Option<Error>>>,
    turns: AtomicU64,
}

/// How things stand.
#[derive(Default)]
pub(super) struct State {
    /// Counts the tokens there were.
    mark: u64,
    pub(super) login: Option<Login>,
    pub(super) prover: Option<Arc<Prover>>,
    /// Whether the token was got by us, and nobody has accepted it yet.
    is_fresh: bool,
    /// How often in a row somebody was asked in vain, and when last.
    in_vain: u32,
    asked_at: Option<Instant>,
    /// All scopes that were asked for by us.
    asked: Vec<String>,
    /// When a token may be replaced early again.
    early_at: Option<Instant>,
    /// Who we became to an authorization server where the login then failed: the next try need not register again.
    introduced: Option<(LoginKey, Registration)>,
}

/// Why a token is wanted.
struct Want {
    demand: Demand,
    /// Whether a person may be asked: somebody waits for it.
    ask: bool,
    /// Whether tokens that can be had without asking will do.
    refresh: bool,
    /// Whether it is for a token that nobody has refused.
    early: bool,
}

impl Agent {
    pub(super) fn new(plan: Plan, url: &str) -> Result<Agent, Error> {
        let server = server_url(url)?;
        // A server elsewhere has no business on this machine.
        let fetch = match is_this_machine(&server) {
            true => plan.fetch.clone(),
            false => plan.fetch.public_only(),
        };
        Ok(Agent(Arc::new(Core {
            plan,
            server,
            fetch,
            state: Mutex::default(),
            loaded: OnceCell::new(),
            turn: Arc::default(),
            turns: AtomicU64::new(0),
        })))
    }

    pub(super) async fn log_in(self) -> Result<Login, Error> {
        self.0.load().await?;
        let want = Want { demand: Demand::default(), ask: true, refresh: false, early: true };
        self.0.renew_in_time(want).await?;
        let login = self.0.state().login.clone();
        login.ok_or_else(|| failed("A fixed token is shown as it is: there is no login".into()))
    }
}

impl CredentialsProvider for Agent {
    fn show(&self, verb: &str, url: &str) -> BoxFuture<Result<AuthHeaders, Error>> {
        let (core, verb, url) = (self.0.clone(), verb.to_owned(), url.to_owned());
        Box::pin(async move { core.show(&verb, &url).await })
    }

    fn answered(&self, mark: u64, status: u16, nonce: Option<&str>) {
        let mut state = self.0.state();
        if let (Some(prover), Some(nonce)) = (&state.prover, nonce) {
            prover.note(self.0.server.as_str(), nonce);
        }
        if status < 400 && mark == state.mark {
            state.is_fresh = false;
            // A server that now lets in and now refuses does not get people asked without end.
            if !matches!(self.0.plan.grant, Grant::Code(_)) {
                state.in_vain = 0;
            }
        }
    }

    fn refused(&self, rebuff: AuthFailure) -> BoxFuture<Result<bool, Error>> {
        let core = self.0.clone();
        Box::pin(async move { core.refused(rebuff).await })
    }
}

impl Core {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn show(self: &Arc<Self>, verb: &str, url: &str) -> Result<AuthHeaders, Error> {
        if let Grant::Bearer(token) = &self.plan.grant {
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
                let proof = prover.prove(verb, url, Some(&tokens.access))?;
                vec![("authorization", format!("DPoP {}", tokens.access)), ("dpop", proof)]
            }
            (Some(tokens), _) => vec![("authorization", format!("Bearer {}", tokens.access))],
        };
        Ok(AuthHeaders::new(mark, headers))
    }

    /// Remembers the last login at this server.
    async fn load(&self) -> Result<(), Error> {
        let load = || async {
            let mut last: Option<Login> = None;
            for key in self.keys().await? {
                let is_ours = self.plan.issuer.as_ref().is_none_or(|it| *it == key.issuer);
                let login = if is_ours { self.plan.vault.load(&key).await? } else { None };
                let login = login.filter(|it| it.tokens.is_some() && self.plan.suits(it));
                let is_newer =
                    |it: &Login| last.as_ref().is_none_or(|last| last.saved_at < it.saved_at);
                if let Some(login) = login.filter(is_newer) {
                    last = Some(login);
                }
            }
            if let Some(login) = last {
                let prover = login.dpop_key.as_deref().map(|it| Prover::new(Some(it)));
                let mut state = self.state();
                state.prover = prover.transpose()?.map(Arc::new);
                state.login = Some(login);
                state.mark += 1;
            }
            Ok(())
        };
        self.loaded.get_or_try_init(load).await.copied()
    }

    /// Under which keys there are logins at this server.
    pub(super) async fn keys(&self) -> Result<Vec<LoginKey>, Error> {
        let mut keys = self.plan.vault.list().await?;
        keys.retain(|key| key.server == self.server.as_str());
        Ok(keys)
    }

    /// Replaces a token that is about to end, if nobody has to be asked for it.
    async fn renew_early(self: &Arc<Self>) {
        let (mark, is_due) = {
            let state = self.state();
            let tokens = state.login.as_ref().and_then(|it| it.tokens.as_ref());
            let can = tokens.is_some_and(|it| {
                it.refresh.is_some() || !matches!(self.plan.grant, Grant::Code(_))
            });
            let ends = tokens.and_then(|it| it.expires_at);
            let since = state.login.as_ref().map_or(0, |it| it.saved_at);
            let early = |ends: u64| EARLY.min(ends.saturating_sub(since) / 4);
            let is_ending = ends.is_some_and(|ends| ends <= now() + early(ends));
            let may = state.early_at.is_none_or(|at| at <= Instant::now());
            (state.mark, can && is_ending && may)
        };
        if is_due {
            let want = Want { demand: Demand::default(), ask: false, refresh: true, early: true };
            // What is wrong with it comes out when the server refuses, and so does that a person is being asked.
            let renewed = timeout(MOMENT, self.take_turn(mark, want)).await;
            if !matches!(renewed, Ok(Ok(true))) {
                self.state().early_at = Some(Instant::now() + LATER);
            }
        }
    }

    async fn refused(self: &Arc<Self>, rebuff: AuthFailure) -> Result<bool, Error> {
        let demand = Demand::read(&rebuff.challenges);
        if rebuff.times >= AGAIN || matches!(self.plan.grant, Grant::Bearer(_)) {
            return Ok(false);
        }
        if rebuff.status == 403 && !demand.wants_scope() {
            return Ok(false);
        }
        if demand.wants_nonce() && self.state().prover.is_some() {
            return Ok(rebuff.times < 2);
        }
        let refresh = !demand.wants_scope();
        self.take_turn(rebuff.mark, Want { demand, ask: rebuff.waited, refresh, early: false })
            .await
    }

    /// Gets a token in place of the one with this mark, unless somebody has done so.
    async fn take_turn(self: &Arc<Self>, mark: u64, want: Want) -> Result<bool, Error> {
        let before = self.turns.load(Ordering::Acquire);
        let mut turn = self.turn.clone().lock_owned().await;
        if self.state().mark != mark {
            return Ok(true);
        }
        let waited = self.turns.load(Ordering::Acquire) != before;
        if let Some(error) = turn.as_ref().filter(|_| waited) {
            return Err(error.clone());
        }
        let core = self.clone();
        // In a task of its own: who is asked may answer after the caller has given up.
        let renewing = tokio::spawn(async move {
            let renewed = core.renew_in_time(want).await;
            core.turns.fetch_add(1, Ordering::Release);
            *turn = renewed.as_ref().err().cloned();
            renewed
        });
        renewing.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::InternalError)))
    }

    /// Whether there is another token now. However slow everybody is, it ends.
    async fn renew_in_time(&self, want: Want) -> Result<bool, Error> {
        timeout(PATIENCE, self.renew(want)).await.unwrap_or_else(|_| {
            let server = discovery::shown(&self.server);
            Err(failed(format!("Getting into {server} took longer than {PATIENCE:?}; try again")))
        })
    }

    /// Who lets in: as the server says now, or where it said so the last time.
    async fn found(&self, demand: &Demand) -> Result<Found, Error> {
        let find = |hint| discovery::find(&self.fetch, &self.server, hint);
        if let Some(hint) = &demand.metadata {
            return find(Some(hint)).await;
        }
        let last = self.state().login.as_ref().and_then(|it| it.metadata.clone());
        match last {
            Some(last) => match find(Some(&last)).await {
                Ok(found) => Ok(found),
                // It may have moved since.
                Err(_) => find(None).await,
            },
            None => find(None).await,
        }
    }

    async fn renew(&self, want: Want) -> Result<bool, Error> {
        let found = self.found(&want.demand).await?;
        let authority = self.authority(&found).await?;
        let key = LoginKey::new(self.server.as_str(), &authority.issuer);
        // Whoever else shares the vault waits, and finds what we got.
        let held = match want.refresh && self.can_refresh() {
            true => Some(self.plan.vault.hold(&key).await?),
            false => None,
        };
        let stored = self.plan.vault.load(&key).await?.filter(|it| self.plan.suits(it));
        let mut login = match stored {
            Some(login) if want.refresh && self.is_news(&login) => return self.adopt(login),
            Some(login) => self.newer_than(&login).unwrap_or(login),
            None => Login::new(key),
        };
        login.resource = Some(found.resource.clone());
        login.metadata = found.metadata.clone();
        let prover = self.prover(&want.demand, &found, &authority, &login)?;
        let scopes = self.scopes(&want.demand, &found, &authority, &login);
        let flow = Flow {
            plan: &self.plan,
            fetch: &self.fetch,
            server: &self.server,
            found: &found,
            authority: &authority,
            scopes: &scopes,
            prover: prover.as_ref(),
        };
        // A token that was refused as soon as it was there is not replaced by its like.
        let may_refresh = want.refresh && (want.early || !self.state().is_fresh);
        if may_refresh && self.refreshed(&flow, &mut login).await? {
            self.keep(login, prover).await?;
            return Ok(true);
        }
        drop(held);
        let by_person = matches!(self.plan.grant, Grant::Code(_));
        if (by_person && !(want.ask && self.plan.asks)) || !self.may_ask(&want.demand) {
            return Ok(false);
        }
        self.introduce(&mut login);
        let tokens = flow.authorize(&mut login).await;
        self.note_asked(tokens.is_ok().then_some(&scopes));
        self.note_introduced(&login, tokens.is_ok());
        login.tokens = Some(tokens?);
        login.grant = self.plan.grant.name().map(str::to_owned);
        login.asked = scopes;
        self.keep(login, prover).await?;
        Ok(true)
    }

    /// Whether we have what gets the next tokens without asking anybody.
    fn can_refresh(&self) -> bool {
        let state = self.state();
        let tokens = state.login.as_ref().and_then(|it| it.tokens.as_ref());
        tokens.is_some_and(|it| it.refresh.is_some())
    }

    /// Whether somebody else who shares the vault has put other tokens there than ours.
    fn is_news(&self, login: &Login) -> bool {
        let access = |it: &Login| it.tokens.as_ref().map(|it| it.access.clone());
        let state = self.state();
        let ours = state.login.as_ref().filter(|it| it.key == login.key);
        // Whoever has none yet has not shown what is there, either.
        let is_later = ours.is_none_or(|it| it.saved_at <= login.saved_at);
        let ours = ours.and_then(access);
        is_later && access(login).is_some_and(|it| Some(it) != ours)
    }

    /// Our login, if it could not be saved: what is in the vault was used up.
    fn newer_than(&self, stored: &Login) -> Option<Login> {
        let state = self.state();
        let ours = state.login.as_ref().filter(|it| it.key == stored.key);
        ours.filter(|it| it.saved_at > stored.saved_at).cloned()
    }

    /// Uses the tokens that somebody else got.
    fn adopt(&self, login: Login) -> Result<bool, Error> {
        let prover = login.dpop_key.as_deref().map(|it| Prover::new(Some(it))).transpose()?;
        let mut state = self.state();
        state.mark += 1;
        state.is_fresh = false;
        state.early_at = None;
        state.prover = prover.map(Arc::new);
        state.login = Some(login);
        Ok(true)
    }

    /// Whether the tokens of `login` could be replaced without asking anybody.
    async fn refreshed(&self, flow: &Flow<'_>, login: &mut Login) -> Result<bool, Error> {
        let is_known = flow.known(login).is_some();
        if !is_known || login.tokens.as_ref().is_none_or(|it| it.refresh.is_none()) {
            return Ok(false);
        }
        match flow.refresh(login).await {
            Ok(tokens) => {
                login.tokens = Some(tokens);
                Ok(true)
            }
            Err(Denial::Refused { error, problem }) => match error.as_str() {
                "invalid_grant" => {
                    // It will not be better the next time.
                    if let Some(tokens) = &mut login.tokens {
                        tokens.refresh = None;
                    }
                    self.plan.vault.save(login).await?;
                    Ok(false)
                }
                "invalid_client" if flow.is_registered(login) => {
                    // It has forgotten us: the next visit begins with telling it anew.
                    login.registration = None;
                    self.plan.vault.save(login).await?;
                    Ok(false)
                }
                // It refreshes nothing for us, but may still let people in.
                "unauthorized_client" | "unsupported_grant_type" => Ok(false),
                _ => Err(problem),
            },
            Err(Denial::Failed(error)) => Err(error),
        }
    }

    /// Whether asking once more could help.
    fn may_ask(&self, demand: &Demand) -> bool {
        let mut state = self.state();
        let wanted = demand.scope.as_deref().unwrap_or_default();
        if demand.wants_scope() && wanted.iter().all(|it| state.asked.contains(it)) {
            return false;
        }
        if state.asked_at.is_none_or(|at| at.elapsed() > COOLING) {
            state.in_vain = 0;
        }
        if state.in_vain >= IN_VAIN {
            return false;
        }
        state.in_vain += 1;
        true
    }

    /// Somebody was asked, and granted these scopes or nothing.
    fn note_asked(&self, granted: Option<&Vec<String>>) {
        let mut state = self.state();
        // Now, and not when it began: people take their time.
        state.asked_at = Some(Instant::now());
        if let Some(scopes) = granted {
            state.asked = scope::union([std::mem::take(&mut state.asked), scopes.clone()]);
        }
    }

    /// Uses the registration of an attempt that failed.
    fn introduce(&self, login: &mut Login) {
        let state = self.state();
        if let Some((_, known)) = state.introduced.as_ref().filter(|(key, _)| *key == login.key) {
            login.registration = Some(known.clone());
        }
    }

    /// Remembers the registration of an attempt that failed, for this process.
    fn note_introduced(&self, login: &Login, is_in: bool) {
        let known = login.registration.clone().filter(|_| !is_in && self.plan.client.is_none());
        self.state().introduced = known.map(|it| (login.key.clone(), it));
    }

    /// Remembers a login with new tokens.
    async fn keep(&self, mut login: Login, prover: Option<Arc<Prover>>) -> Result<(), Error> {
        // Later than what it replaces, within one second too: that tells them apart.
        login.saved_at = now().max(login.saved_at.saturating_add(1));
        login.allow_private = self.fetch.allows_private();
        login.dpop_key = prover.as_ref().map(|it| it.stored());
        let before = {
            let mut state = self.state();
            state.mark += 1;
            state.is_fresh = true;
            state.early_at = None;
            state.prover = prover;
            state.login.replace(login.clone())
        };
        if let Some(mut before) = before.filter(|it| it.key != login.key) {
            // The server has another authorization server now: the old tokens open nothing.
            before.tokens = None;
            self.plan.vault.save(&before).await?;
        }
        self.plan.vault.save(&login).await
    }
}
