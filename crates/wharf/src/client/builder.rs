//! Builder of a client.

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, LazyLock},
    time::Duration,
};

use wharf_client::{CallOptions, ClientHandle, ClientHandler, ClientHandlerBuilder};
use wharf_connect::HostConnector;
#[cfg(feature = "server")]
use wharf_model::Principal;
use wharf_model::{
    BoxFuture, ClientCapabilities, ClientRequest, ConnectError, Error, Implementation, LogLevel,
    Meta, Observer, Observers, TASKS_EXTENSION, Timer,
};
use wharf_transport::{
    TokioTimer,
    client::{
        self as transports, ClientLimits, ClientTransportOptions, Deadline, RevisionCache, Stderr,
        TraceEvent, UnsolicitedRequestHandler,
    },
};
use wharf_wire::{AllowedRevisions, ClientIdentity};

use super::{Client, Target};
use crate::client::{
    connect::{observed_server, target_error},
    connect_timeout,
};
use crate::{Era, ProtocolVersion};

/// Protocol versions of servers, cached for this process.
static REVISION_CACHE: LazyLock<Arc<RevisionCache>> =
    LazyLock::new(|| Arc::new(RevisionCache::in_memory()));

/// Builder of a client: its identity, its handler for server requests, its timeouts.
///
/// ```no_run
/// # async fn example() -> wharf::Result<()> {
/// use std::time::Duration;
/// use wharf::{Client, client::ClientHandlerBuilder, model::ElicitResult};
///
/// let client = Client::builder()
///     .name("my-app", "1.0.0")
///     .handler(ClientHandlerBuilder::new().elicit(|form| async move {
///         println!("{}", form.message);
///         Ok(ElicitResult::decline())
///     }))
///     .timeout(Duration::from_secs(20))
///     .connect("http://127.0.0.1:8000/mcp")
///     .await?;
/// # let _ = client;
/// # Ok(())
/// # }
/// ```
#[must_use = "a client does nothing until it connects"]
pub struct ClientBuilder {
    info: Implementation,
    handler: Arc<dyn ClientHandler>,
    capabilities: Option<ClientCapabilities>,
    pub(super) revisions: AllowedRevisions,
    calls: CallOptions,
    #[cfg(feature = "server")]
    pub(super) principal: Option<Principal>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) stderr: Option<Stderr>,
    handshake: Option<Duration>,
    limits: ClientLimits,
    pub(super) trace: Option<transports::Trace>,
    revision_cache: Arc<RevisionCache>,
    observers: Observers,
    pub(super) connector: HostConnector,
    /// Option that was set and is for URLs alone.
    pub(super) url_option: Option<&'static str>,
    /// Client certificate for the server's origin.
    #[cfg(feature = "tls")]
    pub(super) identity: Option<wharf_connect::TlsIdentity>,
    #[cfg(feature = "auth")]
    pub(super) auth: Option<wharf_auth::client::Auth>,
}

impl ClientBuilder {
    pub(super) fn new() -> Self {
        ClientBuilder {
            info: Implementation::new("wharf", env!("CARGO_PKG_VERSION")),
            handler: Arc::new(ClientHandlerBuilder::new()),
            capabilities: None,
            revisions: AllowedRevisions::Any,
            calls: CallOptions::default(),
            #[cfg(feature = "server")]
            principal: None,
            headers: Vec::new(),
            stderr: None,
            handshake: None,
            limits: ClientLimits::default(),
            trace: None,
            revision_cache: REVISION_CACHE.clone(),
            observers: Observers::default(),
            connector: HostConnector::new(),
            url_option: None,
            #[cfg(feature = "tls")]
            identity: None,
            #[cfg(feature = "auth")]
            auth: None,
        }
    }

    /// Sets the name and version of the client.
    pub fn name(self, name: impl Into<String>, version: impl Into<String>) -> Self {
        self.info(Implementation::new(name, version))
    }

    /// Sets the complete client info.
    pub fn info(mut self, info: Implementation) -> Self {
        self.info = info;
        self
    }

    /// Sets the handler of server requests. The client declares exactly the capabilities that it
    /// handles.
    pub fn handler(mut self, handler: impl ClientHandler) -> Self {
        self.handler = Arc::new(handler);
        self
    }

