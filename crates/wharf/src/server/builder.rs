//! Builder of a server.

use std::{fmt, path::Path, sync::Arc};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::ToSocketAddrs,
};
use wharf_model::{
    CacheHint, Icon, Implementation, LogLevel, NonceStore, Observer, ServerCapabilities, Service,
    StateCipher, Stores, Timer,
};
use wharf_server::{
    Access, BuildError, Extract, Handler, IntoMethodResult, Middleware, Part, PromptFn,
    ProtocolExtension, Registry, ResourceFn, Router, RouterBuilder, TaskOptions, ToolFn,
};
use wharf_transport::{ServerContext, ThreadTimer};
use wharf_wire::{ErrorProfile, LaterIdentity, ServerProtocol, SupportedEras};

use super::{
    command_line::{CommandLine, HelpText, Transport},
    limits::Limits,
    run::RunHooks,
    run_log::RunLog,
};
use crate::{Endpoint, Era, Result};

/// Builder of a server: its identity, its features, its limits.
///
/// ```no_run
/// use wharf::prelude::*;
///
/// /// Adds two numbers.
/// #[tool]
/// async fn add(a: i64, b: i64) -> i64 {
///     a + b
/// }
///
/// #[tokio::main]
/// async fn main() -> wharf::Result<()> {
///     Server::new("adder", "1.0.0").tool::<add>().run().await
/// }
/// ```
#[must_use = "a server does nothing until it runs or is built"]
pub struct Server {
    router: RouterBuilder,
    pub(super) about: Implementation,
    later: LaterIdentity,
    pub(super) hooks: RunHooks,
    pub(super) eras: SupportedEras,
    profile: ErrorProfile,
    log_level: LogLevel,
    limits: Limits,
    forwards_custom_methods: bool,
    timer: Arc<dyn Timer>,
    #[cfg(feature = "http")]
    pub(crate) http: wharf_transport::server::http::Http,
    #[cfg(feature = "http")]
    pub(crate) authority: Option<Arc<dyn wharf_model::Authenticator>>,
    #[cfg(feature = "skills")]
    pub(super) skills: Option<wharf_extensions::skills::Skills>,
    #[cfg(feature = "server-card")]
    pub(super) card: Option<wharf_extensions::server_card::ServerCard>,
    #[cfg(feature = "metrics")]
    pub(super) admin: Option<super::admin::AdminOptions>,
}

