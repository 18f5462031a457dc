//! HTTP client transport: opens a connection, and reopens it when the server has lost the session.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, Weak,
    atomic::{AtomicU64, Ordering},
};

use bytestring::ByteString;
use serde_json::{Value, value::RawValue};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use wharf_client::{ClientTransport, ControlRequest, NotificationListener, ServerInfo};
use wharf_model::{
    BoxFuture, Error, ErrorKind, FailureOrigin, LogLevel, Method, Outbox, Outcome, Reply, Request,
    Service,
};
use wharf_wire::{CallId, ClientCodec};

use crate::client::http::{
    call::send_request,
    connection::HttpConnection,
    handshake::open,
    send::HttpSender,
    session::{OutgoingMessage, SendError, closed_by},
};
use crate::{
    Shutdown,
    client::{
        backoff::{ReconnectBackoff, RetryTiming},
        closed_error, no_connection, opening_failed,
        pending::{PendingKind, PendingReply, PendingRequests},
        subscription::{SubscriptionTransport, listen},
    },
};

/// Client transport over HTTP.
pub(super) struct HttpTransport(Arc<HttpTransportState>);

struct HttpTransportState {
    http: Arc<HttpSender>,
    pending: Arc<PendingRequests>,
    /// Key of the server in the revision cache.
    key: String,
    current_connection: Mutex<Option<Arc<HttpConnection>>>,
    /// Locked during a handshake. Holds the error of the last one.
    opening: tokio::sync::Mutex<Option<Error>>,
    /// Number of handshakes so far.
    openings: AtomicU64,
    subscribing: tokio::sync::Mutex<()>,
    /// Reconnect backoff of subscriptions.
    listen_backoff: Mutex<ReconnectBackoff>,
    /// Requested log level: set again in every new session.
    level: Mutex<Option<LogLevel>>,
    closing: Shutdown,
}

impl HttpTransport {
    pub(super) async fn connect(key: &str, http: HttpSender) -> Result<HttpTransport, Error> {
        let pending = PendingRequests::new(http.options.clone());
        let state = Arc::new(HttpTransportState {
            http: Arc::new(http),
            pending,
            key: key.to_owned(),
            current_connection: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            openings: AtomicU64::new(0),
            subscribing: tokio::sync::Mutex::default(),
            listen_backoff: Mutex::default(),
            level: Mutex::default(),
            closing: Shutdown::new(),
        });
        // Not spawned: no other call waits for it yet, and dropping the future aborts it.
        state.open().await?;
        Ok(HttpTransport(state))
    }
}

impl HttpTransportState {
    /// The connection, opened if necessary. Concurrent callers share one handshake and its error.
    async fn connection(self: &Arc<Self>) -> Result<Arc<HttpConnection>, Error> {
        self.connection_for(None).await
    }

    /// The connection for a call, whose deadline is paused while the user logs in for the
    /// handshake.
    async fn connection_for(
        self: &Arc<Self>,
        outbox: Option<&Outbox>,
    ) -> Result<Arc<HttpConnection>, Error> {
        if let Some(connection) = self.current() {
            return Ok(connection);
        }
        let state = self.clone();
        // Spawned: a call that is not polled must not block the handshake for others.
        let mut opening = tokio::spawn(async move { state.open().await });
        let mut login_state = self.http.login_state();
        loop {
            let is_login = *login_state.borrow_and_update();
            let _paused = outbox.filter(|_| is_login).map(Outbox::pause);
            tokio::select! {
                opened = &mut opening => {
                    return opened.unwrap_or_else(|_| Err(opening_failed()));
                }
                _ = login_state.changed() => {}
            }
        }
    }

    async fn open(&self) -> Result<Arc<HttpConnection>, Error> {
        let before = self.openings.load(Ordering::Acquire);
        let mut failure = self.opening.lock().await;
        if let Some(connection) = self.current() {
            return Ok(connection);
        }
        if self.closing.is_stopped() {
            return Err(closed_error());
        }
        let waited = self.openings.load(Ordering::Acquire) != before;
        if let Some(error) = failure.as_ref().filter(|_| waited) {
            return Err(error.clone());
        }
        let opening = async {
            let opened = open(&self.http, &self.key).await?;
            Ok(Arc::new(HttpConnection::begin(&self.http, &self.pending, opened).await))
        };
        let opened = tokio::select! {
            biased;
            () = self.closing.stopped() => Err(closed_error()),
            opened = opening => opened,
        };
        self.openings.fetch_add(1, Ordering::Release);
        *failure = opened.as_ref().err().cloned();
        let connection = opened?;
        *lock(&self.current_connection) = Some(connection.clone());
        let level = *lock(&self.level);
        if let Some(level) = level {
            // If this fails, only log messages are missing.
            let _ = timeout(self.http.options.handshake, self.send_level(&connection, level)).await;
        }
        Ok(connection)
    }

    fn current(&self) -> Option<Arc<HttpConnection>> {
        lock(&self.current_connection).clone().filter(|connection| !connection.session.is_gone())
    }

