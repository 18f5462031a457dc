//! Client transport over stream connections: JSON lines, or WebSocket.

pub(crate) mod child;
pub(crate) mod connection;
pub(crate) mod connector;
pub(crate) mod stream_connector;
#[cfg(feature = "websocket")]
pub(crate) mod websocket;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytestring::ByteString;
use serde_json::value::RawValue;
use tokio::time::sleep_until;
use wharf_client::{ClientTransport, ControlRequest, NotificationListener, ServerInfo};
use wharf_model::{
    BoxFuture, Error, ErrorKind, FailureOrigin, LogLevel, Method, Outbox, Outcome, Reply, Request,
    Service,
};
use wharf_wire::ClientCodec;

use crate::Shutdown;
use crate::client::{
    ClientTransportOptions,
    backoff::{ReconnectBackoff, RetryTiming},
    closed_error,
    handshake::{HandshakeResult, open},
    no_connection, opening_failed,
    pending::{PendingKind, PendingReply, PendingRequests},
    stream::{connection::StreamConnection, connector::Connector},
    subscription::{SubscriptionTransport, listen},
};

/// Connects through `connector` and runs the handshake.
pub(super) async fn connect<D: Connector>(
    connector: D,
    options: ClientTransportOptions,
) -> Result<Arc<dyn ClientTransport>, Error> {
    let state = Arc::new(StreamTransportState {
        connector,
        pending: PendingRequests::new(options),
        current: Mutex::default(),
        opening: tokio::sync::Mutex::default(),
        openings: AtomicU64::new(0),
        backoff: Mutex::default(),
        closed: Shutdown::new(),
        subscribing: tokio::sync::Mutex::default(),
        level: Mutex::default(),
    });
    let transport = StreamTransport(Arc::new(TransportHandle(state)));
    transport.0.0.connection().await?;
    Ok(Arc::new(transport))
}

/// Client transport over stream connections.
struct StreamTransport<D: Connector>(Arc<TransportHandle<D>>);

/// Closes the transport with its last user, which may be a call in flight. Background tasks hold no
/// handle.
struct TransportHandle<D: Connector>(Arc<StreamTransportState<D>>);

impl<D: Connector> Drop for TransportHandle<D> {
    fn drop(&mut self) {
        self.0.begin_close();
    }
}

struct StreamTransportState<D: Connector> {
    connector: D,
    pending: Arc<PendingRequests>,
    current: Mutex<Option<StreamConnection>>,
    /// Locked while a connection is opened. Holds the error of the last attempt.
    opening: tokio::sync::Mutex<Option<Error>>,
    /// Number of attempts so far.
    openings: AtomicU64,
    backoff: Mutex<ReconnectBackoff>,
    closed: Shutdown,
    subscribing: tokio::sync::Mutex<()>,
    /// Requested log level: set again on every new connection.
    level: Mutex<Option<LogLevel>>,
}

impl<D: Connector> StreamTransportState<D> {
    /// The current connection, or a new one. Opening it continues if this future is dropped, and
    /// concurrent callers share its error.
    async fn connection(self: &Arc<Self>) -> Result<StreamConnection, Error> {
        if let Some(connection) = self.live() {
            return Ok(connection);
        }
        let state = self.clone();
        // Spawned: a call that is not polled must not block the others.
        let opening = tokio::spawn(async move { state.open().await });
        opening.await.unwrap_or_else(|_| Err(opening_failed()))
    }

    async fn open(self: &Arc<Self>) -> Result<StreamConnection, Error> {
        let before = self.openings.load(Ordering::Acquire);
        let mut failure = self.opening.lock().await;
        if let Some(connection) = self.live() {
            return Ok(connection);
        }
        let waited = self.openings.load(Ordering::Acquire) != before;
        if let Some(error) = failure.as_ref().filter(|_| waited) {
            return Err(error.clone());
        }
        let opened = self.reopen().await;
        self.openings.fetch_add(1, Ordering::Release);
        *failure = opened.as_ref().err().cloned();
        opened
    }

    fn live(&self) -> Option<StreamConnection> {
        lock(&self.current).clone().filter(|connection| !connection.is_dead())
    }

