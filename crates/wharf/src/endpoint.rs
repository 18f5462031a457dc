//! A server that is built, and the ways to reach it.

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

use crate::{ProtocolVersion, ReplyStream};

pub use wharf_transport::server::in_memory::ClientEnd;

/// A server that is built: reach it through any transport, several at once, or hand it messages
/// one by one. Clones are the same server.
#[derive(Clone)]
pub struct Endpoint {
    pub(crate) router: Router,
    /// For callers that bring their own runtime, or none.
    pub(crate) bare: Arc<ServerContext>,
    /// For those of them that can take one reply only.
    pub(crate) single: Arc<ServerContext>,
    /// For the transports, which run on tokio.
    pub(crate) host: Arc<ServerContext>,
    pub(crate) shutdown: Shutdown,
    #[cfg(feature = "http")]
    pub(crate) http: wharf_transport::server::http::HttpService,
}

impl Endpoint {
    pub(crate) fn new(
        router: Router,
        bare: ServerContext,
        #[cfg(feature = "http")] http: impl FnOnce(
            &ServerContext,
            Shutdown,
        )
            -> wharf_transport::server::http::HttpService,
    ) -> Self {
        let timer: Arc<dyn Timer> = Arc::new(TokioTimer);
        let host = Arc::new(ServerContext { timer, ..bare.clone() });
        let shutdown = Shutdown::new();
        let wire = Arc::new(bare.wire.without_streams());
        Endpoint {
            router,
            single: Arc::new(ServerContext { wire, ..bare.clone() }),
            bare: Arc::new(bare),
            #[cfg(feature = "http")]
            http: http(&host, shutdown.clone()),
            host,
            shutdown,
        }
    }

    /// Takes one message and gives back the reply, if it has one. Notifications on the way are
    /// dropped, so nothing that needs them is offered; [`handle_stream`](Endpoint::handle_stream)
    /// has them.
    ///
    /// Any runtime will do, as long as the handlers are content with it. What is in `scope` reaches
    /// handlers as `Extension<T>`; a [`ProtocolVersion`](crate::ProtocolVersion) in it tells the revision of a message that
    /// does not. Nobody can be asked anything this way except through results that require input.
    ///
    /// ```
    /// # fn main() -> wharf::Result<()> {
    /// # futures_util::FutureExt::now_or_never(async {
    /// let server = wharf::Server::new("harbour", "1.0.0").build()?;
    /// let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    /// let pong = server.handle(ping, wharf::RequestExtensions::new()).await;
    /// assert_eq!(pong.as_deref(), Some(&br#"{"jsonrpc":"2.0","id":1,"result":{}}"#[..]));
    /// # Ok(()) }).unwrap()
    /// # }
    /// ```
    pub async fn handle(
        &self,
        message: impl Into<Bytes>,
        scope: RequestExtensions,
    ) -> Option<Vec<u8>> {
        let mut replies = pin!(replies(&self.single, message.into(), scope));
        let mut last = None;
        while let Some(message) = poll_fn(|cx| replies.as_mut().poll_next(cx)).await {
            last = Some(message);
        }
        last
    }

    /// Takes one message and gives back its notifications as they come, then its reply.
    pub fn handle_stream(
        &self,
        message: impl Into<Bytes>,
        scope: RequestExtensions,
    ) -> ReplyStream {
        replies(&self.bare, message.into(), scope)
    }

    /// Starts a task from code: a call of `tool` that nobody waits for. It is in the server's store
    /// when this returns, and runs whether or not anybody follows it.
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

    /// The same on behalf of `principal`, who owns the task.
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

    /// Gives the tasks that run here back to their store, if they outlive processes, so that another
    /// one goes on with them at once: the last thing to do before the process ends.
    /// [`Server::run`](crate::Server::run) does so.
    pub async fn release_tasks(&self) {
        self.router.release_tasks().await;
    }

    /// Looks after tasks from now on, if they outlive processes. Without a runtime the first call
    /// does so.
    pub(crate) fn start_tasks(&self) {
        if tokio::runtime::Handle::try_current().is_ok() {
            self.router.start_tasks(&self.host.timer);
        }
    }

    /// The clock of the runtime that is here, if there is one.
    fn timer(&self) -> &Arc<dyn Timer> {
        match tokio::runtime::Handle::try_current() {
            Ok(_) => &self.host.timer,
            Err(_) => &self.bare.timer,
        }
    }

    /// Adds and removes tools, resources and prompts while the server runs.
    #[must_use]
    pub fn registry(&self) -> Registry {
        self.router.registry()
    }

    /// The server's router, which a [`Trial`](crate::Trial) of one handler needs.
    #[must_use]
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// The server as a service, for callers in the same process that speak the model, not bytes.
    #[must_use]
    pub fn service(&self) -> Arc<dyn Service> {
        self.host.service.clone()
    }

    /// Ends every transport in good order: nothing more is read, calls under way have their grace
    /// period, and listens end.
    pub fn shutdown(&self) {
        self.shutdown.stop();
        self.router.shutdown();
    }

    /// Completes when the server is told to stop: by [`shutdown`](Endpoint::shutdown) or by a
    /// [signal](Endpoint::shutdown_on_signals). Calls under way have their grace period from then on; for their end see
    /// [`drained`](Endpoint::drained).
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

    /// Completes when the server was told to stop and what outlives its requests has ended, each within its grace
    /// period: WebSockets, and calls of legacy sessions. Then it [releases](Endpoint::release_tasks) its tasks. The last
    /// thing to do in an application that serves HTTP itself; [`Server::run`](crate::Server::run) does so.
    pub async fn drained(&self) {
        #[cfg(feature = "http")]
        self.http.drained().await;
        #[cfg(not(feature = "http"))]
        self.stopped().await;
        self.release_tasks().await;
    }

    /// Shuts down when the process is told to end (SIGINT, SIGTERM), and completes then, or when the server is told to
    /// stop otherwise. The next signal ends the process at once. Spawn it beside a transport, or let an application shut
    /// down with it. Stdio needs none, it does so itself.
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

    /// Serves the client at the other end of stdin and stdout until it is gone, the parent process
    /// dies, or the process is told to end.
    ///
    /// On Unix, whatever else the process prints to stdout goes to stderr from now on, so that it
    /// cannot get between the messages. See [`wharf_transport::server::stdio`].
    ///
    /// # Errors
    /// If stdin or stdout cannot be taken over.
    pub async fn serve_stdio(&self) -> io::Result<()> {
        self.start_tasks();
        stdio::serve(self.host.clone(), self.shutdown.clone()).await
    }

    /// Serves lines over TCP at an address of this machine's loopback, until shut down.
    ///
    /// # Errors
    /// If the address is not on the loopback, or cannot be listened at.
    pub async fn serve_tcp(&self, address: impl ToSocketAddrs) -> io::Result<()> {
        let listener = Endpoint::listen_tcp(address).await?;
        self.serve_listener(listener).await;
        Ok(())
    }

    /// Listens at an address of this machine's loopback, for
    /// [`serve_listener`](Endpoint::serve_listener): the listener tells which port it got.
    ///
    /// # Errors
    /// If the address is not on the loopback, or cannot be listened at.
    pub async fn listen_tcp(address: impl ToSocketAddrs) -> io::Result<TcpListener> {
        tcp::bind(address, tcp::Exposure::Loopback).await
    }

    /// Serves lines over TCP to whoever can reach `listener`, until shut down. Nobody is asked who
    /// they are, and nothing is encrypted: listen on the loopback unless something else sees to it.
    pub async fn serve_listener(&self, listener: TcpListener) {
        self.start_tasks();
        tcp::serve(self.host.clone(), listener, tcp::CONNECTIONS, self.shutdown.clone()).await;
    }

    /// Serves lines over a Unix socket at `path`, to this user's programs, until shut down.
    ///
    /// # Errors
    /// If the path cannot be listened at, or the system has no Unix sockets.
    pub async fn serve_unix(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.serve_unix_saying(path, || ()).await
    }

    /// Serves lines over a Unix socket, after saying that clients may come.
    #[cfg_attr(not(unix), expect(unused_variables, clippy::unused_async))]
    pub(crate) async fn serve_unix_saying(
        &self,
        path: impl AsRef<Path>,
        say: impl FnOnce(),
    ) -> io::Result<()> {
        #[cfg(unix)]
        {
            use wharf_transport::server::unix;
            let socket = unix::bind(path).await?;
            self.start_tasks();
            say();
            unix::serve(self.host.clone(), socket, unix::CONNECTIONS, self.shutdown.clone()).await;
            Ok(())
        }
        #[cfg(not(unix))]
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Serves one client over any pair of byte streams, until it is gone.
    pub async fn serve_stream<R, W>(&self, reader: R, writer: W)
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        self.serve_stream_with(reader, writer, RequestExtensions::new()).await;
    }

    /// Serves one client over any pair of byte streams, until it is gone. What is in `scope`
    /// reaches handlers with each of its messages: a [`Principal`](crate::Principal), for one.
    pub async fn serve_stream_with<R, W>(&self, reader: R, writer: W, scope: RequestExtensions)
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        self.start_tasks();
        serve_lines(self.host.clone(), scope, reader, writer, self.shutdown.clone()).await;
    }

    /// Serves one client within this process: what it reads from, and what it writes to. Needs to
    /// be called within a tokio runtime.
    #[must_use]
    pub fn connect_memory(&self) -> ClientEnd {
        let mut scope = RequestExtensions::new();
        scope.insert(Trusted);
        self.connect_memory_with(scope)
    }

    /// The same for a client whose messages carry `scope`.
    pub(crate) fn connect_memory_with(&self, scope: RequestExtensions) -> ClientEnd {
        self.start_tasks();
        in_memory::connect(self.host.clone(), scope, self.shutdown.clone()).0
    }
}

fn replies(host: &ServerContext, message: Bytes, scope: RequestExtensions) -> ReplyStream {
    let pin = scope.get::<ProtocolVersion>().map(|pin| pin.0);
    let received = host.wire.receive(message, pin);
    let prepare = &mut |request: &mut Request| request.scope = scope.clone();
    ReplyStream(wharf_transport::MessageReplies::start(host, received, prepare))
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").finish_non_exhaustive()
    }
}
