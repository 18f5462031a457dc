//! A link over connections that carry a stream of messages: lines, or WebSocket.

pub(crate) mod child;
pub(crate) mod connection;
pub(crate) mod connector;
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
    BoxFuture, Error, ErrorKind, LogLevel, Method, Outbox, Outcome, Reply, Request, Service,
};
use wharf_wire::ClientCodec;

use crate::Shutdown;
use crate::client::{
    ClientTransportOptions,
    backoff::{ReconnectBackoff, RetryTiming},
    handshake::{HandshakeResult, open},
    pending::{PendingRequests, PendingKind, PendingReply},
    stream::{connection::StreamConnection, connector::Connector},
    subscription::{SubscriptionTransport, listen},
};

/// Connects through `dial`, and finds out how to speak with the server.
pub(super) async fn connect<D: Connector>(
    dial: D,
    options: ClientTransportOptions,
) -> Result<Arc<dyn ClientTransport>, Error> {
    let line = Arc::new(StreamTransportState {
        dial,
        desk: PendingRequests::new(options),
        current: Mutex::default(),
        gate: tokio::sync::Mutex::default(),
        openings: AtomicU64::new(0),
        health: Mutex::default(),
        closed: Shutdown::new(),
        subscribing: tokio::sync::Mutex::default(),
        level: Mutex::default(),
    });
    let link = StreamTransport(Arc::new(TransportHandle(line)));
    link.0.0.connection().await?;
    Ok(Arc::new(link))
}

/// A link over connections that carry a stream of messages.
struct StreamTransport<D: Connector>(Arc<TransportHandle<D>>);

/// Closes the link with its last user, be it a call under way. The link's tasks hold none.
struct TransportHandle<D: Connector>(Arc<StreamTransportState<D>>);

impl<D: Connector> Drop for TransportHandle<D> {
    fn drop(&mut self) {
        self.0.shut();
    }
}

struct StreamTransportState<D: Connector> {
    dial: D,
    desk: Arc<PendingRequests>,
    current: Mutex<Option<StreamConnection>>,
    /// Held by whoever opens a connection. How the last opening failed.
    gate: tokio::sync::Mutex<Option<Error>>,
    /// How many openings there were.
    openings: AtomicU64,
    health: Mutex<ReconnectBackoff>,
    closed: Shutdown,
    subscribing: tokio::sync::Mutex<()>,
    /// Which log messages are wanted: every connection has to be told.
    level: Mutex<Option<LogLevel>>,
}

