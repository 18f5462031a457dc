//! Client transport over stream connections: its state, subscriptions and closing.

use std::sync::{Arc, Weak};

use bytestring::ByteString;
use serde_json::value::RawValue;
use wharf_client::{ClientTransport, ControlRequest, NotificationListener, ServerInfo};
use wharf_connect::SingleFlight;
use wharf_model::{
    BoxFuture, Error, Lock, LogLevel, Method, Observers, Outbox, Outcome, Request, Service,
};
use wharf_wire::ClientCodec;

use crate::Shutdown;
use crate::client::no_connection;
use crate::client::{
    ClientTransportOptions,
    pending::{PendingReply, PendingRequests},
    reconnect_backoff::ReconnectBackoff,
    stream::{connection::StreamConnection, connector::Connector},
    subscription::{SubscriptionTransport, listen},
};

/// Connects through `connector` and runs the handshake.
pub(in crate::client) async fn connect<D: Connector>(
    connector: D,
    options: ClientTransportOptions,
) -> Result<Arc<dyn ClientTransport>, Error> {
    let state = Arc::new(StreamTransportState {
        connector,
        pending: PendingRequests::new(options),
        current: Lock::default(),
        opening: SingleFlight::default(),
        backoff: Lock::default(),
        closed: Shutdown::new(),
        subscribing: tokio::sync::Mutex::default(),
        level: Lock::default(),
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

/// State of the transport, shared with its calls.
pub(super) struct StreamTransportState<D: Connector> {
    pub(super) connector: D,
    pub(super) pending: Arc<PendingRequests>,
    pub(super) current: Lock<Option<StreamConnection>>,
    /// Concurrent callers share one attempt to connect and its error.
    pub(super) opening: SingleFlight<Error>,
    pub(super) backoff: Lock<ReconnectBackoff>,
    pub(super) closed: Shutdown,
    pub(super) subscribing: tokio::sync::Mutex<()>,
    /// Requested log level: set again on every new connection.
    pub(super) level: Lock<Option<LogLevel>>,
}

impl<D: Connector> StreamTransportState<D> {
    /// Starts closing, without waiting.
    fn begin_close(&self) {
        self.closed.stop();
        if let Some(connection) = &*self.current.lock() {
            connection.close();
        }
    }

    async fn close(&self) {
        self.begin_close();
        let last = self.current.lock().take();
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

    fn observe_upstream(&self, observers: &Observers) {
        let state = &self.0.0;
        state.pending.upstream.observe(&state.connector.name(), observers);
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
