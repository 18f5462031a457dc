//! Listens: as the server knows them, or played by the link for servers that know none; either way
//! they go on over another connection when one breaks.

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
    BoxFuture, Error, ErrorKind, Method, Outbox, Outcome, Reply, Request, ServerCapabilities,
    SubscriptionFilter,
};
use wharf_wire::{CallId, ClientCodec};

use crate::client::{
    backoff::delay,
    pending::{PendingRequests, PendingKind, PendingReply},
};

/// How often in a row a listen tries to go on before it gives up.
const ATTEMPTS: u32 = 10;
/// How long a listen must last for the trouble before it to be forgotten.
const SETTLED: Duration = Duration::from_secs(10);
/// How long a server may take to take note that a resource is no longer followed.
const FAREWELL: Duration = Duration::from_secs(5);

/// What listens need of the link they go over.
pub(crate) trait SubscriptionTransport: Send + Sync + 'static {
    fn desk(&self) -> &Arc<PendingRequests>;

    /// Serializes subscribing and unsubscribing, so that they reach the server in order.
    fn subscribing(&self) -> &Mutex<()>;

    /// Completes when there is a connection, opened if need be: how to speak over it.
    fn connected(&self) -> BoxFuture<Result<ClientCodec, Error>>;

    /// Sends a request, over the connection there is, and waits for its result. `method` is its
    /// name. Dropping the future gives it up.
    fn request(
        &self,
        ticket: PendingReply,
        method: &'static str,
        message: Vec<u8>,
    ) -> BoxFuture<Result<ByteString, Error>>;

    /// Whether the link was closed, and no connection will follow.
    fn is_closed(&self) -> bool;

    /// Whether another connection can follow one that broke.
    fn may_return(&self) -> bool {
        true
    }
}

/// Listens until the server ends it, the link is closed, or no connection can be had.
pub(crate) async fn listen(ground: Arc<dyn SubscriptionTransport>, request: Request, outbox: Outbox) -> Outcome {
    let acknowledged = Arc::new(AtomicBool::new(false));
    let mut failures = 0;
    loop {
        let begun = Instant::now();
        let ended = match ground.connected().await {
            Ok(talk) => once(&ground, &talk, &request, &outbox, &acknowledged).await,
            Err(error) => Err(error),
        };
        if begun.elapsed() > SETTLED {
            failures = 0;
        }
        match ended {
            Ok(()) => return Reply::Listened.into(),
            Err(_) if ground.is_closed() => return Reply::Listened.into(),
            Err(error) => {
                let began = acknowledged.load(Ordering::Relaxed);
                let may_pass = began && error.kind.is_retryable() && ground.may_return();
                if !may_pass || failures >= ATTEMPTS {
                    return error.into();
                }
                failures += 1;
            }
        }
        sleep(delay(failures)).await;
    }
}

/// Listens over one connection.
async fn once(
    ground: &Arc<dyn SubscriptionTransport>,
    talk: &ClientCodec,
    request: &Request,
    outbox: &Outbox,
    acknowledged: &Arc<AtomicBool>,
) -> Result<(), Error> {
    let desk = ground.desk();
    let id = desk.next_id();
    if !talk.is_modern() {
        return play(ground, talk, id, request, outbox, acknowledged).await;
    }
    let mut message = Vec::new();
    talk.call(request, &id, &mut message)?;
    let place = PendingKind::Listen { acknowledged: acknowledged.clone() };
    let ticket = desk.register(id, Some(outbox), place)?;
    ground.request(ticket, Method::Listen.name(), message).await?;
    Ok(())
}

/// Plays a listen for a server that knows none.
async fn play(
    ground: &Arc<dyn SubscriptionTransport>,
    talk: &ClientCodec,
    id: CallId,
    request: &Request,
    outbox: &Outbox,
    acknowledged: &AtomicBool,
) -> Result<(), Error> {
    let desk = ground.desk();
    let wanted = match &request.filter {
        Some(filter) => filter.read(SubscriptionFilter::clone),
        None => SubscriptionFilter::default(),
    };
    let filter = agreed(wanted, &desk.about().discovery.capabilities);
    let place = PendingKind::Played { filter: filter.clone(), silent: true, missed: false };
    // Nothing is sent under this id, so it ends only with the connection.
    let mut ticket = desk.register(id, Some(outbox), place)?;
    let mut following = Vec::new();
    for uri in &filter.uris {
        following.push(ResourceSubscription::begin(ground, talk, uri).await?);
    }
    let before = acknowledged.swap(true, Ordering::Relaxed);
    desk.acknowledge(&ticket.id, &filter, outbox, before);
    ticket.wait().await.map(drop)
}

