//! The link itself: opens the conversation, and opens it again when the server has forgotten it.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, Weak,
    atomic::{AtomicU64, Ordering},
};

use bytestring::ByteString;
use serde_json::{Value, value::RawValue};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use wharf_client::{ClientTransport, ControlRequest, NotificationListener, ServerInfo};
use wharf_model::{
    BoxFuture, Error, ErrorKind, LogLevel, Method, Outbox, Outcome, Reply, Request, Service,
};
use wharf_wire::{CallId, ClientCodec};

use crate::client::http::{
    call::exchange,
    connection::HttpConnection,
    handshake::open,
    send::HttpSender,
    session::{OutgoingMessage, SendError, closed},
};
use crate::{
    Shutdown,
    client::{
        backoff::{ReconnectBackoff, RetryTiming},
        pending::{PendingRequests, PendingKind, PendingReply},
        subscription::{SubscriptionTransport, listen},
    },
};

/// A link over HTTP.
pub(super) struct HttpTransport(Arc<HttpTransportState>);

struct HttpTransportState {
    http: Arc<HttpSender>,
    desk: Arc<PendingRequests>,
    /// What the server is remembered by.
    key: String,
    now: Mutex<Option<Arc<HttpConnection>>>,
    /// Held while the conversation is opened. How the last opening failed.
    opening: tokio::sync::Mutex<Option<Error>>,
    /// How many openings there were.
    openings: AtomicU64,
    subscribing: tokio::sync::Mutex<()>,
    /// How listens have fared.
    listening: Mutex<ReconnectBackoff>,
    /// Which log messages are wanted: every session has to be told.
    level: Mutex<Option<LogLevel>>,
    closing: Shutdown,
}

impl HttpTransport {
    pub(super) async fn connect(key: &str, http: HttpSender) -> Result<HttpTransport, Error> {
        let desk = PendingRequests::new(http.options.clone());
        let core = Arc::new(HttpTransportState {
            http: Arc::new(http),
            desk,
            key: key.to_owned(),
            now: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            openings: AtomicU64::new(0),
            subscribing: tokio::sync::Mutex::default(),
            listening: Mutex::default(),
            level: Mutex::default(),
            closing: Shutdown::new(),
        });
        // Nobody else can be held up by it yet, and whoever drops it ends it.
        core.open().await?;
        Ok(HttpTransport(core))
    }
}

impl HttpTransportState {
    /// The conversation, opened if need be. Those who wait for one opening share its failure.
    async fn way(self: &Arc<Self>) -> Result<Arc<HttpConnection>, Error> {
        self.way_for(None).await
    }

    /// The same for a call, whose clock stands still while a person logs in for the opening.
    async fn way_for(self: &Arc<Self>, outbox: Option<&Outbox>) -> Result<Arc<HttpConnection>, Error> {
        if let Some(way) = self.current() {
            return Ok(way);
        }
        let core = self.clone();
        // In a task of its own: a call that nobody polls must not hold up the others.
        let mut opening = tokio::spawn(async move { core.open().await });
        let mut logins = self.http.logins();
        loop {
            let is_login = *logins.borrow_and_update();
            let _paused = outbox.filter(|_| is_login).map(Outbox::pause);
            tokio::select! {
                opened = &mut opening => {
                    return opened.unwrap_or_else(|_| Err(Error::new(ErrorKind::InternalError)));
                }
                _ = logins.changed() => {}
            }
        }
    }

    async fn open(&self) -> Result<Arc<HttpConnection>, Error> {
        let before = self.openings.load(Ordering::Acquire);
        let mut failure = self.opening.lock().await;
        if let Some(way) = self.current() {
            return Ok(way);
        }
        if self.closing.is_stopped() {
            return Err(is_closed());
        }
        let waited = self.openings.load(Ordering::Acquire) != before;
        if let Some(error) = failure.as_ref().filter(|_| waited) {
            return Err(error.clone());
        }
        let opening = async {
            let opened = open(&self.http, &self.key).await?;
            Ok(Arc::new(HttpConnection::begin(&self.http, &self.desk, opened).await))
        };
        let opened = tokio::select! {
            biased;
            () = self.closing.stopped() => Err(is_closed()),
            opened = opening => opened,
        };
        self.openings.fetch_add(1, Ordering::Release);
        *failure = opened.as_ref().err().cloned();
        let way = opened?;
        *lock(&self.now) = Some(way.clone());
        let level = *lock(&self.level);
        if let Some(level) = level {
            // What could not be told costs no more than log messages.
            let _ = timeout(self.http.options.handshake, self.tell_level(&way, level)).await;
        }
        Ok(way)
    }

    fn current(&self) -> Option<Arc<HttpConnection>> {
        lock(&self.now).clone().filter(|way| !way.voice.is_gone())
    }

