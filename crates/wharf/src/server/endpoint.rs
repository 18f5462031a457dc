//! Built server, with its transports.

use std::{fmt, future::poll_fn, io, path::Path, pin::pin, sync::Arc};

use bytes::Bytes;
use futures_core::Stream;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, ToSocketAddrs},
};
use wharf_model::{Error, Principal, Request, RequestExtensions, Service, Timer, Trusted};
use wharf_server::{Registry, Router, SpawnedTask};
use wharf_transport::{
    ServerContext, Shutdown, TokioTimer, serve_lines,
    server::{in_memory, signals, stdio, tcp},
};

use super::ReplyStream;
use crate::ProtocolVersion;

pub use wharf_transport::server::in_memory::ClientEnd;

/// Built server. It serves any transport, several at once, or handles messages one by one. Clones
/// share the same server.
///
/// ```no_run
/// use wharf::{Server, Tool};
///
/// #[tokio::main]
/// async fn main() -> wharf::Result<()> {
///     let endpoint = Server::new("harbour", "1.0.0").build()?;
///     tokio::spawn(endpoint.shutdown_on_signals());
///     // Tools can be added and removed while it serves.
///     endpoint.registry().add(Tool::new("ships", async || 3))?;
///     tokio::try_join!(endpoint.serve_stdio(), endpoint.serve_tcp("127.0.0.1:4000"))?;
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct Endpoint {
    pub(crate) router: Router,
    /// Context for callers with their own runtime, or none.
    pub(crate) runtime_free: Arc<ServerContext>,
    /// Context for those of them that take only one reply.
    pub(crate) single_reply: Arc<ServerContext>,
    /// Context for the transports, which run on tokio.
    pub(crate) context: Arc<ServerContext>,
    pub(crate) shutdown: Shutdown,
    #[cfg(feature = "http")]
    pub(crate) http: wharf_transport::server::http::HttpService,
    #[cfg(feature = "metrics")]
    pub(super) admin: Option<super::admin::AdminOptions>,
}

