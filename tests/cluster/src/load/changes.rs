//! Subscribers to changes, and callers that make changes.

use std::{
    collections::BTreeSet,
    io,
    sync::{MutexGuard, PoisonError, atomic::Ordering},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use wharf::{
    Era,
    model::{Notification, SubscriptionFilter},
};

use super::{Load, SETTLE_TIMEOUT};
use crate::{
    change_history::{RecordedChange, SubscriberLog},
    random::SeededRandom,
    recording_client::{CallEnd, LegacySession, listen},
    recording_tools::{LISTENERS, TOOLS, note},
    sse,
};

/// Number of events that a subscriber goes back to receive them again.
const BACK: usize = 8;
/// Acknowledgement after which a modern subscriber is notified.
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// Events of a session's own stream in order, and the read position of the client.
#[derive(Default)]
struct ReceivedEvents {
    events: Vec<(String, Value)>,
    position: usize,
    ids: BTreeSet<String>,
}

impl ReceivedEvents {
    /// Id to resume from.
    fn last(&self) -> Option<&str> {
        self.position.checked_sub(1).map(|last| &*self.events[last].0)
    }

    /// Goes back by this number of events.
    fn back(&mut self, events: usize) {
        self.position = self.position.saturating_sub(events).max(1).min(self.events.len());
    }

    /// Takes the next event; returns whether it is new.
    ///
    /// # Errors
    /// If it is not the expected one.
    fn take(&mut self, id: String, message: Value) -> Result<bool, String> {
        if let Some(known) = self.events.get(self.position) {
            self.position += 1;
            let is_same = known.0 == id && known.1 == message;
            let problem = || format!("{id} {message} came again in the place of {known:?}");
            return is_same.then_some(false).ok_or_else(problem);
        }
        if !self.ids.insert(id.clone()) {
            return Err(format!("the event {id} came twice, now as {message}"));
        }
        self.events.push((id, message));
        self.position += 1;
        Ok(true)
    }
}

impl Load {
    /// Missing and unexpected notifications of the subscribers.
    #[must_use]
    pub fn problems(&self, deaths: &[(String, Instant)]) -> Vec<String> {
        let changes = self.changes();
        self.watches.iter().flat_map(|watch| watch.problems(&changes, deaths)).collect()
    }

    /// Number of notifications and of broken streams of each subscriber.
    #[must_use]
    pub fn notification_counts(&self) -> Vec<(&'static str, (usize, usize))> {
        self.watches.iter().map(|watch| (watch.who(), watch.counts())).collect()
    }

    pub(super) fn changes(&self) -> MutexGuard<'_, Vec<RecordedChange>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes with the stream of a session and checks the id of every event.
    pub(super) async fn follows_session(self, watch: SubscriberLog) {
        let who = watch.who();
        let session = match self.subscribed(who).await {
            Ok(session) => session,
            Err(error) => return self.wrong(who, &format!("it cannot listen: {error}")),
        };
        let mut over = self.over.subscribe();
        let mut random = SeededRandom::of(u64::from(std::process::id()), who);
        let mut received = ReceivedEvents::default();
        loop {
            tokio::select! {
                () = self.follow_session(&session, &watch, &mut received, &mut random) => {}
                _ = over.wait_for(|over| *over) => return,
            }
            watch.closed();
            if random.percent(50) {
                received.back(random.below(BACK));
            }
            self.spy_on(&session, received.last()).await;
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Opens a session subscribed to its own notes and to those of another caller.
    async fn subscribed(&self, who: &str) -> io::Result<LegacySession> {
        let session = LegacySession::open(self.address, who, SETTLE_TIMEOUT).await?;
        for uri in wanted(who) {
            session.ask("resources/subscribe", &json!({ "uri": uri }), SETTLE_TIMEOUT).await?;
        }
        Ok(session)
    }

    /// Reads the stream until it breaks, or the client closes it.
    async fn follow_session(
        &self,
        session: &LegacySession,
        watch: &SubscriberLog,
        received: &mut ReceivedEvents,
        random: &mut SeededRandom,
    ) {
        let Ok(mut events) = session.own_stream(received.last()).await else { return };
        watch.opened();
        while let Ok(Some(event)) = events.next().await {
            let sse::SseEvent { id: Some(id), message: Some(message) } = event else { continue };
            let told = what_changed(&message);
            match received.take(id, message) {
                Ok(true) => told.iter().for_each(|what| watch.notified(what)),
                Ok(false) => drop(self.counts.replayed.fetch_add(1, Ordering::Relaxed)),
                Err(problem) => return self.wrong(watch.who(), &problem),
            }
            if random.percent(10) && Instant::now() < self.end {
                return;
            }
        }
    }

    /// Requests the stream of another caller's session.
    async fn spy_on(&self, session: &LegacySession, last: Option<&str>) {
        if let Ok(status) = session.spied_by("mallory", last).await
            && ![404, 503].contains(&status)
        {
            self.wrong("mallory", &format!("asked for another's stream and was told {status}"));
        }
    }

    /// Subscribes as modern clients do, and records each broken stream.
    pub(super) async fn listens_by_hand(self, watch: SubscriberLog) {
        let mut over = self.over.subscribe();
        let listen = async {
            loop {
                let who = watch.who();
                if let Ok(mut events) = listen(self.address, who, &wanted(who)).await {
                    while let Ok(Some(sse::SseEvent { message, .. })) = events.next().await {
                        let Some(message) = message else { continue };
                        if message["method"] == json!(ACKNOWLEDGED) {
                            watch.opened();
                        }
                        what_changed(&message).iter().for_each(|what| watch.notified(what));
                    }
                    watch.closed();
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            () = listen => {}
            _ = over.wait_for(|over| *over) => {}
        }
    }

    /// Subscribes with the client library, which reopens its stream by itself.
    pub(super) async fn listens(self, watch: SubscriberLog, era: Era) {
        let who = watch.who();
        let Some(client) = self.connect(who, era).await else { return };
        let mut over = self.over.subscribe();
        let listen = async {
            loop {
                let filter =
                    SubscriptionFilter::default().tools(true).uris([note(who, 0), note(who, 1)]);
                if let Ok(mut changes) = client.listen(filter).await {
                    watch.opened();
                    while let Some(Ok(change)) = changes.next().await {
                        match change {
                            Notification::ToolsChanged => watch.notified(TOOLS),
                            Notification::ResourceUpdated { uri } => watch.notified(&uri),
                            _ => {}
                        }
                    }
                    watch.closed();
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            () = listen => {}
            _ = over.wait_for(|over| *over) => {}
        }
    }

    /// Makes one change after the other, at any process.
    pub(super) async fn makes_changes(self, who: &'static str) {
        let session = match LegacySession::open(self.address, who, SETTLE_TIMEOUT).await {
            Ok(session) => session,
            Err(error) => return self.wrong(who, &format!("no session: {error}")),
        };
        let mut random = SeededRandom::of(4, who);
        for number in 1.. {
            if Instant::now() >= self.end {
                break;
            }
            let what = changeable(random.below(CHANGEABLE));
            self.change(&session, number, &what).await;
            sleep(random.millis(50..150)).await;
        }
    }

    /// Makes a change; returns whether it was acknowledged.
    pub(super) async fn change(&self, session: &LegacySession, number: u64, what: &str) -> bool {
        let begun = Instant::now();
        let arguments = json!({ "what": what });
        let heard = session.call(number, "touch", &arguments, self.patience()).await;
        let CallEnd::Answered(answer) = &heard.end else { return false };
        let Some(by) = answer["result"]["content"][0]["text"].as_str() else { return false };
        let (what, by, known) = (what.to_owned(), by.to_owned(), Instant::now());
        self.changes().push(RecordedChange { what, by, begun, known });
        self.counts.changes.fetch_add(1, Ordering::Relaxed);
        true
    }
}

/// Number of changeable items: two notes of each subscriber, and the list of tools.
pub(super) const CHANGEABLE: usize = LISTENERS.len() * 2 + 1;

/// Name of a changeable item.
pub(super) fn changeable(number: usize) -> String {
    match LISTENERS.get(number / 2) {
        Some(who) => note(who, number % 2),
        None => TOOLS.into(),
    }
}

/// Items that a subscriber subscribes to: its own notes, and one of another caller.
fn wanted(who: &str) -> [String; 3] {
    let other = LISTENERS.into_iter().find(|it| *it != who).unwrap_or_default();
    [note(who, 0), note(who, 1), note(other, 0)]
}

fn what_changed(message: &Value) -> Option<String> {
    match message["method"].as_str()? {
        "notifications/tools/list_changed" => Some(TOOLS.into()),
        "notifications/resources/updated" => message["params"]["uri"].as_str().map(str::to_owned),
        _ => None,
    }
}
