//! Subscriptions: `subscriptions/listen` on modern servers, emulated on legacy servers. They are
//! renewed after a reconnect.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytestring::ByteString;
use tokio::{
    runtime::Handle,
    sync::Mutex,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use wharf_model::{
    BoxFuture, Error, ErrorKind, FailureOrigin, Method, Outbox, Outcome, Reply, Request,
    ServerCapabilities, SubscriptionFilter, TimeoutKind,
};
use wharf_wire::{CallId, ClientCodec};

use crate::client::{
    opening_failed,
    pending::{PendingKind, PendingReply, PendingRequests},
    reconnect_backoff::delay,
};

/// Maximum number of failed attempts in a row.
const MAX_ATTEMPTS: u32 = 10;
/// A subscription that lasted this long resets the count of failures.
const SETTLED_AFTER: Duration = Duration::from_secs(10);
/// Timeout of `resources/unsubscribe`.
const UNSUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The parts of a transport that subscriptions need.
pub(crate) trait SubscriptionTransport: Send + Sync + 'static {
    fn pending(&self) -> &Arc<PendingRequests>;

    /// Serializes subscribe and unsubscribe requests, so that they reach the server in order.
    fn subscribing(&self) -> &Mutex<()>;

    /// Completes when there is a connection, opened if necessary: returns its codec.
    fn connected(&self) -> BoxFuture<Result<ClientCodec, Error>>;

    /// Sends a request over the current connection and waits for its result. `method` is its name.
    /// Dropping the future cancels it.
    fn request(
        &self,
        pending_reply: PendingReply,
        method: &'static str,
        message: Vec<u8>,
    ) -> BoxFuture<Result<ByteString, Error>>;

    /// Returns whether the transport was closed and will not reconnect.
    fn is_closed(&self) -> bool;

    /// Returns whether the transport can reconnect.
    fn can_reconnect(&self) -> bool {
        true
    }
}

/// Subscribes until the server ends the subscription, the transport is closed, or reconnecting
/// fails.
pub(crate) async fn listen(
    transport: Arc<dyn SubscriptionTransport>,
    request: Request,
    outbox: Outbox,
) -> Outcome {
    let acknowledged = Arc::new(AtomicBool::new(false));
    let mut failures = 0;
    loop {
        let begun = Instant::now();
        let ended = match transport.connected().await {
            Ok(codec) => listen_once(&transport, &codec, &request, &outbox, &acknowledged).await,
            Err(error) => Err(error),
        };
        if begun.elapsed() > SETTLED_AFTER {
            failures = 0;
        }
        match ended {
            Ok(()) => return Reply::Listened.into(),
            Err(_) if transport.is_closed() => return Reply::Listened.into(),
            Err(error) => {
                let began = acknowledged.load(Ordering::Relaxed);
                let may_pass = began && error.kind.is_retryable() && transport.can_reconnect();
                if !may_pass || failures >= MAX_ATTEMPTS {
                    return error.into();
                }
                failures += 1;
            }
        }
        sleep(delay(failures)).await;
    }
}

/// Runs the subscription over one connection.
async fn listen_once(
    transport: &Arc<dyn SubscriptionTransport>,
    codec: &ClientCodec,
    request: &Request,
    outbox: &Outbox,
    acknowledged: &Arc<AtomicBool>,
) -> Result<(), Error> {
    let pending = transport.pending();
    let id = pending.next_id();
    if !codec.has(Method::Listen) {
        return emulate(transport, codec, id, request, outbox, acknowledged).await;
    }
    let mut message = Vec::new();
    codec.call(request, &id, &mut message)?;
    let kind = PendingKind::Listen { acknowledged: acknowledged.clone() };
    let pending_reply = pending.register(id, Some(outbox), kind)?;
    transport.request(pending_reply, Method::Listen.name(), message).await?;
    Ok(())
}

/// Emulates a subscription on a server without `subscriptions/listen`.
async fn emulate(
    transport: &Arc<dyn SubscriptionTransport>,
    codec: &ClientCodec,
    id: CallId,
    request: &Request,
    outbox: &Outbox,
    acknowledged: &AtomicBool,
) -> Result<(), Error> {
    let pending = transport.pending();
    let wanted = match &request.filter {
        Some(filter) => filter.read(SubscriptionFilter::clone),
        None => SubscriptionFilter::default(),
    };
    let filter = agreed_filter(wanted, &pending.about().discovery.capabilities);
    let kind = PendingKind::EmulatedListen { filter: filter.clone(), silent: true, missed: false };
    // No request is sent under this id, so it ends only with the connection.
    let mut pending_reply = pending.register(id, Some(outbox), kind)?;
    let mut subscriptions = Vec::new();
    for uri in &filter.uris {
        subscriptions.push(ResourceSubscription::begin(transport, codec, uri).await?);
    }
    let before = acknowledged.swap(true, Ordering::Relaxed);
    pending.acknowledge(&pending_reply.id, &filter, outbox, before);
    pending_reply.wait().await.map(drop)
}