impl Server {
    /// Creates a server with a name and version.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Server::about(Implementation::new(name, version))
    }

    /// Creates a server with complete server info.
    pub fn about(about: Implementation) -> Self {
        Server {
            router: Router::builder(),
            about,
            later: LaterIdentity::default(),
            hooks: RunHooks::default(),
            eras: SupportedEras::Both,
            profile: ErrorProfile::Spec,
            log_level: LogLevel::Info,
            limits: Limits::default(),
            forwards_custom_methods: false,
            timer: Arc::new(ThreadTimer::default()),
            #[cfg(feature = "http")]
            http: wharf_transport::server::http::Http::new(),
            #[cfg(feature = "http")]
            authority: None,
            #[cfg(feature = "skills")]
            skills: None,
            #[cfg(feature = "server-card")]
            card: None,
            #[cfg(feature = "metrics")]
            admin: None,
        }
    }

    /// Replaces the identity of the server as soon as `identity` is set: a proxy that connects later introduces itself
    /// as its upstream server from then on.
    ///
    /// ```
    /// use wharf::{Server, model::Implementation, server::LaterIdentity};
    ///
    /// let identity = LaterIdentity::default();
    /// let server = Server::new("bridge", "1.0.0").later_identity(identity.clone());
    /// identity.set(Implementation::new("harbour", "2.1.0"));
    /// # let _ = server;
    /// ```
    pub fn later_identity(mut self, identity: LaterIdentity) -> Self {
        self.later = identity;
        self
    }

    /// Sets the display name of the server.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.about.title = Some(title.into());
        self
    }

    /// Sets the description of the server, for people.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.about.description = Some(description.into());
        self
    }

    /// Sets the URL of the server's website.
    pub fn website(mut self, url: impl Into<String>) -> Self {
        self.about.website_url = Some(url.into());
        self
    }

    /// Adds an icon. May be called several times, for several sizes.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.about.icons.push(icon);
        self
    }

    /// Sets the instructions for models.
    pub fn instructions(self, instructions: impl Into<String>) -> Self {
        self.routing(|router| router.instructions(instructions))
    }

    /// Adds shared state, which handlers take as `State<T>`.
    pub fn state<T: Clone + Send + Sync + 'static>(self, state: T) -> Self {
        self.routing(|router| router.state(state))
    }

    /// Offers a tool, made with `#[tool]`.
    pub fn tool<T: ToolFn>(self) -> Self {
        self.routing(RouterBuilder::tool::<T>)
    }

    /// Offers a resource or a template, made with `#[resource]`.
    pub fn resource<R: ResourceFn>(self) -> Self {
        self.routing(RouterBuilder::resource::<R>)
    }

    /// Offers a prompt, made with `#[prompt]`.
    pub fn prompt<P: PromptFn>(self) -> Self {
        self.routing(RouterBuilder::prompt::<P>)
    }

    /// Offers a [`Tool`](crate::Tool), [`Resource`](crate::Resource) or [`Prompt`](crate::Prompt)
    /// that was built without a macro, or a [`CustomMethod`](crate::server::CustomMethod).
    #[expect(clippy::should_implement_trait, reason = "servers are not added up")]
    pub fn add(self, part: impl Into<Part>) -> Self {
        self.routing(|router| router.add(part))
    }

    /// Offers a method that the protocol does not define, such as `acme/report`: an async function
    /// of extractors. Clients call it with [`Client::request_as`](crate::Client::request_as). A
    /// [`CustomMethod`](crate::server::CustomMethod) has scopes and a timeout as well.
    ///
    /// ```
    /// use wharf::prelude::*;
    ///
    /// async fn tide(ctx: Ctx) -> Json<std::collections::BTreeMap<&'static str, f64>> {
    ///     ctx.progress(1.0).await;
    ///     Json([("metres", 3.2)].into())
    /// }
    ///
    /// let server = Server::new("harbour", "1.0.0").method("acme/tide", tide);
    /// # let _ = server;
    /// ```
    pub fn method<A, F>(self, name: impl Into<String>, handler: F) -> Self
    where
        F: Handler<A>,
        F::Output: IntoMethodResult,
        A: Extract + 'static,
    {
        self.routing(|router| router.method(name, handler))
    }

    /// Offers an [extension](crate::server::ProtocolExtension) of the protocol: declares it with its
    /// settings, and offers its methods.
    pub fn extension(self, extension: ProtocolExtension) -> Self {
        self.routing(|router| router.extension(extension))
    }

    /// Forwards requests of methods that the protocol does not define to the
    /// [upstream](Server::upstream) server, which refuses those that it does not have. Only methods
    /// with a name such as `acme/report` are forwarded. The default is to refuse them all.
    ///
    /// ```no_run
    /// # async fn example() -> wharf::Result<()> {
    /// use wharf::{Client, Server};
    ///
    /// let upstream = Client::connect("https://example.com/mcp").await?;
    /// Server::from(upstream).forward_custom_methods(true).run().await
    /// # }
    /// ```
    pub fn forward_custom_methods(mut self, on: bool) -> Self {
        self.forwards_custom_methods = on;
        self.routing(|router| router.forward_custom_methods(on))
    }

    /// Changes the declared capabilities, which by default follow from the features offered.
    pub fn capabilities(
        self,
        change: impl Fn(&mut ServerCapabilities) + Send + Sync + 'static,
    ) -> Self {
        self.routing(|router| router.capabilities(change))
    }

    /// Forwards every call to `service`: a proxy without features of its own.
    pub fn upstream(self, service: impl Service) -> Self {
        self.routing(|router| router.upstream(service))
    }

    /// Sets the access control, which decides per caller what is listed and callable.
    pub fn access(self, access: impl Access) -> Self {
        self.routing(|router| router.access(access))
    }

    /// Adds a middleware; the first one added is the outermost.
    pub fn layer(self, middleware: impl Middleware) -> Self {
        self.routing(|router| router.layer(middleware))
    }

    /// Adds an [observer](crate::observe::Observer): it receives the start and the end of every call,
    /// and the events of the server, its transports, stores and tasks.
    ///
    /// ```
    /// use wharf::{Server, observe::{CallStart, CallState, Observer}};
    ///
    /// struct PrintCalls;
    ///
    /// impl Observer for PrintCalls {
    ///     fn call_started(&self, call: &CallStart<'_>) -> CallState {
    ///         eprintln!("{} {}", call.method_name(), call.request().target());
    ///         CallState::Ignored
    ///     }
    /// }
    ///
    /// let server = Server::new("harbour", "1.0.0").observe(PrintCalls);
    /// # let _ = server;
    /// ```
    pub fn observe(self, observer: impl Observer) -> Self {
        self.routing(|router| router.observe(observer))
    }

    /// Keeps the texts that handlers wrote into their errors from clients; off by default. The client receives
    /// `Internal error` with an id, and the log has the id and the text. This covers tools (also as tasks), resources,
    /// prompts, completions and custom methods, with `ToolError::new`, `ToolResult::error` and `Error`, and gives
    /// internal errors, whose text clients never receive, an id.
    ///
    /// Errors whose kind is the caller's fault, such as [`Error::invalid_params`](crate::Error::invalid_params), keep
    /// their text: a handler writes it for the caller.
    ///
    /// ```
    /// use wharf::{Server, Tool, ToolError};
    ///
    /// let connect = Tool::new("connect", async || Err::<(), _>(ToolError::new("db-7 refused harbour:hunter2")));
    /// let server = Server::new("harbour", "1.0.0").mask_errors(true).add(connect);
    /// # let _ = server;
    /// ```
    pub fn mask_errors(self, mask: bool) -> Self {
        self.routing(|router| router.mask_errors(mask))
    }

    /// Encrypts state that passes through the client with these keys, so that every process with
    /// the keys can decrypt it. Without them, each process generates a key at start.
    pub fn state_cipher(self, cipher: impl StateCipher) -> Self {
        self.routing(|router| router.state_cipher(cipher))
    }

    /// Sets the store of one-time claims, for `ctx.step_once` across processes.
    pub fn nonces(self, nonces: impl NonceStore) -> Self {
        self.routing(|router| router.nonces(nonces))
    }

    /// Sets the lifetime and maximum number of tasks, and the time after which any call becomes
    /// one. Tools become tasks with `#[tool(task)]`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use wharf::{Server, tasks::TaskOptions};
    ///
    /// let options = TaskOptions::default().ttl(Duration::from_secs(600));
    /// let server = Server::new("harbour", "1.0.0").tasks(options);
    /// # let _ = server;
    /// ```
    pub fn tasks(self, options: TaskOptions) -> Self {
        self.routing(|router| router.tasks(options))
    }

    /// Sets the store of tasks, one-time claims and rate limits. The default is in memory, and is
    /// lost with the process. Processes that share [stores](crate::store::open) form one server:
    /// they also share sessions, streams and subscriptions.
    pub fn store(self, stores: Stores) -> Self {
        self.routing(|router| router.store(stores))
    }

    /// Encrypts all data in the [store](Server::store): tasks, sessions, stream events, and
    /// messages between processes. Every process that shares the store needs the same keys, also
    /// after a restart; the first encrypts, all of them decrypt.
    ///
    /// ```
    /// use wharf::{Server, server::KeyRing};
    ///
    /// # let path = std::env::temp_dir().join(format!("wharf-key-{}", std::process::id()));
    /// # std::fs::write(&path, "00".repeat(32))?;
    /// # #[cfg(unix)]
    /// # std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    /// let keys = KeyRing::from_file(&path)?;
    /// # std::fs::remove_file(path)?;
    /// let server = Server::new("harbour", "1.0.0").store_key(keys);
    /// # let _ = server;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn store_key(self, cipher: impl StateCipher) -> Self {
        self.routing(|router| router.store_key(cipher))
    }

    /// Calls `run` with the [registry](crate::server::Registry) as soon as the server is built, for code that changes the
    /// running server or notifies subscribers. Such code holds a [`WeakRegistry`](crate::server::WeakRegistry), so that
    /// it does not keep the server in memory.
    ///
    /// ```
    /// use wharf::Server;
    ///
    /// let server = Server::new("harbour", "1.0.0").on_build(|registry| {
    ///     let registry = registry.downgrade();
    ///     std::thread::spawn(move || registry.upgrade().map(|it| it.resource_updated("harbour://tide")));
    /// });
    /// # let _ = server;
    /// ```
    pub fn on_build(self, run: impl FnOnce(Registry) + Send + 'static) -> Self {
        self.routing(|router| router.on_build(run))
    }

    /// Sets the time for which clients may cache lists and server info.
    pub fn cache(self, hint: CacheHint) -> Self {
        self.routing(|router| router.cache(hint))
    }

    /// Enables logs of handlers to the client. The default is on.
    pub fn logging(self, on: bool) -> Self {
        self.routing(|router| router.logging(on))
    }

    /// Sets the minimum log level for clients that have not set one.
    pub fn default_log_level(mut self, level: LogLevel) -> Self {
        self.log_level = level;
        self
    }

    /// Sets the [limits](Limits) of the server.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Supports the protocol versions of one era only.
    pub fn only(mut self, era: Era) -> Self {
        self.eras = era.into();
        self
    }

    /// Sets the error codes to use.
    pub fn errors(mut self, profile: ErrorProfile) -> Self {
        self.profile = profile;
        self
    }

    /// Sets the timer for [`Endpoint::handle`]; the default is its own thread. The transports use
    /// tokio's.
    pub fn timer(mut self, timer: impl Timer) -> Self {
        self.timer = Arc::new(timer);
        self
    }

    /// Validates the configuration and builds the server.
    ///
    /// # Errors
    /// All problems found, each with the tool, resource or prompt it is about.
    pub fn build(self) -> Result<Endpoint, BuildError> {
        #[cfg(feature = "server-card")]
        let this = self.with_card();
        #[cfg(not(feature = "server-card"))]
        let this = self;
        this.build_endpoint()
    }

    fn build_endpoint(self) -> Result<Endpoint, BuildError> {
        let limits = self.limits;
        let deadlines = limits.calls.deadlines();
        #[cfg(feature = "http")]
        let rates = limits.http_rates.filter(|_| limits.calls.rates.is_none());
        #[cfg(feature = "http")]
        let router = self
            .authority
            .iter()
            .flat_map(|it| it.problems())
            .fold(self.router, |router, problem| router.problem("authorization", problem));
        #[cfg(not(feature = "http"))]
        let router = self.router;
        #[cfg(feature = "skills")]
        let router = super::skills::add(self.skills, router);
        #[cfg(feature = "metrics")]
        let router = match &self.admin {
            Some(admin) => router.observe(admin.observer()),
            None => router,
        };
        let router = router.limits(limits.calls).build()?;
        #[cfg(feature = "http")]
        let (counts, http) = match router.stores().cloned() {
            Some(stores) => (Some(stores.rates.clone()), self.http.stores(stores)),
            None => (None, self.http),
        };
        #[cfg(feature = "http")]
        let http = match self.authority {
            Some(authority) => {
                let own = router.stores();
                if let Some(stores) = own {
                    authority.use_stores(stores);
                }
                let stores = own.cloned().unwrap_or_else(wharf_store::memory_stores);
                let configured = authority.configure(&stores, router.state_cipher().clone());
                configured.map_err(|problem| BuildError::new("auth", problem))?;
                http.authority(authority)
            }
            None => http,
        };
        let wire = ServerProtocol::new(self.about)
            .later_identity(self.later)
            .eras(self.eras)
            .profile(self.profile)
            .default_log_level(self.log_level)
            .limits(limits.messages);
        let wire = match self.forwards_custom_methods && router.is_proxy() {
            true => wire.any_custom_method(),
            false => wire
                .custom_methods(router.custom_methods())
                .custom_notifications(router.custom_notifications()),
        };
        let host = ServerContext::new(Arc::new(wire), router.clone());
        let mut host = host.deadlines(deadlines).limits(limits.lines);
        host.timer = self.timer;
        #[cfg(feature = "http")]
        let host = host.http_limits(limits.http);
        let endpoint = Endpoint::new(
            router,
            host,
            #[cfg(feature = "http")]
            |host, shutdown| {
                let host = super::http::with_remote_rate_limit(host, rates, counts);
                wharf_transport::server::http::HttpService::new(host, http, shutdown)
            },
        );
        #[cfg(feature = "metrics")]
        let endpoint = Endpoint { admin: self.admin, ..endpoint };
        Ok(endpoint)
    }

    /// [Runs](Server::run_over) the server over stdin and stdout, or the transport of the command
    /// line (`--http ADDRESS`, `--tcp ADDRESS`, `--unix PATH`; see `--help`), and starts the log of the process on stderr
    /// (feature `logs`).
    ///
    /// # Errors
    /// If the server cannot be built, the command line is invalid, or the transport cannot be
    /// set up.
    pub async fn run(self) -> Result<()> {
        match CommandLine::parse(std::env::args_os().skip(1))? {
            Some(command_line) => self.run_with(command_line).await,
            None => {
                println!("{}", HelpText(&self.about.name));
                Ok(())
            }
        }
    }

    /// [Runs](Server::run_over) the server as a command line says.
    ///
    /// # Errors
    /// If the server cannot be built, or the transport cannot be set up.
    pub async fn run_with(self, command_line: CommandLine) -> Result<()> {
        let log = command_line.log()?;
        log.start()?;
        #[cfg(feature = "http")]
        let this = Server { http: command_line.allow(self.http)?, ..self };
        #[cfg(not(feature = "http"))]
        let this = self;
        #[cfg(feature = "metrics")]
        let this = this.admin_of(&command_line)?;
        this.run_logged(command_line.transport, &log).await
    }

    /// Runs the server for the lifetime of the process: until the client disconnects (over stdin
    /// and stdout) or a signal arrives. A second signal ends it at once. The address of a socket is
    /// printed on stderr. Over HTTP, [`/live` and `/ready`](crate::http::Http::health) are served too. Traces and metrics
    /// are exported if the variables of OpenTelemetry name a receiver (`OTEL_EXPORTER_OTLP_ENDPOINT`).
    ///
    /// After it returns, the process has one more second to end by itself. Then it is ended, because
    /// a blocking handler that hangs would hold it up for ever.
    ///
    /// ```no_run
    /// # async fn example() -> wharf::Result<()> {
    /// let address = ([127, 0, 0, 1], 4000).into();
    /// wharf::Server::new("harbour", "1.0.0").run_over(wharf::server::Transport::Tcp(address)).await
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the server cannot be built, or the transport cannot be set up.
    pub async fn run_over(self, transport: Transport) -> Result<()> {
        let log = RunLog::default();
        log.start()?;
        self.run_logged(transport, &log).await
    }

    /// [Builds](Server::build) the server and [serves](Endpoint::serve_stdio) stdin and stdout.
    ///
    /// # Errors
    /// If the server cannot be built, or stdin or stdout cannot be taken over.
    pub async fn serve_stdio(self) -> Result<()> {
        Ok(self.build()?.serve_stdio().await?)
    }

    /// [Builds](Server::build) the server and [serves](Endpoint::serve_tcp) lines over TCP.
    ///
    /// # Errors
    /// If the server cannot be built, or the address cannot be bound.
    pub async fn serve_tcp(self, address: impl ToSocketAddrs) -> Result<()> {
        Ok(self.build()?.serve_tcp(address).await?)
    }

    /// [Builds](Server::build) the server and serves lines over a Unix socket.
    ///
    /// # Errors
    /// If the server cannot be built, or the path cannot be bound.
    pub async fn serve_unix(self, path: impl AsRef<Path>) -> Result<()> {
        Ok(self.build()?.serve_unix(path).await?)
    }

    /// [Builds](Server::build) the server and [serves](Endpoint::serve_stream) one client over any
    /// pair of byte streams.
    ///
    /// # Errors
    /// If the server cannot be built.
    pub async fn serve_stream<R, W>(self, reader: R, writer: W) -> Result<()>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        self.build()?.serve_stream(reader, writer).await;
        Ok(())
    }

    pub(super) fn routing(mut self, change: impl FnOnce(RouterBuilder) -> RouterBuilder) -> Self {
        self.router = change(self.router);
        self
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("about", &self.about).finish_non_exhaustive()
    }
}