/// What of `wanted` a server can tell.
fn agreed(wanted: SubscriptionFilter, can: &ServerCapabilities) -> SubscriptionFilter {
    let lists =
        |it: &Option<wharf_model::ListCapability>| it.as_ref().is_some_and(|it| it.list_changed);
    let resources = can.resources.clone().unwrap_or_default();
    SubscriptionFilter {
        tools: wanted.tools && lists(&can.tools),
        prompts: wanted.prompts && lists(&can.prompts),
        resources: wanted.resources && resources.list_changed,
        uris: if resources.subscribe { wanted.uris } else { Default::default() },
        tasks: if can.tasks.is_some() { wanted.tasks } else { Default::default() },
    }
}

/// A resource that a listen follows; dropping it unsubscribes if it was the last.
struct ResourceSubscription {
    ground: Arc<dyn SubscriptionTransport>,
    talk: ClientCodec,
    uri: String,
    /// Over which connection; none if the server refused.
    connection: Option<u64>,
}

impl ResourceSubscription {
    async fn begin(ground: &Arc<dyn SubscriptionTransport>, talk: &ClientCodec, uri: &str) -> Result<Self, Error> {
        // In a task of its own: a listen that nobody polls must not hold up the others.
        let mut task = JoinSet::new();
        task.spawn(Self::take_turn(ground.clone(), talk.clone(), uri.to_owned()));
        let begun = task.join_next().await.and_then(Result::ok);
        begun.unwrap_or_else(|| Err(Error::new(ErrorKind::InternalError)))
    }

    async fn take_turn(
        ground: Arc<dyn SubscriptionTransport>,
        talk: ClientCodec,
        uri: String,
    ) -> Result<Self, Error> {
        let turns = ground.clone();
        let _turn = turns.subscribing().lock().await;
        let (first, connection) = ground.desk().follow(&uri);
        // Made before the request, which may be given up while it is under way.
        let mut following = ResourceSubscription { ground, talk, uri, connection: Some(connection) };
        if first && let Err(error) = following.subscribe().await {
            following.ground.desk().unfollow(&following.uri, connection);
            following.connection = None;
            return Err(error);
        }
        Ok(following)
    }

    /// Subscribes, within a time: whoever else subscribes has to wait for it.
    async fn subscribe(&self) -> Result<(), Error> {
        let patience = self.ground.desk().options().handshake;
        let subscribing = subscribe(&self.ground, &self.talk, &self.uri, true);
        timeout(patience, subscribing).await.unwrap_or_else(|_| {
            let seconds = patience.as_secs();
            let problem = format!("The server did not answer resources/subscribe in {seconds} s");
            Err(Error::new(ErrorKind::RequestTimeout).with_message(problem))
        })
    }
}

impl Drop for ResourceSubscription {
    fn drop(&mut self) {
        let Some(connection) = self.connection else { return };
        let (ground, talk) = (self.ground.clone(), self.talk.clone());
        let uri = std::mem::take(&mut self.uri);
        let unsubscribing = async move {
            let _turn = ground.subscribing().lock().await;
            if ground.desk().unfollow(&uri, connection) {
                let _ = timeout(FAREWELL, subscribe(&ground, &talk, &uri, false)).await;
            }
        };
        // Without a runtime there is no connection either.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(unsubscribing);
        }
    }
}

/// Subscribes to a resource, or unsubscribes.
async fn subscribe(
    ground: &Arc<dyn SubscriptionTransport>,
    talk: &ClientCodec,
    uri: &str,
    on: bool,
) -> Result<(), Error> {
    let id = ground.desk().next_id();
    let mut message = Vec::new();
    if !talk.subscribe(uri, on, &id, &mut message) {
        return Ok(());
    }
    let ticket = ground.desk().register(id, None, PendingKind::ControlRequest)?;
    let method = if on { "resources/subscribe" } else { "resources/unsubscribe" };
    ground.request(ticket, method, message).await?;
    Ok(())
}