    /// Sends a request and waits for its reply. If the server has lost the session, opens a new one
    /// and sends the request again, once.
    async fn send_with_reopen(
        self: &Arc<Self>,
        outbox: Option<&Outbox>,
        kind: PendingKind,
        write: impl Fn(&ClientCodec, &CallId) -> Result<OutgoingMessage, Error>,
    ) -> Result<(ClientCodec, ByteString), Error> {
        let mut again = false;
        loop {
            let connection = self.connection_for(outbox).await?;
            let codec = connection.session.codec.clone();
            let id = self.pending.next_id();
            let outgoing = OutgoingMessage { call: outbox.cloned(), ..write(&codec, &id)? };
            let pending_reply = self.pending.register(id, outbox, kind.clone())?;
            match self.until_closed(send_request(&connection, outgoing, pending_reply)).await {
                Ok(reply) => return Ok((codec, reply)),
                Err(SendError::Gone(error)) if !again => {
                    self.http.options.note(format_args!("opening a new session: {error}"));
                    connection.session.end(&error);
                    again = true;
                }
                Err(send_error) => return Err(send_error.into_error()),
            }
        }
    }

    async fn until_closed<T>(
        &self,
        work: impl Future<Output = Result<T, SendError>>,
    ) -> Result<T, SendError> {
        tokio::select! {
            biased;
            done = work => done,
            () = self.closing.stopped() => Err(closed_error().into()),
        }
    }

    async fn call(self: &Arc<Self>, request: &Request, outbox: &Outbox) -> Result<Outcome, Error> {
        let info = request.method.info();
        // Without `server/discover`, servers describe themselves only in the handshake.
        if request.method == Method::Discover
            && !self.connection().await?.session.codec.has(Method::Discover)
        {
            let discovery = self.pending.about().discovery.clone();
            return Ok(Reply::Discover(Box::new(discovery)).into());
        }
        let kind = PendingKind::Call { asks: info.may_suspend };
        let write = |codec: &ClientCodec, id: &CallId| {
            let mut message = Vec::new();
            codec.call(request, id, &mut message)?;
            let target = info.mirrored.map(|_| request.target());
            let name = request.method_name();
            let name = codec.name(request.method).unwrap_or(&name);
            let headers = codec.headers(name, target.as_deref(), request.mirrored.as_ref());
            Ok(OutgoingMessage::new(message, headers))
        };
        let (codec, result) = self.send_with_reopen(Some(outbox), kind, write).await?;
        codec.result(request.method, &result)
    }

    async fn request(
        self: &Arc<Self>,
        method: &str,
        params: Option<&RawValue>,
        outbox: &Outbox,
    ) -> Result<Box<RawValue>, Error> {
        let params = params.map(RawValue::get);
        let target = target(method, params);
        let write = |codec: &ClientCodec, id: &CallId| {
            let mut message = Vec::new();
            codec.request(method, params, id, &mut message)?;
            Ok(OutgoingMessage::new(message, codec.headers(method, target.as_deref(), None)))
        };
        let known = Method::from_name(method);
        let kind = PendingKind::Call { asks: known.is_none_or(|it| it.info().may_suspend) };
        let (_, result) = self.send_with_reopen(Some(outbox), kind, write).await?;
        RawValue::from_string(result.to_string()).map_err(|error| {
            let problem = format!("The result of {method} is not JSON: {error}");
            Error::new(ErrorKind::ValidationFailed)
                .with_message(problem)
                .from_client_because(FailureOrigin::Protocol, Arc::new(error))
        })
    }

    async fn run(self: &Arc<Self>, control: ControlRequest) -> Result<(), Error> {
        match control {
            ControlRequest::Ping => self.ping().await,
            ControlRequest::LogLevel(level) => self.set_level(level).await,
            ControlRequest::RootsChanged => self.roots_changed().await,
            _ => Ok(()),
        }
    }

    async fn ping(self: &Arc<Self>) -> Result<(), Error> {
        let write = |codec: &ClientCodec, id: &CallId| {
            let mut message = Vec::new();
            codec.ping(id, &mut message);
            Ok(OutgoingMessage::new(message, codec.headers(codec.ping_method(), None, None)))
        };
        self.send_with_reopen(None, PendingKind::ControlRequest, write).await.map(drop)
    }

    /// Sets the log level on servers that store it (`logging/setLevel`).
    async fn send_level(
        &self,
        connection: &HttpConnection,
        level: LogLevel,
    ) -> Result<(), SendError> {
        let (id, mut message) = (self.pending.next_id(), Vec::new());
        if !connection.session.codec.set_log_level(level, &id, &mut message) {
            return Ok(());
        }
        let pending_reply = self.pending.register(id, None, PendingKind::ControlRequest)?;
        let headers = connection.session.codec.headers("logging/setLevel", None, None);
        self.until_closed(send_request(
            connection,
            OutgoingMessage::new(message, headers),
            pending_reply,
        ))
        .await
        .map(drop)
    }