    /// Opens a connection, after everything on the last one has failed.
    async fn reopen(self: &Arc<Self>) -> Result<StreamConnection, Error> {
        let last = lock(&self.current).take();
        if let Some(last) = last {
            last.pending_failed().await;
        }
        tokio::select! {
            biased;
            () = self.closed.stopped() => Err(closed_error()),
            opened = self.open_when_due() => self.begin(opened?),
        }
    }

    /// Opens a connection when the backoff permits it.
    async fn open_when_due(&self) -> Result<HandshakeResult<D>, Error> {
        let next_attempt = lock(&self.backoff).next_attempt();
        match next_attempt {
            RetryTiming::Now => {}
            RetryTiming::At(time) => sleep_until(time).await,
            RetryTiming::Refused(wait, failures) => {
                let error = Error::new(ErrorKind::TransportError).with_message(format!(
                    "{} failed {failures} times in a row, and is tried again in {:.1} s",
                    self.connector.name(),
                    wait.as_secs_f64()
                ));
                return Err(error.from_client(FailureOrigin::NotSent));
            }
        }
        let opened = open(&self.connector, &self.pending).await;
        if opened.is_err() {
            lock(&self.backoff).record_end(Duration::ZERO);
        }
        opened
    }

    fn begin(self: &Arc<Self>, opened: HandshakeResult<D>) -> Result<StreamConnection, Error> {
        let HandshakeResult { parts, codec, about } = opened;
        self.pending.opened(codec.clone(), about);
        let (pending, state) = (self.pending.clone(), Arc::downgrade(self));
        let on_end = move |lived| {
            if let Some(state) = state.upgrade() {
                lock(&state.backoff).record_end(lived);
            }
        };
        let connection =
            StreamConnection::start(pending, self.connector.name(), parts, codec, on_end);
        self.repeat_level(&connection);
        *lock(&self.current) = Some(connection.clone());
        // A concurrent `close` found no connection to close.
        if self.closed.is_stopped() {
            connection.close();
        }
        Ok(connection)
    }

    /// Sets the log level on a new connection.
    fn repeat_level(&self, connection: &StreamConnection) {
        let Some(level) = *lock(&self.level) else { return };
        let mut message = Vec::new();
        if connection.codec().set_log_level(level, &self.pending.next_id(), &mut message) {
            connection.send_soon(message);
        }
    }

    /// Sends a request and waits for its result. Dropping the future cancels the request on the
    /// server.
    async fn send_request(
        connection: StreamConnection,
        pending_reply: PendingReply,
        message: Vec<u8>,
    ) -> Result<ByteString, Error> {
        connection.send(message).await?;
        SentRequest { connection, pending_reply }.pending_reply.wait().await
    }

    async fn call(self: &Arc<Self>, request: Request, outbox: Outbox) -> Result<Outcome, Error> {
        let connection = self.connection().await?;
        let codec = connection.codec().clone();
        let method = request.method;
        // Without `server/discover`, servers describe themselves only in the handshake.
        if method == Method::Discover && !codec.has(method) {
            let discovery = self.pending.about().discovery.clone();
            return Ok(Reply::Discover(Box::new(discovery)).into());
        }
        let id = self.pending.next_id();
        let mut message = Vec::new();
        codec.call(&request, &id, &mut message)?;
        // Frees the request early: the call may take long.
        drop(request);
        let kind = PendingKind::Call { asks: method.info().may_suspend };
        let pending_reply = self.pending.register(id, Some(&outbox), kind)?;
        let result = Self::send_request(connection, pending_reply, message).await?;
        codec.result(method, &result)
    }

    async fn request(
        self: &Arc<Self>,
        method: &str,
        params: Option<&str>,
        outbox: &Outbox,
    ) -> Result<Box<RawValue>, Error> {
        let connection = self.connection().await?;
        let id = self.pending.next_id();
        let mut message = Vec::new();
        connection.codec().request(method, params, &id, &mut message)?;
        let known = Method::from_name(method);
        let kind = PendingKind::Call { asks: known.is_none_or(|method| method.info().may_suspend) };
        let pending_reply = self.pending.register(id, Some(outbox), kind)?;
        let result = Self::send_request(connection, pending_reply, message).await?;
        RawValue::from_string(result.to_string()).map_err(Error::from)
    }