impl Endpoint {
    pub(crate) fn new(
        router: Router,
        runtime_free: ServerContext,
        #[cfg(feature = "http")] http: impl FnOnce(
            &ServerContext,
            Shutdown,
        )
            -> wharf_transport::server::http::HttpService,
    ) -> Self {
        let context = Arc::new(runtime_free.clone().timer(TokioTimer));
        let shutdown = Shutdown::new();
        let wire = Arc::new(runtime_free.wire.without_streams());
        Endpoint {
            router,
            single_reply: Arc::new(runtime_free.clone().wire(wire)),
            runtime_free: Arc::new(runtime_free),
            #[cfg(feature = "http")]
            http: http(&context, shutdown.clone()),
            context,
            shutdown,
            #[cfg(feature = "metrics")]
            admin: None,
        }
    }

    /// Handles one message and returns the reply, if it has one. Notifications are dropped, so
    /// features that need them are not offered; [`handle_stream`](Endpoint::handle_stream) returns
    /// them.
    ///
    /// Any runtime works that the handlers support. Values in `scope` reach handlers as
    /// `Extension<T>`; a [`ProtocolVersion`](crate::ProtocolVersion) in it sets the version of a
    /// message without one. Server requests are possible only through results that require input.
    ///
    /// ```
    /// # fn main() -> wharf::Result<()> {
    /// # futures_util::FutureExt::now_or_never(async {
    /// let server = wharf::Server::new("harbour", "1.0.0").build()?;
    /// let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    /// let pong = server.handle(ping, wharf::model::RequestExtensions::new()).await;
    /// assert_eq!(pong.as_deref(), Some(&br#"{"jsonrpc":"2.0","id":1,"result":{}}"#[..]));
    /// # Ok(()) }).unwrap()
    /// # }
    /// ```
    pub async fn handle(
        &self,
        message: impl Into<Bytes>,
        scope: RequestExtensions,
    ) -> Option<Vec<u8>> {
        let mut replies = pin!(replies(&self.single_reply, message.into(), scope));
        let mut last = None;
        while let Some(message) = poll_fn(|cx| replies.as_mut().poll_next(cx)).await {
            last = Some(message);
        }
        last
    }

    /// Handles one message and streams its notifications, then its reply.
    pub fn handle_stream(
        &self,
        message: impl Into<Bytes>,
        scope: RequestExtensions,
    ) -> ReplyStream {
        replies(&self.runtime_free, message.into(), scope)
    }

    /// Starts a task from code: a call of `tool` without a waiting client. It is in the server's
    /// store when this returns, and runs even if no client follows it.
    ///
    /// ```
    /// # use wharf::prelude::*;
    /// /// Counts the ships.
    /// #[tool(task)]
    /// async fn count() -> u32 {
    ///     3
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> wharf::Result<()> {
    /// let server = Server::new("harbour", "1.0.0").tool::<count>().build()?;
    /// let task = server.spawn_task("count", serde_json::json!({})).await?;
    /// assert_eq!(task.wait().await?.content[0].as_text(), Some("3"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If there is no such tool, or no task can be made.
    pub async fn spawn_task(
        &self,
        tool: &str,
        arguments: serde_json::Value,
    ) -> Result<SpawnedTask, Error> {
        self.router.spawn_task(tool, arguments, None, self.timer()).await
    }

    /// Starts a task on behalf of `principal`, who owns it.
    ///
    /// # Errors
    /// If there is no such tool for this principal, or no task can be made.
    pub async fn spawn_task_for(
        &self,
        principal: Principal,
        tool: &str,
        arguments: serde_json::Value,
    ) -> Result<SpawnedTask, Error> {
        self.router.spawn_task(tool, arguments, Some(principal), self.timer()).await
    }

    /// Releases the tasks that run here to their store, if they are durable, so that another
    /// process resumes them at once. Call it last before the process ends.
    /// [`Server::run`](crate::Server::run) does so.
    pub async fn release_tasks(&self) {
        self.router.release_tasks().await;
    }

    /// Starts the task runtime, if tasks are durable. Without a tokio runtime the first call does
    /// so.
    pub(crate) fn start_tasks(&self) {
        if tokio::runtime::Handle::try_current().is_ok() {
            self.router.start_tasks(&self.context.timer);
        }
    }

    /// Timer of the current runtime, if there is one.
    fn timer(&self) -> &Arc<dyn Timer> {
        match tokio::runtime::Handle::try_current() {
            Ok(_) => &self.context.timer,
            Err(_) => &self.runtime_free.timer,
        }
    }

    /// Adds and removes tools, resources and prompts while the server runs.
    #[must_use]
    pub fn registry(&self) -> Registry {
        self.router.registry()
    }

    /// Router of the server, which a [`HandlerTest`](crate::testing::HandlerTest) of one handler needs.
    #[must_use]
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// Server as a service, for callers in the same process that use the model, not bytes.
    #[must_use]
    pub fn service(&self) -> Arc<dyn Service> {
        self.context.service.clone()
    }

    /// Shuts every transport down gracefully: reading stops, calls in flight have their grace
    /// period, and subscriptions end.
    pub fn shutdown(&self) {
        self.shutdown.stop();
        self.router.shutdown();
    }

    /// Completes when the server is stopped: by [`shutdown`](Endpoint::shutdown) or by a
    /// [signal](Endpoint::shutdown_on_signals). Calls in flight have their grace period from then
    /// on; for their end see [`drained`](Endpoint::drained).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> wharf::Result<()> {
    /// let server = wharf::Server::new("harbour", "1.0.0").build()?;
    /// let stopped = server.stopped();
    /// server.shutdown();
    /// stopped.await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        self.shutdown.stopped()
    }

    /// Completes when the server was stopped and everything that outlives its requests has ended,
    /// each within its grace period: WebSockets, and calls of legacy sessions. Then it
    /// [releases](Endpoint::release_tasks) its tasks. Await it last in an application that serves
    /// HTTP itself; [`Server::run`](crate::Server::run) does so.
    pub async fn drained(&self) {
        #[cfg(feature = "http")]
        self.http.drained().await;
        #[cfg(not(feature = "http"))]
        self.stopped().await;
        self.shutdown.log_end();
        self.release_tasks().await;
    }

    /// Shuts down on SIGINT or SIGTERM, and completes then, or when the server is stopped
    /// otherwise. The next signal ends the process at once. Spawn it beside a transport, or use it
    /// as the shutdown signal of an application. Stdio handles signals itself.
    ///
    /// ```no_run
    /// # #[cfg(feature = "axum")]
    /// # async fn example(listener: tokio::net::TcpListener) -> wharf::Result<()> {
    /// let server = wharf::Server::new("harbour", "1.0.0").build()?;
    /// axum::serve(listener, server.axum())
    ///     .with_graceful_shutdown(server.shutdown_on_signals())
    ///     .await?;
    /// server.drained().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn shutdown_on_signals(&self) -> impl Future<Output = ()> + Send + use<> {
        let (watch, router) = (signals::watch(self.shutdown.clone()), self.router.clone());
        async move {
            watch.await;
            router.shutdown();
        }
    }

    /// Serves the client on stdin and stdout until it disconnects, the parent process dies, or the
    /// process receives a signal.
    ///
    /// On Unix, other output of the process to stdout goes to stderr from now on, so that it cannot
    /// corrupt the messages. See [`wharf_transport::server::stdio`].
    ///
    /// # Errors
    /// If stdin or stdout cannot be taken over.
    pub async fn serve_stdio(&self) -> io::Result<()> {
        self.start_tasks();
        stdio::serve(self.context.clone(), self.shutdown.clone()).await
    }

    /// Serves lines over TCP at a loopback address, until shut down.
    ///
    /// # Errors
    /// If the address is not on the loopback, or cannot be bound.
    pub async fn serve_tcp(&self, address: impl ToSocketAddrs) -> io::Result<()> {
        let listener = Endpoint::listen_tcp(address).await?;
        self.serve_listener(listener).await;
        Ok(())
    }

    /// Binds a loopback address, for [`serve_listener`](Endpoint::serve_listener): the listener has
    /// the assigned port.
    ///
    /// # Errors
    /// If the address is not on the loopback, or cannot be bound.
    pub async fn listen_tcp(address: impl ToSocketAddrs) -> io::Result<TcpListener> {
        tcp::bind(address, tcp::Exposure::Loopback).await
    }

    /// Serves lines over TCP to all clients of `listener`, until shut down. There is no
    /// authentication or encryption: bind to the loopback unless something else provides them.
    pub async fn serve_listener(&self, listener: TcpListener) {
        self.start_tasks();
        tcp::serve(self.context.clone(), listener, tcp::CONNECTIONS, self.shutdown.clone()).await;
    }

    /// Serves lines over a Unix socket at `path`, to this user's programs, until shut down.
    ///
    /// # Errors
    /// If the path cannot be bound, or the system has no Unix sockets.
    pub async fn serve_unix(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.serve_unix_then(path, || ()).await
    }

    /// Serves lines over a Unix socket, after a message that it is ready.
    #[cfg_attr(not(unix), expect(unused_variables, clippy::unused_async))]
    pub(crate) async fn serve_unix_then(
        &self,
        path: impl AsRef<Path>,
        on_ready: impl FnOnce(),
    ) -> io::Result<()> {
        #[cfg(unix)]
        {
            use wharf_transport::server::unix;
            let socket = unix::bind(path).await?;
            self.start_tasks();
            on_ready();
            unix::serve(self.context.clone(), socket, unix::CONNECTIONS, self.shutdown.clone())
                .await;
            Ok(())
        }
        #[cfg(not(unix))]
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Serves one client over any pair of byte streams, until it disconnects.
    pub async fn serve_stream<R, W>(&self, reader: R, writer: W)
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        self.serve_stream_with(reader, writer, RequestExtensions::new()).await;
    }

    /// Serves one client over any pair of byte streams, until it disconnects. Values in `scope`,
    /// such as a [`Principal`](crate::Principal), reach handlers with each of its messages.
    pub async fn serve_stream_with<R, W>(&self, reader: R, writer: W, scope: RequestExtensions)
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        self.start_tasks();
        serve_lines(self.context.clone(), scope, reader, writer, self.shutdown.clone()).await;
    }

    /// Serves one client within this process; returns its reader and writer. Requires a tokio
    /// runtime.
    #[must_use]
    pub fn connect_memory(&self) -> ClientEnd {
        let mut scope = RequestExtensions::new();
        scope.insert(Trusted);
        self.connect_memory_with(scope)
    }

    /// Serves one client within this process, whose messages carry `scope`.
    pub(crate) fn connect_memory_with(&self, scope: RequestExtensions) -> ClientEnd {
        self.start_tasks();
        in_memory::connect(self.context.clone(), scope, self.shutdown.clone()).0
    }
}

fn replies(context: &ServerContext, message: Bytes, scope: RequestExtensions) -> ReplyStream {
    let pin = scope.get::<ProtocolVersion>().map(|pin| pin.0);
    let received = context.wire.receive(message, pin);
    let prepare = &mut |request: &mut Request| request.scope = scope.clone();
    ReplyStream(wharf_transport::MessageReplies::start(context, received, prepare))
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").finish_non_exhaustive()
    }
}
