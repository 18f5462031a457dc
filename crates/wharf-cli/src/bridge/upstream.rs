//! Upstream server of a bridge, to which it connects later.

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};
use wharf::{
    Client, Error, ErrorKind,
    client::{ClientHandlerBuilder, Target, config::masked_url},
    model::{
        BoxFuture, ClientCapabilities, ElicitationCapability, Outbox, Outcome, Request,
        RootsCapability, SamplingCapability, Service,
    },
    observe::Observers,
    server::LaterIdentity,
};

use crate::{
    context::{Context, ResolvedServer},
    error::CliError,
    exit_status::ExitStatus,
};

/// Delays between attempts to connect that failed. After the first connection, the client has its own.
const FIRST_DELAY: Duration = Duration::from_millis(500);
const LONGEST_DELAY: Duration = Duration::from_secs(60);

/// Capabilities that the bridge declares to the server.
#[derive(Clone, Copy, Debug)]
pub(super) enum DeclaredCapabilities {
    /// Those of the only client, which sends the first request.
    OfFirstRequest,
    /// Every capability, because several clients share the connection.
    All,
}

/// Service that connects to the server when it is first called, and forwards every call.
#[derive(Clone)]
pub(super) struct Upstream(Arc<UpstreamState>);

struct UpstreamState {
    context: Arc<Context>,
    server: ResolvedServer,
    /// Name in errors: without arguments, credentials and queries.
    name: String,
    declared: DeclaredCapabilities,
    identity: LaterIdentity,
    connected: OnceLock<ConnectedUpstream>,
    /// One attempt at a time.
    attempts: tokio::sync::Mutex<FailedAttempts>,
    observers: Mutex<Option<Observers>>,
    refused: watch::Sender<Option<CliError>>,
    closed: watch::Sender<bool>,
}

struct ConnectedUpstream {
    client: Client,
    service: Arc<dyn Service>,
}

/// Attempts to connect that failed since the last success.
#[derive(Default)]
struct FailedAttempts {
    last: Option<(Error, Instant)>,
    delay: Duration,
}

impl Upstream {
    /// Resolves the server; does not connect.
    pub(super) async fn new(
        context: Arc<Context>,
        target: Target,
        declared: DeclaredCapabilities,
        identity: LaterIdentity,
    ) -> Result<Self, CliError> {
        let name = match &target {
            Target::Entry(entry) => entry.name.clone(),
            Target::Command(command) => format!("`{}`", command.program),
            other => masked_url(&other.to_string()),
        };
        let server = context.resolve_server(target).await?;
        // Reports invalid options before the front is up.
        let _checked = context.client_builder(&server, ClientHandlerBuilder::new())?;
        Ok(Upstream(Arc::new(UpstreamState {
            context,
            server,
            name,
            declared,
            identity,
            connected: OnceLock::new(),
            attempts: tokio::sync::Mutex::default(),
            observers: Mutex::default(),
            refused: watch::Sender::new(None),
            closed: watch::Sender::new(false),
        })))
    }

    /// Connects in the background.
    pub(super) fn connect_soon(&self) {
        let state = self.0.clone();
        tokio::spawn(async move { state.attempt(every_capability()).await });
    }

    /// Completes when the server refuses the bridge: it has no login, or an invalid one.
    pub(super) async fn refused(&self) {
        let mut refused = self.0.refused.subscribe();
        if refused.wait_for(Option::is_some).await.is_err() {
            std::future::pending().await
        }
    }

    /// Returns the refusal, with a hint to log in.
    pub(super) fn refusal(&self) -> Option<CliError> {
        self.0.refused.send_replace(None)
    }

    /// Closes the connection, which ends a server that was started. Ends an attempt to connect.
    pub(super) async fn close(&self) {
        self.0.closed.send_replace(true);
        let _ended = self.0.attempts.lock().await;
        if let Some(connected) = self.0.connected.get() {
            connected.client.close().await;
        }
    }
}

