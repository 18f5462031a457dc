//! Load of a real cluster: callers of both eras.

mod changes;
mod client_requests;
mod stable_cluster;
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
use wharf::{
    Client, Era, ErrorKind,
    client::{CallError, ClientHandlerBuilder, TraceEvent},
    model::ElicitResult,
};

use crate::{
    change_history::{DeliveryGuarantee, RecordedChange, SubscriberLog},
    recording_tools::{GO_ON, reply_to},
    task_history::{History, TaskEvent},
};

/// Time for everything to end after the last kill.
pub const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);

/// All callers. Clones share the state.
#[derive(Clone)]
pub struct Load {
    url: String,
    address: SocketAddr,
    /// Time until which new calls are started.
    end: Instant,
    pub history: History,
    known: Arc<Mutex<Vec<(String, String)>>>,
    pub counts: Arc<LoadCounts>,
    watches: [SubscriberLog; 4],
    changes: Arc<Mutex<Vec<RecordedChange>>>,
    /// True when the subscribers may stop.
    over: watch::Sender<bool>,
}

/// Counters of everything except tasks.
#[derive(Debug, Default)]
pub struct LoadCounts {
    /// Answered calls.
    pub calls: AtomicUsize,
    /// Tasks that were rejected, or whose creation is unknown.
    pub refused: AtomicUsize,
    /// Streams that ended with a result, and with an error because their node was lost.
    pub streams: AtomicUsize,
    pub broken: AtomicUsize,
    /// Resumed streams, and the number of events.
    pub resumed: AtomicUsize,
    pub events: AtomicUsize,
    /// Calls whose client requests were all answered, and interrupted ones.
    pub interviews: AtomicUsize,
    pub interrupted: AtomicUsize,
    /// Cancelled calls, at any process.
    pub stopped: AtomicUsize,
    /// Changes made, and events that were requested and received again.
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
            // The client library reopens its stream by itself, and treats everything as changed.
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

    /// Runs the whole load: tasks in both eras, streams, client requests, changes, and calls that
    /// return the caller's name. Subscribers continue until [`Load::run_on_stable_cluster`] has finished.
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

    /// Load that survives a process without a successor: tasks, and calls without a session.
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
            // The client opens a lost session again by itself; only its trace shows it.
            let (load, caller) = (self.clone(), who.to_owned());
            let trace = move |event: TraceEvent<'_>| match event {
                TraceEvent::Note(note) if note.starts_with("opening a new session") => {
                    load.wrong(&caller, &format!("its session was lost: {note}"));
                }
                _ => {}
            };
            let client = Client::builder()
                .era(era)
                .trace(trace)
                .header("authorization", format!("Bearer {who}"))
                .timeout(Duration::from_secs(20))
                .handler(answers);
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

    /// A unique word.
    fn word(&self, who: &str) -> String {
        format!("{who}:{}", self.counts.number.fetch_add(1, Ordering::Relaxed))
    }

    /// Timeout of a call that starts now.
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

/// Milliseconds since 1970, as in the journal of the nodes.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(0)
}

/// Returns whether an error means more than a lost node or a temporary failure.
fn is_final(error: &CallError) -> bool {
    let passing = [
        ErrorKind::ConnectionClosed,
        ErrorKind::TransportError,
        ErrorKind::RequestTimeout,
        ErrorKind::TemporarilyUnavailable,
        ErrorKind::Overloaded,
    ];
    !passing.contains(&error.kind())
}