/// The part of the requested filter that the server's capabilities support.
fn agreed_filter(wanted: SubscriptionFilter, can: &ServerCapabilities) -> SubscriptionFilter {
    let lists =
        |it: &Option<wharf_model::ListCapability>| it.as_ref().is_some_and(|it| it.list_changed);
    let resources = can.resources.clone().unwrap_or_default();
    SubscriptionFilter::default()
        .tools(wanted.tools && lists(&can.tools))
        .prompts(wanted.prompts && lists(&can.prompts))
        .resources(wanted.resources && resources.list_changed)
        .uris(if resources.subscribe { wanted.uris } else { Default::default() })
        .tasks(if can.tasks.is_some() { wanted.tasks } else { Default::default() })
}

/// A subscription to a resource; dropping it unsubscribes if it was the last.
struct ResourceSubscription {
    transport: Arc<dyn SubscriptionTransport>,
    codec: ClientCodec,
    uri: String,
    /// The number of its connection; `None` if the server rejected it.
    connection: Option<u64>,
}

impl ResourceSubscription {
    async fn begin(
        transport: &Arc<dyn SubscriptionTransport>,
        codec: &ClientCodec,
        uri: &str,
    ) -> Result<Self, Error> {
        // Spawned: a subscription that is not polled must not block the others.
        let mut task = JoinSet::new();
        task.spawn(Self::subscribe_in_order(transport.clone(), codec.clone(), uri.to_owned()));
        let begun = task.join_next().await.and_then(Result::ok);
        begun.unwrap_or_else(|| Err(opening_failed()))
    }

    async fn subscribe_in_order(
        transport: Arc<dyn SubscriptionTransport>,
        codec: ClientCodec,
        uri: String,
    ) -> Result<Self, Error> {
        let turns = transport.clone();
        let _turn = turns.subscribing().lock().await;
        let (first, connection) = transport.pending().add_subscriber(&uri);
        // Created before the request, so that a dropped request is counted too.
        let mut subscription =
            ResourceSubscription { transport, codec, uri, connection: Some(connection) };
        if first && let Err(error) = subscription.subscribe().await {
            subscription.transport.pending().remove_subscriber(&subscription.uri, connection);
            subscription.connection = None;
            return Err(error);
        }
        Ok(subscription)
    }

    /// Subscribes within a timeout, because other subscriptions wait for it.
    async fn subscribe(&self) -> Result<(), Error> {
        let patience = self.transport.pending().options().handshake;
        let subscribing = subscribe(&self.transport, &self.codec, &self.uri, true);
        timeout(patience, subscribing).await.unwrap_or_else(|_| {
            let seconds = patience.as_secs();
            let problem =
                format!("The server did not respond to resources/subscribe in {seconds} s");
            let error = Error::new(ErrorKind::RequestTimeout).with_message(problem);
            Err(error.from_client(FailureOrigin::Timeout(TimeoutKind::Connect, patience)))
        })
    }
}

impl Drop for ResourceSubscription {
    fn drop(&mut self) {
        let Some(connection) = self.connection else { return };
        let (transport, codec) = (self.transport.clone(), self.codec.clone());
        let uri = std::mem::take(&mut self.uri);
        let unsubscribing = async move {
            let _turn = transport.subscribing().lock().await;
            if transport.pending().remove_subscriber(&uri, connection) {
                let _ =
                    timeout(UNSUBSCRIBE_TIMEOUT, subscribe(&transport, &codec, &uri, false)).await;
            }
        };
        // Without a runtime there is no connection.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(unsubscribing);
        }
    }
}

/// Sends `resources/subscribe` or `resources/unsubscribe`.
async fn subscribe(
    transport: &Arc<dyn SubscriptionTransport>,
    codec: &ClientCodec,
    uri: &str,
    on: bool,
) -> Result<(), Error> {
    let id = transport.pending().next_id();
    let mut message = Vec::new();
    if !codec.subscribe(uri, on, &id, &mut message) {
        return Ok(());
    }
    let pending_reply = transport.pending().register(id, None, PendingKind::ControlRequest)?;
    let method = if on { "resources/subscribe" } else { "resources/unsubscribe" };
    transport.request(pending_reply, method, message).await?;
    Ok(())
}