impl Service for Upstream {
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        if let Some(connected) = self.0.connected.get() {
            return connected.service.call(request, outbox);
        }
        let state = self.0.clone();
        Box::pin(async move {
            // The attempt has its own deadline, whose error names the server.
            let waiting = outbox.pause();
            let capabilities = match state.declared {
                DeclaredCapabilities::All => every_capability(),
                DeclaredCapabilities::OfFirstRequest => request.peer().capabilities.clone(),
            };
            let attempt = state.clone();
            // In a task: a cancelled call does not end the attempt that others wait for.
            let attempt = tokio::spawn(async move { attempt.attempt(capabilities).await });
            let ended = attempt.await.unwrap_or_else(|error| Err(Error::internal(error)));
            drop(waiting);
            match (ended, state.connected.get()) {
                (Ok(()), Some(connected)) => connected.service.call(request, outbox).await,
                (Err(error), _) => error.into(),
                (Ok(()), None) => Error::new(ErrorKind::ConnectionClosed).into(),
            }
        })
    }

    fn observe_upstream(&self, observers: &Observers) {
        match self.0.connected.get() {
            Some(connected) => connected.service.observe_upstream(observers),
            None => *self.0.observers() = Some(observers.clone()),
        }
    }

    fn has_target(&self, request: &Request) -> bool {
        self.0.connected.get().is_some_and(|connected| connected.service.has_target(request))
    }
}

impl UpstreamState {
    fn observers(&self) -> std::sync::MutexGuard<'_, Option<Observers>> {
        self.observers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects, unless another attempt did or the last one failed a moment ago.
    async fn attempt(&self, capabilities: ClientCapabilities) -> Result<(), Error> {
        let mut failed = self.attempts.lock().await;
        if self.connected.get().is_some() {
            return Ok(());
        }
        if let Some((error, again)) = &failed.last
            && Instant::now() < *again
        {
            return Err(error.clone());
        }
        let mut closed = self.closed.subscribe();
        let opened = tokio::select! {
            opened = self.open(capabilities) => opened,
            () = async { drop(closed.wait_for(|closed| *closed).await) } => {
                Err(ErrorKind::ConnectionClosed.into())
            }
        };
        match opened {
            Ok(client) => {
                self.introduce(client);
                *failed = FailedAttempts::default();
                Ok(())
            }
            Err(error) => {
                let delay = (failed.delay * 2).clamp(FIRST_DELAY, LONGEST_DELAY);
                *failed =
                    FailedAttempts { last: Some((error.clone(), Instant::now() + delay)), delay };
                Err(error)
            }
        }
    }

    async fn open(&self, capabilities: ClientCapabilities) -> Result<Client, Error> {
        let builder = self.context.client_builder(&self.server, ClientHandlerBuilder::new());
        let builder = builder.map_err(|fail| self.unavailable(&fail.to_string()))?;
        let builder = builder.capabilities(capabilities);
        let connecting = builder.connect(self.server.target.clone()).await;
        connecting.map_err(|error| {
            let fail =
                self.context.with_login_hint(Context::connect_error(&self.server.target, error));
            let error = self.unavailable(&fail.advice());
            if fail.exit == ExitStatus::Authorization {
                self.refused.send_replace(Some(fail));
            }
            error
        })
    }

    /// Error of a call while there is no connection. No other kind is used, because the refusal of the bridge is none of
    /// its client.
    fn unavailable(&self, problem: &str) -> Error {
        let message = format!("The server {} is not available: {problem}", self.name);
        Error::new(ErrorKind::TransportError).with_message(message)
    }

    fn introduce(&self, client: Client) {
        self.identity.set(client.about().info.clone());
        let service = client.relay();
        let _ = self.connected.set(ConnectedUpstream { client, service });
        if let (Some(observers), Some(connected)) = (self.observers().take(), self.connected.get())
        {
            connected.service.observe_upstream(&observers);
        }
    }
}

fn every_capability() -> ClientCapabilities {
    ClientCapabilities::default()
        .roots(RootsCapability::default().list_changed(true))
        .sampling(SamplingCapability::default().context(true).tools(true))
        .elicitation(ElicitationCapability::default().form(true).url(true))
}