    /// Sends a request and waits for its reply. If the server has forgotten the conversation, it is
    /// opened again, once, and so is the request sent.
    async fn ask(
        self: &Arc<Self>,
        outbox: Option<&Outbox>,
        place: PendingKind,
        write: impl Fn(&ClientCodec, &CallId) -> Result<OutgoingMessage, Error>,
    ) -> Result<(ClientCodec, ByteString), Error> {
        let mut again = false;
        loop {
            let way = self.way_for(outbox).await?;
            let talk = way.voice.talk.clone();
            let id = self.desk.next_id();
            let letter = OutgoingMessage { call: outbox.cloned(), ..write(&talk, &id)? };
            let ticket = self.desk.register(id, outbox, place.clone())?;
            match self.until_closed(exchange(&way, letter, ticket)).await {
                Ok(reply) => return Ok((talk, reply)),
                Err(SendError::Gone(error)) if !again => {
                    self.http.options.note(format_args!("opening anew: {error}"));
                    way.voice.leave(&error);
                    again = true;
                }
                Err(miss) => return Err(miss.into_error()),
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
            () = self.closing.stopped() => Err(is_closed().into()),
        }
    }

    async fn call(self: &Arc<Self>, request: &Request, outbox: &Outbox) -> Result<Outcome, Error> {
        let info = request.method.info();
        // Legacy servers say who they are once.
        if request.method == Method::Discover && !self.way().await?.voice.talk.is_modern() {
            let discovery = self.desk.about().discovery.clone();
            return Ok(Reply::Discover(Box::new(discovery)).into());
        }
        let place = PendingKind::Call { asks: info.may_suspend };
        let write = |talk: &ClientCodec, id: &CallId| {
            let mut message = Vec::new();
            talk.call(request, id, &mut message)?;
            let target = info.mirrored.map(|_| request.target());
            let heads = talk.headers(info.name, target.as_deref(), request.mirrored.as_ref());
            Ok(OutgoingMessage::new(message, heads))
        };
        let (talk, result) = self.ask(Some(outbox), place, write).await?;
        talk.result(request.method, &result)
    }

    async fn request(
        self: &Arc<Self>,
        method: &str,
        params: Option<&RawValue>,
        outbox: &Outbox,
    ) -> Result<Box<RawValue>, Error> {
        let params = params.map(RawValue::get);
        let target = target(method, params);
        let write = |talk: &ClientCodec, id: &CallId| {
            let mut message = Vec::new();
            talk.request(method, params, id, &mut message)?;
            Ok(OutgoingMessage::new(message, talk.headers(method, target.as_deref(), None)))
        };
        let known = Method::from_name(method);
        let place = PendingKind::Call { asks: known.is_none_or(|it| it.info().may_suspend) };
        let (_, result) = self.ask(Some(outbox), place, write).await?;
        RawValue::from_string(result.to_string()).map_err(|error| {
            let problem = format!("The result of {method} is no JSON: {error}");
            Error::new(ErrorKind::ValidationFailed).with_message(problem)
        })
    }

    async fn run(self: &Arc<Self>, errand: ControlRequest) -> Result<(), Error> {
        match errand {
            ControlRequest::Ping => self.ping().await,
            ControlRequest::LogLevel(level) => self.set_level(level).await,
            ControlRequest::RootsChanged => self.roots_changed().await,
            _ => Ok(()),
        }
    }

    async fn ping(self: &Arc<Self>) -> Result<(), Error> {
        let write = |talk: &ClientCodec, id: &CallId| {
            let mut message = Vec::new();
            talk.ping(id, &mut message);
            let method = if talk.is_modern() { Method::Discover.name() } else { "ping" };
            Ok(OutgoingMessage::new(message, talk.headers(method, None, None)))
        };
        self.ask(None, PendingKind::ControlRequest, write).await.map(drop)
    }

    /// Tells a server that keeps it which log messages are wanted.
    async fn tell_level(&self, way: &HttpConnection, level: LogLevel) -> Result<(), SendError> {
        let (id, mut message) = (self.desk.next_id(), Vec::new());
        if !way.voice.talk.set_log_level(level, &id, &mut message) {
            return Ok(());
        }
        let ticket = self.desk.register(id, None, PendingKind::ControlRequest)?;
        let heads = way.voice.talk.headers("logging/setLevel", None, None);
        self.until_closed(exchange(way, OutgoingMessage::new(message, heads), ticket)).await.map(drop)
    }

    async fn set_level(self: &Arc<Self>, level: LogLevel) -> Result<(), Error> {
        let way = self.way().await?;
        *lock(&self.level) = Some(level);
        match self.tell_level(&way, level).await {
            Ok(()) => Ok(()),
            Err(SendError::Gone(error)) => {
                way.voice.leave(&error);
                // The next session is told when it is opened.
                self.way().await.map(drop)
            }
            Err(SendError::Failed(error)) => Err(error),
        }
    }

    async fn roots_changed(self: &Arc<Self>) -> Result<(), Error> {
        let way = self.way().await?;
        let mut message = Vec::new();
        if !way.voice.talk.roots_changed(&mut message) {
            return Ok(());
        }
        let method = "notifications/roots/list_changed";
        match way.voice.tell(message, method).await {
            Ok(()) => Ok(()),
            Err(SendError::Gone(error)) => {
                // The next session begins with the roots as they are then.
                way.voice.leave(&error);
                Ok(())
            }
            Err(SendError::Failed(error)) => Err(error),
        }
    }

    /// Sends a request of a listen, over the conversation there is.
    async fn errand(
        &self,
        ticket: PendingReply,
        method: &str,
        message: Vec<u8>,
    ) -> Result<ByteString, Error> {
        let way = self.current().ok_or_else(|| Error::new(ErrorKind::ConnectionClosed))?;
        let heads = way.voice.talk.headers(method, None, None);
        let began = Instant::now();
        let done = self.until_closed(exchange(&way, OutgoingMessage::new(message, heads), ticket)).await;
        let error = match done {
            Ok(reply) => return Ok(reply),
            Err(SendError::Gone(error)) => {
                way.voice.leave(&error);
                closed(&error.message)
            }
            Err(SendError::Failed(error)) => error,
        };
        if method == Method::Listen.name() {
            lock(&self.listening).ended(began.elapsed());
        }
        Err(error)
    }

    async fn close(&self) {
        self.closing.stop();
        // Whatever an opening under way leads to is ended too.
        let _opening = self.opening.lock().await;
        let way = lock(&self.now).take();
        if let Some(way) = way {
            way.end(&is_closed()).await;
        }
        self.desk.lost(&is_closed());
    }
}

/// What a raw request names, where a header must repeat it.
fn target(method: &str, params: Option<&str>) -> Option<String> {
    let field = Method::from_name(method)?.info().mirrored?;
    let params: Value = serde_json::from_str(params?).ok()?;
    params.get(field)?.as_str().map(str::to_owned)
}

fn is_closed() -> Error {
    closed("Connection closed: this client was closed; connect anew")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What listens need of the link.
struct HttpSubscriptions(Arc<HttpTransportState>);

impl SubscriptionTransport for HttpSubscriptions {
    fn desk(&self) -> &Arc<PendingRequests> {
        &self.0.desk
    }

    fn subscribing(&self) -> &tokio::sync::Mutex<()> {
        &self.0.subscribing
    }

    fn connected(&self) -> BoxFuture<Result<ClientCodec, Error>> {
        let core = self.0.clone();
        Box::pin(async move {
            let turn = lock(&core.listening).turn();
            match turn {
                RetryTiming::Now => {}
                RetryTiming::At(time) => sleep_until(time).await,
                RetryTiming::Refused(wait, _) => sleep(wait).await,
            }
            Ok(core.way().await?.voice.talk.clone())
        })
    }

    fn request(
        &self,
        ticket: PendingReply,
        method: &'static str,
        message: Vec<u8>,
    ) -> BoxFuture<Result<ByteString, Error>> {
        let core = self.0.clone();
        Box::pin(async move { core.errand(ticket, method, message).await })
    }

    fn is_closed(&self) -> bool {
        self.0.closing.is_stopped()
    }
}

impl Service for HttpTransport {
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let core = self.0.clone();
        if request.method == Method::Listen {
            return Box::pin(listen(Arc::new(HttpSubscriptions(core)), request, outbox));
        }
        Box::pin(async move { core.call(&request, &outbox).await.unwrap_or_else(Outcome::from) })
    }
}

impl ClientTransport for HttpTransport {
    fn about(&self) -> Arc<ServerInfo> {
        self.0.desk.about()
    }

    fn request(
        &self,
        method: String,
        params: Option<Box<RawValue>>,
        outbox: Outbox,
    ) -> BoxFuture<Result<Box<RawValue>, Error>> {
        let core = self.0.clone();
        Box::pin(async move { core.request(&method, params.as_deref(), &outbox).await })
    }

    fn run(&self, errand: ControlRequest) -> BoxFuture<Result<(), Error>> {
        let core = self.0.clone();
        Box::pin(async move { core.run(errand).await })
    }

    fn add_listener(&self, ear: Weak<dyn NotificationListener>) {
        self.0.desk.add_listener(ear);
    }

    fn mirrors(&self) -> bool {
        self.0.desk.talk().is_some_and(|talk| talk.is_modern())
    }

    fn close(&self) -> BoxFuture<()> {
        let core = self.0.clone();
        Box::pin(async move { core.close().await })
    }
}
