//! Callers of a real fleet, of both eras.

mod changes;
mod peace;
mod questions;
mod streams;
mod tasks;

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

use serde_json::json;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep},
};
use wharf::{Client, ClientHandlerBuilder, ElicitResult, Era, Error, ErrorKind};

use crate::{
    history::{History, TaskEvent},
    watch::{DeliveryGuarantee, RecordedChange, SubscriberLog},
    work::{GO_ON, reply_to},
};

/// How long everything may take to come to an end, once nobody is killed any more.
pub const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);

/// All callers together. Clones are the same.
#[derive(Clone)]
pub struct Load {
    url: String,
    address: SocketAddr,
    /// Until when something new is begun.
    end: Instant,
    pub history: History,
    known: Arc<Mutex<Vec<(String, String)>>>,
    pub counts: Arc<LoadCounts>,
    watches: [SubscriberLog; 4],
    changes: Arc<Mutex<Vec<RecordedChange>>>,
    /// Whether nobody need listen any more.
    over: watch::Sender<bool>,
}

/// What there was besides tasks.
#[derive(Debug, Default)]
pub struct LoadCounts {
    /// Calls that were answered.
    pub calls: AtomicUsize,
    /// Tasks that were refused, or nobody knows.
    pub refused: AtomicUsize,
    /// Streams that came to an end with a result, and with an error because their node was gone.
    pub streams: AtomicUsize,
    pub broken: AtomicUsize,
    /// How often a stream was taken up again, and how many events there were.
    pub resumed: AtomicUsize,
    pub events: AtomicUsize,
    /// Calls whose questions were all answered, and those that broke off.
    pub interviews: AtomicUsize,
    pub interrupted: AtomicUsize,
    /// Calls that were cancelled, at whichever process.
    pub stopped: AtomicUsize,
    /// Changes that were made, and events that were asked for, and came, again.
    pub changes: AtomicUsize,
    pub replayed: AtomicUsize,
    number: AtomicU64,
}

impl Load {
    #[must_use]
    pub fn new(url: String, address: SocketAddr, end: Instant) -> Self {
        let watches = [
            SubscriberLog::new("judy", DeliveryGuarantee::Everything),
            SubscriberLog::new("kate", DeliveryGuarantee::WhileOpen),
            // Our client opens its stream again by itself, and supposes that everything changed.
            SubscriberLog::new("liam", DeliveryGuarantee::Everything),
            SubscriberLog::new("peggy", DeliveryGuarantee::Everything),
        ];
        Load {
            url,
            address,
            end,
            history: History::default(),
            known: Arc::default(),
            counts: Arc::default(),
            watches,
            changes: Arc::default(),
            over: watch::Sender::new(false),
        }
    }

    /// All of it: tasks in both eras, streams, questions, changes, and calls that say who is
    /// calling. Those who listen do so until [`Load::in_peace`] is through.
    pub async fn run(&self) {
        let mut callers = JoinSet::new();
        for (who, era) in [("alice", Era::Modern), ("bob", Era::Legacy), ("carol", Era::Modern)] {
            callers.spawn(self.clone().tasks(who, era));
        }
        for who in ["dave", "erin"] {
            callers.spawn(self.clone().streams(who));
        }
        for (who, era) in [("frank", Era::Modern), ("grace", Era::Legacy)] {
            callers.spawn(self.clone().calls(who, era));
        }
        callers.spawn(self.clone().interviews("heidi"));
        callers.spawn(self.clone().modern_interviews("ivan"));
        callers.spawn(self.clone().cancelled_calls("mike"));
        let [session, by_hand, modern, legacy] = self.watches.clone();
        callers.spawn(self.clone().follows_session(session));
        callers.spawn(self.clone().listens_by_hand(by_hand));
        callers.spawn(self.clone().listens(modern, Era::Modern));
        callers.spawn(self.clone().listens(legacy, Era::Legacy));
        callers.spawn(self.clone().makes_changes("niaj"));
        self.all(callers).await;
    }

    /// What survives a process that has nobody to take over: tasks, and calls without a session.
    pub async fn without_sessions(&self) {
        let mut callers = JoinSet::new();
        for who in ["alice", "bob", "carol"] {
            callers.spawn(self.clone().tasks(who, Era::Modern));
        }
        callers.spawn(self.clone().calls("frank", Era::Modern));
        self.all(callers).await;
    }

    async fn all(&self, mut callers: JoinSet<()>) {
        while let Some(ended) = callers.join_next().await {
            if let Err(error) = ended {
                self.wrong("load", &format!("a caller ended with {error}"));
            }
        }
    }

    async fn connect(&self, who: &str, era: Era) -> Option<Client> {
        loop {
            let (word, me) = (self.word(who), who.to_owned());
            let answers = ClientHandlerBuilder::new().elicit(move |form| {
                let is_task = form.message == GO_ON;
                let word = if is_task { word.clone() } else { reply_to(&me, &form.message) };
                async move { Ok(ElicitResult::accept(json!({ "word": word }))) }
            });
            let client = Client::builder()
                .era(era)
                .header("authorization", format!("Bearer {who}"))
                .timeout(Duration::from_secs(20))
                .answers(answers);
            match client.connect(self.url.as_str()).await {
                Ok(client) => return Some(client),
                Err(error) if Instant::now() > self.end + SETTLE_TIMEOUT => {
                    self.wrong(who, &format!("could not connect: {error}"));
                    return None;
                }
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// A word that nobody else says.
    fn word(&self, who: &str) -> String {
        format!("{who}:{}", self.counts.number.fetch_add(1, Ordering::Relaxed))
    }

    /// How long something that begins now may take.
    fn patience(&self) -> Duration {
        (self.end + SETTLE_TIMEOUT).saturating_duration_since(Instant::now())
    }

    fn known(&self) -> MutexGuard<'_, Vec<(String, String)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, key: &str, event: TaskEvent) {
        self.history.add(now(), key, event);
    }

    fn wrong(&self, key: &str, what: &str) {
        self.add(key, TaskEvent::Wrong(what.into()));
    }
}

/// Milliseconds since 1970, as the nodes' journal has them.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(0)
}

/// Whether an error says more than that a node is gone, or cannot for now.
fn is_final(error: &Error) -> bool {
    let passing = [
        ErrorKind::ConnectionClosed,
        ErrorKind::TransportError,
        ErrorKind::RequestTimeout,
        ErrorKind::TemporarilyUnavailable,
        ErrorKind::Overloaded,
    ];
    !passing.contains(&error.kind)
}