impl<D: Connector> StreamTransportState<D> {
    /// The connection there is, or another. Opening one goes on if this future is dropped, and
    /// those who wait for it share its failure.
    async fn connection(self: &Arc<Self>) -> Result<StreamConnection, Error> {
        if let Some(connection) = self.live() {
            return Ok(connection);
        }
        let line = self.clone();
        // In a task of its own: a call that nobody polls must not hold up the others.
        let opening = tokio::spawn(async move { line.open().await });
        opening.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::InternalError)))
    }

    async fn open(self: &Arc<Self>) -> Result<StreamConnection, Error> {
        let before = self.openings.load(Ordering::Acquire);
        let mut failure = self.gate.lock().await;
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

    /// Opens a connection. Whatever went on over the last one has failed before.
    async fn reopen(self: &Arc<Self>) -> Result<StreamConnection, Error> {
        let last = lock(&self.current).take();
        if let Some(last) = last {
            last.buried().await;
        }
        tokio::select! {
            biased;
            () = self.closed.stopped() => Err(shut()),
            opened = self.take_turn() => self.begin(opened?),
        }
    }

    /// Opens a connection when it is time to.
    async fn take_turn(&self) -> Result<HandshakeResult<D>, Error> {
        let turn = lock(&self.health).turn();
        match turn {
            RetryTiming::Now => {}
            RetryTiming::At(time) => sleep_until(time).await,
            RetryTiming::Refused(wait, failures) => {
                return Err(Error::new(ErrorKind::TransportError).with_message(format!(
                    "{} failed {failures} times in a row, and is tried again in {:.1} s",
                    self.dial.name(),
                    wait.as_secs_f64()
                )));
            }
        }
        let opened = open(&self.dial, &self.desk).await;
        if opened.is_err() {
            lock(&self.health).ended(Duration::ZERO);
        }
        opened
    }

    fn begin(self: &Arc<Self>, opened: HandshakeResult<D>) -> Result<StreamConnection, Error> {
        let HandshakeResult { ends, talk, about } = opened;
        self.desk.opened(talk.clone(), about);
        let (desk, line) = (self.desk.clone(), Arc::downgrade(self));
        let bury = move |lived| {
            if let Some(line) = line.upgrade() {
                lock(&line.health).ended(lived);
            }
        };
        let connection = StreamConnection::start(desk, self.dial.name(), ends, talk, bury);
        self.repeat_level(&connection);
        *lock(&self.current) = Some(connection.clone());
        // Whoever closed the link meanwhile found no connection to close.
        if self.closed.is_stopped() {
            connection.close();
        }
        Ok(connection)
    }

    /// Tells a fresh connection which log messages are wanted.
    fn repeat_level(&self, connection: &StreamConnection) {
        let Some(level) = *lock(&self.level) else { return };
        let mut message = Vec::new();
        if connection.talk().set_log_level(level, &self.desk.next_id(), &mut message) {
            connection.send_soon(message);
        }
    }

    /// Sends a request and waits for its result. Dropping the future cancels it there.
    async fn exchange(
        connection: StreamConnection,
        ticket: PendingReply,
        message: Vec<u8>,
    ) -> Result<ByteString, Error> {
        connection.send(message).await?;
        SentRequest { connection, ticket }.ticket.wait().await
    }

    async fn call(self: &Arc<Self>, request: Request, outbox: Outbox) -> Result<Outcome, Error> {
        let connection = self.connection().await?;
        let talk = connection.talk().clone();
        let method = request.method;
        // Legacy servers say who they are once.
        if method == Method::Discover && !talk.is_modern() {
            let discovery = self.desk.about().discovery.clone();
            return Ok(Reply::Discover(Box::new(discovery)).into());
        }
        let id = self.desk.next_id();
        let mut message = Vec::new();
        talk.call(&request, &id, &mut message)?;
        // The call may take long, and its message is sent already.
        drop(request);
        let place = PendingKind::Call { asks: method.info().may_suspend };
        let ticket = self.desk.register(id, Some(&outbox), place)?;
        let result = Self::exchange(connection, ticket, message).await?;
        talk.result(method, &result)
    }

    async fn request(
        self: &Arc<Self>,
        method: &str,
        params: Option<&str>,
        outbox: &Outbox,
    ) -> Result<Box<RawValue>, Error> {
        let connection = self.connection().await?;
        let id = self.desk.next_id();
        let mut message = Vec::new();
        connection.talk().request(method, params, &id, &mut message)?;
        let known = Method::from_name(method);
        let place = PendingKind::Call { asks: known.is_none_or(|method| method.info().may_suspend) };
        let ticket = self.desk.register(id, Some(outbox), place)?;
        let result = Self::exchange(connection, ticket, message).await?;
        RawValue::from_string(result.to_string()).map_err(Error::from)
    }

    async fn run(self: &Arc<Self>, errand: ControlRequest) -> Result<(), Error> {
        let connection = self.connection().await?;
        let (talk, id) = (connection.talk().clone(), self.desk.next_id());
        let mut message = Vec::new();
        let replies = match errand {
            ControlRequest::Ping => {
                talk.ping(&id, &mut message);
                true
            }
            ControlRequest::LogLevel(level) => {
                *lock(&self.level) = Some(level);
                talk.set_log_level(level, &id, &mut message)
            }
            ControlRequest::RootsChanged => {
                if talk.roots_changed(&mut message) {
                    connection.send(message).await?;
                }
                return Ok(());
            }
            _ => false,
        };
        if replies {
            let ticket = self.desk.register(id, None, PendingKind::ControlRequest)?;
            Self::exchange(connection, ticket, message).await?;
        }
        Ok(())
    }

    /// Ends the conversation, without waiting.
    fn shut(&self) {
        self.closed.stop();
        if let Some(connection) = &*lock(&self.current) {
            connection.close();
        }
    }

    async fn close(&self) {
        self.shut();
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
        self.0.0.desk.about()
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

    fn run(&self, errand: ControlRequest) -> BoxFuture<Result<(), Error>> {
        let handle = self.0.clone();
        Box::pin(async move { handle.0.run(errand).await })
    }

    fn add_listener(&self, ear: Weak<dyn NotificationListener>) {
        self.0.0.desk.add_listener(ear);
    }

    fn close(&self) -> BoxFuture<()> {
        let line = self.0.0.clone();
        Box::pin(async move { line.close().await })
    }
}

impl<D: Connector> SubscriptionTransport for TransportHandle<D> {
    fn desk(&self) -> &Arc<PendingRequests> {
        &self.0.desk
    }

    fn subscribing(&self) -> &tokio::sync::Mutex<()> {
        &self.0.subscribing
    }

    fn connected(&self) -> BoxFuture<Result<ClientCodec, Error>> {
        let line = self.0.clone();
        Box::pin(async move { Ok(line.connection().await?.talk().clone()) })
    }

    fn request(
        &self,
        ticket: PendingReply,
        _: &'static str,
        message: Vec<u8>,
    ) -> BoxFuture<Result<ByteString, Error>> {
        let connection = self.0.live();
        Box::pin(async move {
            let connection = connection.ok_or_else(|| Error::new(ErrorKind::ConnectionClosed))?;
            StreamTransportState::<D>::exchange(connection, ticket, message).await
        })
    }

    fn is_closed(&self) -> bool {
        self.0.closed.is_stopped()
    }

    fn may_return(&self) -> bool {
        self.0.dial.redials()
    }
}

/// A request that was sent. Dropping it before the reply tells the server that nobody waits.
struct SentRequest {
    connection: StreamConnection,
    ticket: PendingReply,
}

impl Drop for SentRequest {
    fn drop(&mut self) {
        if self.connection.is_dead() || !self.ticket.is_open() {
            return;
        }
        let (talk, mut message) = (self.connection.talk(), Vec::new());
        talk.cancelled(&self.ticket.id, "the caller no longer waits", &mut message);
        self.connection.send_soon(message);
    }
}

fn shut() -> Error {
    Error::new(ErrorKind::ConnectionClosed)
        .with_message("Connection closed: this client was closed; connect anew")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
