//! HTTP client transport: its state, subscriptions and closing.

use std::sync::{Arc, Weak};

use bytestring::ByteString;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep, sleep_until};
use wharf_client::{ClientTransport, ControlRequest, NotificationListener, ServerInfo};
use wharf_connect::SingleFlight;
use wharf_model::{
    BoxFuture, Error, Lock, LogLevel, Method, Observers, Outbox, Outcome, Request, Service,
};
use wharf_wire::ClientCodec;

use crate::client::http::{
    call::send_request,
    connection::HttpConnection,
    send::HttpSender,
    session::{OutgoingMessage, SendError, closed_by},
};
use crate::{
    Shutdown,
    client::{
        closed_error, no_connection,
        pending::{PendingReply, PendingRequests},
        reconnect_backoff::{ReconnectBackoff, RetryTiming},
        subscription::{SubscriptionTransport, listen},
    },
};

/// Client transport over HTTP.
pub(super) struct HttpTransport(Arc<HttpTransportState>);

/// State of the transport, shared with its calls.
pub(super) struct HttpTransportState {
    pub(super) http: Arc<HttpSender>,
    pub(super) pending: Arc<PendingRequests>,
    /// Key of the server in the revision cache.
    pub(super) key: String,
    pub(super) current_connection: Lock<Option<Arc<HttpConnection>>>,
    /// Concurrent callers share one handshake and its error.
    pub(super) opening: SingleFlight<Error>,
    pub(super) subscribing: tokio::sync::Mutex<()>,
    /// Reconnect backoff of subscriptions.
    pub(super) listen_backoff: Lock<ReconnectBackoff>,
    /// Requested log level: set again in every new session.
    pub(super) level: Lock<Option<LogLevel>>,
    pub(super) closing: Shutdown,
}

impl HttpTransport {
    pub(super) async fn connect(key: &str, http: HttpSender) -> Result<HttpTransport, Error> {
        let pending = PendingRequests::new(http.options.clone());
        let state = Arc::new(HttpTransportState {
            http: Arc::new(http),
            pending,
            key: key.to_owned(),
            current_connection: Lock::default(),
            opening: SingleFlight::default(),
            subscribing: tokio::sync::Mutex::default(),
            listen_backoff: Lock::default(),
            level: Lock::default(),
            closing: Shutdown::new(),
        });
        // Not spawned: no other call waits for it yet, and dropping the future aborts it.
        state.open().await?;
        Ok(HttpTransport(state))
    }
}

impl HttpTransportState {
    pub(super) async fn until_closed<T>(
        &self,
        work: impl Future<Output = Result<T, SendError>>,
    ) -> Result<T, SendError> {
        tokio::select! {
            biased;
            done = work => done,
            () = self.closing.stopped() => Err(closed_error().into()),
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
            self.listen_backoff.lock().record_end(began.elapsed());
        }
        Err(error)
    }

    async fn close(&self) {
        self.closing.stop();
        // Waits for a handshake in progress, to close its connection as well.
        self.opening.idle().await;
        let connection = self.current_connection.lock().take();
        if let Some(connection) = connection {
            connection.end(&closed_error()).await;
        }
        self.pending.upstream.close();
        self.pending.fail_all(&closed_error());
    }
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
            let next_attempt = state.listen_backoff.lock().next_attempt();
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
        Box::pin(async move {
            let outcome = state.call(&request, &outbox).await.unwrap_or_else(Outcome::from);
            state.pending.upstream.call_ended(&outcome);
            outcome
        })
    }

    fn observe_upstream(&self, observers: &Observers) {
        self.0.pending.upstream.observe(&self.0.http.url.to_string(), observers);
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
