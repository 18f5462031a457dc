//! Task that keeps one upstream server connected, and reads its lists again when they change.

use std::{
    future::{pending, poll_fn},
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};
use wharf_model::{
    ActiveCall, BoxFuture, Deadlines, Event, Method, Notification, Outcome, RequestBuilder, Timer,
};

use crate::{
    gateway::{Change, GatewayState},
    snapshot::{UpstreamLink, read_all},
    unavailable::is_outage,
    upstream::ManagedServer,
};

/// Time in which changes of the lists are collected before they are read again.
const DEBOUNCE: Duration = Duration::from_millis(250);
/// Time after which a subscription that the server ended or refused is tried again.
const LISTEN_AGAIN: Duration = Duration::from_secs(60);

/// The server cannot be reached.
struct Unreachable;

/// Tokio's clock, for calls of the driver.
struct DriverTimer;

impl Timer for DriverTimer {
    fn now(&self) -> std::time::Instant {
        Instant::now().into_std()
    }

    fn sleep_until(&self, deadline: std::time::Instant) -> BoxFuture<()> {
        Box::pin(sleep_until(deadline.into()))
    }
}

/// Runs until the gateway is dropped.
pub(crate) async fn drive(server: Arc<ManagedServer>, gateway: Weak<GatewayState>) {
    let driver = Driver { server, gateway, timer: Arc::new(DriverTimer) };
    loop {
        if let Ok(link) = driver.open().await {
            driver.follow(&link).await;
        }
        driver.wait_for_retry().await;
    }
}

struct Driver {
    server: Arc<ManagedServer>,
    gateway: Weak<GatewayState>,
    timer: Arc<dyn Timer>,
}

impl Driver {
    /// Connects, unless there is a connection, and reads the lists.
    async fn open(&self) -> Result<UpstreamLink, Unreachable> {
        let present = self.server.state.borrow().link.clone();
        let link = match present {
            Some(link) => link,
            None => {
                // The error is in the log of the client; it may name the address.
                let Ok(client) = self.server.options.connector.connect().await else {
                    self.unreachable();
                    return Err(Unreachable);
                };
                client.transport().observe_upstream(&self.server.observers.lock());
                let proxy = client.relay();
                UpstreamLink { client, proxy }
            }
        };
        self.read_lists(&link).await?;
        Ok(link)
    }

    async fn read_lists(&self, link: &UpstreamLink) -> Result<(), Unreachable> {
        let Ok(snapshot) =
            read_all(link, &self.timer, self.server.deadlines(Deadlines::NONE)).await
        else {
            self.unreachable();
            return Err(Unreachable);
        };
        self.server.recovered(link, snapshot);
        self.lists_changed();
        Ok(())
    }

    fn unreachable(&self) {
        self.server.unreachable();
        self.lists_changed();
    }

    fn lists_changed(&self) {
        if let Some(gateway) = self.gateway.upgrade() {
            gateway.update();
        }
        self.server.settle();
    }

    /// Reads the lists again whenever they change, until the server cannot be reached or the circuit opens.
    async fn follow(&self, link: &UpstreamLink) {
        let mut listening = Some(self.listen(link));
        let (mut read_at, mut listen_at): (Option<Instant>, Option<Instant>) = (None, None);
        loop {
            tokio::select! {
                event = next_event(&mut listening) => match event {
                    Event::Notify(notification) if self.is_list_change(&notification) => {
                        read_at.get_or_insert_with(|| Instant::now() + DEBOUNCE);
                    }
                    Event::Done(Outcome::Failed(error)) if is_outage(&error) => {
                        // The transport may reconnect by itself.
                        listening = None;
                        if self.read_lists(link).await.is_err() {
                            return;
                        }
                        listen_at = Some(Instant::now() + DEBOUNCE);
                    }
                    Event::Done(_) => {
                        listening = None;
                        listen_at = Some(Instant::now() + LISTEN_AGAIN);
                    }
                    _ => {}
                },
                () = at(read_at) => {
                    read_at = None;
                    if self.read_lists(link).await.is_err() {
                        return;
                    }
                }
                () = at(listen_at) => {
                    listen_at = None;
                    listening = Some(self.listen(link));
                    // Changes in between were not reported.
                    read_at = Some(Instant::now());
                }
                () = self.server.recheck.notified() => {
                    let is_open = self.server.state.borrow().outage.is_some_and(|it| it.is_open);
                    if is_open || self.read_lists(link).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Subscribes to the lists and to the resources that clients of the gateway subscribed to. The proxy follows changes
    /// of the filter.
    fn listen(&self, link: &UpstreamLink) -> ActiveCall {
        let mut request = RequestBuilder::new(Method::Listen).build();
        request.scope = link.client.transport().scope();
        request.filter = Some(self.server.filter.clone());
        ActiveCall::start(&*link.proxy, request, self.timer.clone(), Deadlines::NONE)
    }

    /// Passes on a resource update; returns whether a list may have changed.
    fn is_list_change(&self, notification: &Notification) -> bool {
        match notification {
            // The lists were read before the subscription began, and may have changed in between.
            Notification::Acknowledged(_)
            | Notification::ToolsChanged
            | Notification::PromptsChanged
            | Notification::ResourcesChanged => true,
            Notification::ResourceUpdated { uri } => {
                if let Some(gateway) = self.gateway.upgrade() {
                    let uri = gateway.rewrite(&self.server).public(uri).into();
                    gateway.publish(Change::Resource(uri));
                }
                false
            }
            _ => false,
        }
    }

    /// Waits for the next attempt, and withdraws the lists when the grace period ends.
    async fn wait_for_retry(&self) {
        let Some(outage) = self.server.state.borrow().outage else { return };
        let withdraw_at = Instant::from_std(outage.since + self.server.options.grace);
        let retry_at = Instant::from_std(outage.retry_at);
        if Instant::now() < withdraw_at && withdraw_at < retry_at {
            sleep_until(withdraw_at).await;
            self.lists_changed();
        }
        sleep_until(retry_at).await;
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}

/// Returns the next event of the subscription; requests of the server outside of a call are refused.
async fn next_event(listening: &mut Option<ActiveCall>) -> Event {
    let Some(call) = listening else { return pending().await };
    loop {
        match poll_fn(|cx| call.poll_event(cx)).await {
            Event::ClientRequest(id, ask) => call.refuse(id, &ask),
            event => return event,
        }
    }
}