    async fn set_level(self: &Arc<Self>, level: LogLevel) -> Result<(), Error> {
        let connection = self.connection().await?;
        *lock(&self.level) = Some(level);
        match self.send_level(&connection, level).await {
            Ok(()) => Ok(()),
            Err(SendError::Gone(error)) => {
                connection.session.end(&error);
                // The next session gets the level when it is opened.
                self.connection().await.map(drop)
            }
            Err(SendError::Failed(error)) => Err(error),
        }
    }

    async fn roots_changed(self: &Arc<Self>) -> Result<(), Error> {
        let connection = self.connection().await?;
        let mut message = Vec::new();
        if !connection.session.codec.roots_changed(&mut message) {
            return Ok(());
        }
        let method = "notifications/roots/list_changed";
        match connection.session.notify(message, method).await {
            Ok(()) => Ok(()),
            Err(SendError::Gone(error)) => {
                // The next session starts with the current roots.
                connection.session.end(&error);
                Ok(())
            }
            Err(SendError::Failed(error)) => Err(error),
        }
    }

    /// Sends a request of a subscription over the current connection.
    async fn send_for_listen(
        &self,
        pending_reply: PendingReply,
        method: &str,
        message: Vec<u8>,
    ) -> Result<ByteString, Error> {
        let connection = self.current().ok_or_else(no_connection)?;
        let headers = connection.session.codec.headers(method, None, None);
        let began = Instant::now();
        let done = self
            .until_closed(send_request(
                &connection,
                OutgoingMessage::new(message, headers),
                pending_reply,
            ))
            .await;
        let error = match done {
            Ok(reply) => return Ok(reply),
            Err(SendError::Gone(error)) => {
                connection.session.end(&error);
                closed_by(&error)
            }
            Err(SendError::Failed(error)) => error,
        };
        if method == Method::Listen.name() {
            lock(&self.listen_backoff).record_end(began.elapsed());
        }
        Err(error)
    }

    async fn close(&self) {
        self.closing.stop();
        // Waits for a handshake in progress, to close its connection as well.
        let _opening = self.opening.lock().await;
        let connection = lock(&self.current_connection).take();
        if let Some(connection) = connection {
            connection.end(&closed_error()).await;
        }
        self.pending.fail_all(&closed_error());
    }
}

/// The tool name, prompt name or URI of a raw request, for the `Mcp-Name` header.
fn target(method: &str, params: Option<&str>) -> Option<String> {
    let field = Method::from_name(method)?.info().mirrored?;
    let params: Value = serde_json::from_str(params?).ok()?;
    params.get(field)?.as_str().map(str::to_owned)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Subscriptions over this transport.
struct HttpSubscriptions(Arc<HttpTransportState>);

impl SubscriptionTransport for HttpSubscriptions {
    fn pending(&self) -> &Arc<PendingRequests> {
        &self.0.pending
    }

    fn subscribing(&self) -> &tokio::sync::Mutex<()> {
        &self.0.subscribing
    }

    fn connected(&self) -> BoxFuture<Result<ClientCodec, Error>> {
        let state = self.0.clone();
        Box::pin(async move {
            let next_attempt = lock(&state.listen_backoff).next_attempt();
            match next_attempt {
                RetryTiming::Now => {}
                RetryTiming::At(time) => sleep_until(time).await,
                RetryTiming::Refused(wait, _) => sleep(wait).await,
            }
            Ok(state.connection().await?.session.codec.clone())
        })
    }

    fn request(
        &self,
        pending_reply: PendingReply,
        method: &'static str,
        message: Vec<u8>,
    ) -> BoxFuture<Result<ByteString, Error>> {
        let state = self.0.clone();
        Box::pin(async move { state.send_for_listen(pending_reply, method, message).await })
    }

    fn is_closed(&self) -> bool {
        self.0.closing.is_stopped()
    }
}

impl Service for HttpTransport {
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let state = self.0.clone();
        if request.method == Method::Listen {
            return Box::pin(listen(Arc::new(HttpSubscriptions(state)), request, outbox));
        }
        Box::pin(async move { state.call(&request, &outbox).await.unwrap_or_else(Outcome::from) })
    }
}

impl ClientTransport for HttpTransport {
    fn about(&self) -> Arc<ServerInfo> {
        self.0.pending.about()
    }

    fn request(
        &self,
        method: String,
        params: Option<Box<RawValue>>,
        outbox: Outbox,
    ) -> BoxFuture<Result<Box<RawValue>, Error>> {
        let state = self.0.clone();
        Box::pin(async move { state.request(&method, params.as_deref(), &outbox).await })
    }

    fn run(&self, control: ControlRequest) -> BoxFuture<Result<(), Error>> {
        let state = self.0.clone();
        Box::pin(async move { state.run(control).await })
    }

    fn add_listener(&self, listener: Weak<dyn NotificationListener>) {
        self.0.pending.add_listener(listener);
    }

    fn sends_param_headers(&self) -> bool {
        self.0.pending.codec().is_some_and(|codec| codec.has_param_headers())
    }

    fn close(&self) -> BoxFuture<()> {
        let state = self.0.clone();
        Box::pin(async move { state.close().await })
    }
}