    /// Declares these capabilities instead of those of the handler: for a client whose responses
    /// come from elsewhere, such as a proxy. Task support is declared in addition, unless
    /// [`CallOptions::tasks`] disables it.
    pub fn capabilities(mut self, capabilities: ClientCapabilities) -> Self {
        self.capabilities = Some(capabilities);
        self
    }

    /// Adds an [observer](crate::observe::Observer), which receives the start and the end of every
    /// request, those that a proxy forwards included, and the end of the connection.
    pub fn observe(mut self, observer: impl Observer) -> Self {
        self.observers = self.observers.with(observer);
        self
    }

    /// Negotiates only this protocol version.
    pub fn protocol_version(mut self, version: ProtocolVersion) -> Self {
        self.revisions = AllowedRevisions::One(version.0);
        self
    }

    /// Negotiates only protocol versions of this era: the newest that the server has.
    pub fn era(mut self, era: Era) -> Self {
        self.revisions = AllowedRevisions::Era(era);
        self
    }

    /// Sets the idle timeout of a call; progress restarts it. It also limits connecting and the
    /// handshake together, unless [`handshake`](ClientBuilder::handshake) is set. The default is 60
    /// seconds.
    pub fn timeout(mut self, idle: Duration) -> Self {
        self.calls.idle = idle;
        self
    }

    /// Sets the total timeout of a call.
    pub fn total(mut self, total: Duration) -> Self {
        self.calls.total = total;
        self
    }

    /// Sets the timeout for connecting and the handshake together. The clock is paused while the
    /// user logs in.
    pub fn handshake(mut self, handshake: Duration) -> Self {
        self.handshake = Some(handshake);
        self
    }