    async fn run(self: &Arc<Self>, control: ControlRequest) -> Result<(), Error> {
        let connection = self.connection().await?;
        let (codec, id) = (connection.codec().clone(), self.pending.next_id());
        let mut message = Vec::new();
        let replies = match control {
            ControlRequest::Ping => {
                codec.ping(&id, &mut message);
                true
            }
            ControlRequest::LogLevel(level) => {
                *lock(&self.level) = Some(level);
                codec.set_log_level(level, &id, &mut message)
            }
            ControlRequest::RootsChanged => {
                if codec.roots_changed(&mut message) {
                    connection.send(message).await?;
                }
                return Ok(());
            }
            _ => false,
        };
        if replies {
            let pending_reply = self.pending.register(id, None, PendingKind::ControlRequest)?;
            Self::send_request(connection, pending_reply, message).await?;
        }
        Ok(())
    }

    /// Starts closing, without waiting.
    fn begin_close(&self) {
        self.closed.stop();
        if let Some(connection) = &*lock(&self.current) {
            connection.close();
        }
    }

    async fn close(&self) {
        self.begin_close();
        let last = lock(&self.current).take();
        if let Some(last) = last {
            last.ended().await;
        }
    }
}

impl<D: Connector> Service for StreamTransport<D> {
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let handle = self.0.clone();
        Box::pin(async move {
            if request.method == Method::Listen {
                return listen(handle, request, outbox).await;
            }
            handle.0.call(request, outbox).await.unwrap_or_else(Outcome::from)
        })
    }
}

impl<D: Connector> ClientTransport for StreamTransport<D> {
    fn about(&self) -> Arc<ServerInfo> {
        self.0.0.pending.about()
    }

    fn request(
        &self,
        method: String,
        params: Option<Box<RawValue>>,
        outbox: Outbox,
    ) -> BoxFuture<Result<Box<RawValue>, Error>> {
        let handle = self.0.clone();
        Box::pin(async move {
            let params = params.as_deref().map(RawValue::get);
            handle.0.request(&method, params, &outbox).await
        })
    }

    fn run(&self, control: ControlRequest) -> BoxFuture<Result<(), Error>> {
        let handle = self.0.clone();
        Box::pin(async move { handle.0.run(control).await })
    }

    fn add_listener(&self, listener: Weak<dyn NotificationListener>) {
        self.0.0.pending.add_listener(listener);
    }

    fn close(&self) -> BoxFuture<()> {
        let state = self.0.0.clone();
        Box::pin(async move { state.close().await })
    }
}

impl<D: Connector> SubscriptionTransport for TransportHandle<D> {
    fn pending(&self) -> &Arc<PendingRequests> {
        &self.0.pending
    }

    fn subscribing(&self) -> &tokio::sync::Mutex<()> {
        &self.0.subscribing
    }

    fn connected(&self) -> BoxFuture<Result<ClientCodec, Error>> {
        let state = self.0.clone();
        Box::pin(async move { Ok(state.connection().await?.codec().clone()) })
    }

    fn request(
        &self,
        pending_reply: PendingReply,
        _: &'static str,
        message: Vec<u8>,
    ) -> BoxFuture<Result<ByteString, Error>> {
        let connection = self.0.live();
        Box::pin(async move {
            let connection = connection.ok_or_else(no_connection)?;
            StreamTransportState::<D>::send_request(connection, pending_reply, message).await
        })
    }

    fn is_closed(&self) -> bool {
        self.0.closed.is_stopped()
    }

    fn can_reconnect(&self) -> bool {
        self.0.connector.can_reconnect()
    }
}

/// A sent request. Dropping it before the reply sends `notifications/cancelled`.
struct SentRequest {
    connection: StreamConnection,
    pending_reply: PendingReply,
}

impl Drop for SentRequest {
    fn drop(&mut self) {
        if self.connection.is_dead() || !self.pending_reply.is_open() {
            return;
        }
        let (codec, mut message) = (self.connection.codec(), Vec::new());
        codec.cancelled(&self.pending_reply.id, "the caller dropped the request", &mut message);
        self.connection.send_soon(message);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