    /// Calls a server in this process as `principal`, whose scopes and roles then apply: its tools
    /// see the caller as they would behind an authenticator. Without a principal, code in the same
    /// process has full access, like the process that starts a program over stdin.
    ///
    /// ```
    /// use wharf::{Client, Principal, prelude::*};
    ///
    /// /// Says who is calling.
    /// #[tool(scope = "ships:read")]
    /// async fn who(caller: Principal) -> String {
    ///     caller.id().to_owned()
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> wharf::Result<()> {
    /// let server = Server::new("harbour", "1.0.0").tool::<who>().build()?;
    /// let alice = Principal::new("alice").with_scope("ships:read");
    /// let client = Client::builder().principal(alice).connect(server).await?;
    /// assert_eq!(client.call_as::<String>("who", ()).await?, "alice");
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "server")]
    pub fn principal(mut self, principal: Principal) -> Self {
        self.principal = Some(principal);
        self
    }

    /// Sends a header with each HTTP request, but never to another origin.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Authorizes at servers that require it, over HTTP and WebSocket.
    ///
    /// ```no_run
    /// # async fn example() -> wharf::Result<()> {
    /// use wharf::{Client, auth::client::Auth};
    ///
    /// let auth = Auth::client_credentials("tug", "secret").issuer("https://id.example");
    /// let client = Client::builder().auth(auth).connect("https://mcp.example/mcp").await?;
    /// # let _ = client;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "auth")]
    pub fn auth(mut self, auth: wharf_auth::client::Auth) -> Self {
        self.auth = Some(auth);
        self
    }

    /// Sets the minimum level of log messages during calls.
    pub fn log_level(mut self, level: LogLevel) -> Self {
        self.calls.log_level = Some(level);
        self
    }

    /// Sets all other options of calls.
    pub fn options(mut self, options: CallOptions) -> Self {
        self.calls = options;
        self
    }

    /// Limits the messages of a server.
    pub fn limits(mut self, limits: ClientLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Traces every message in both directions.
    pub fn trace(mut self, trace: impl Fn(TraceEvent<'_>) + Send + Sync + 'static) -> Self {
        self.trace = Some(Arc::new(trace));
        self
    }

    /// Sets the destination of a started program's stderr.
    pub fn stderr(mut self, stderr: Stderr) -> Self {
        self.stderr = Some(stderr);
        self
    }

    /// Caches the protocol version of each server in a file, so that the next process need not
    /// probe.
    pub fn cache_revisions_in(mut self, file: impl Into<PathBuf>) -> Self {
        self.revision_cache = Arc::new(RevisionCache::in_file(file));
        self
    }

    /// Connects, negotiates the protocol version, and reads the server's capabilities.
    ///
    /// # Errors
    /// If there is no such server, or no protocol version is shared with it.
    pub async fn connect(self, target: impl Into<Target>) -> Result<Client, ConnectError> {
        self.open(target.into()).await.map_err(ConnectError::of_outcome)
    }

    async fn open(mut self, mut target: Target) -> Result<Client, Error> {
        if let Target::Entry(entry) = target {
            let (resolved, headers) =
                entry.resolve().map_err(|error| target_error(&error).with_source(error))?;
            // Headers of the caller override those of the file.
            let is_set = |name: &str| self.headers.iter().any(|it| it.0.eq_ignore_ascii_case(name));
            let from_file: Vec<_> = headers.into_iter().filter(|(name, _)| !is_set(name)).collect();
            self.headers.extend(from_file);
            target = resolved;
        }
        #[cfg(feature = "server")]
        if self.principal.is_some() && !matches!(target, Target::Server(_)) {
            return Err(target_error(
                &"a principal can be set only for a server in this process: other servers \
                  authenticate the caller themselves",
            ));
        }
        self.check_url_option(&target)?;
        let server = observed_server(&target);
        let limit = self.connect_limit();
        let deadline = Arc::new(Deadline::new(Some(limit)));
        // Boxed: the futures around it, those of the application too, would have its size.
        let connecting = Box::pin(self.connect_target(target, &deadline));
        let link = connect_timeout::within(limit, &deadline, connecting).await?;
        let timer: Arc<dyn Timer> = Arc::new(TokioTimer);
        let ClientBuilder { calls, handler, observers, .. } = self;
        let observers = with_exported(observers);
        link.observe_upstream(&observers);
        Ok(Client(ClientHandle::observed(link, timer, calls, handler, observers, server)))
    }

    /// Timeout for connecting and the handshake together.
    fn connect_limit(&self) -> Duration {
        self.handshake.unwrap_or(self.calls.idle)
    }

    pub(super) fn transport_options(&self) -> ClientTransportOptions {
        let declared = self.capabilities.clone();
        let mut capabilities = declared.unwrap_or_else(|| self.handler.capabilities());
        if self.calls.tasks {
            capabilities.extensions.insert(TASKS_EXTENSION.into(), Meta::new().into());
        }
        #[cfg(feature = "auth")]
        if let Some(extension) = self.auth.as_ref().and_then(wharf_auth::client::Auth::extension) {
            capabilities.extensions.insert(extension.into(), Meta::new().into());
        }
        let (info, notifications) = (self.info.clone(), self.handler.received_notifications());
        let client = ClientIdentity { info, capabilities, notifications };
        let mut options = ClientTransportOptions::new(Arc::new(client));
        options.revisions = self.revisions;
        options.limits = self.limits;
        options.trace = self.trace.clone();
        options.revision_cache = self.revision_cache.clone();
        options.connector = self.connector.clone();
        options.unsolicited_requests = Arc::new(UnsolicitedHandler(self.handler.clone()));
        let limit = self.connect_limit();
        options.handshake = self.handshake.unwrap_or(options.handshake).min(limit);
        // A server that does not respond to a probe must have time left for the handshake.
        options.probe = options.probe.min(limit / 3);
        options
    }
}

/// Adds the observers of the process's export over OTLP, which record nothing before it starts.
fn with_exported(observers: Observers) -> Observers {
    #[cfg(feature = "otlp")]
    if let Ok(Some(otlp)) = wharf_telemetry::Otlp::from_env() {
        let observers = otlp.metrics().into_iter().fold(observers, Observers::with);
        return otlp.traces().into_iter().fold(observers, Observers::with);
    }
    observers
}

/// Handles requests outside of a call like those within one.
struct UnsolicitedHandler(Arc<dyn ClientHandler>);

impl UnsolicitedRequestHandler for UnsolicitedHandler {
    fn ask(&self, ask: ClientRequest) -> BoxFuture<Result<String, Error>> {
        wharf_client::answer_to(&self.0, ask)
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("info", &self.info).finish_non_exhaustive()
    }
}
