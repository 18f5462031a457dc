//! The way of a call's events into the store, past which no client sees them.

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    time::Duration,
};

use wharf_model::Retention;
use wharf_wire::CallId;

use crate::server::http::session::{
    cluster::{
        event_record::{Entry, Kind},
        record::Member,
    },
    event_log::{Log, Unstored},
    session::Session,
};
use crate::server::http::{
    HttpLimits,
    cluster::{Away, Fleet, Word},
};

/// How many events are read at once.
pub(crate) const BATCH: usize = 64;
/// For how long a call's stream that has not ended is kept after its last event, at least.
const UNENDED: Duration = Duration::from_secs(24 * 3600);

/// Where a call's stream is kept.
pub(crate) struct Journal {
    /// Calls know their session, and the session its streams.
    session: Weak<Session>,
    fleet: Arc<Fleet>,
    key: String,
    stream: u64,
    limits: HttpLimits,
    /// The calls whose replies end the stream.
    calls: Mutex<Vec<CallId>>,
    /// The same as text, once the stream has begun.
    owed: OnceLock<String>,
    /// The number that the store gave the newest event.
    newest: Mutex<u64>,
}

/// Somebody else ended the stream: this process was thought dead.
struct Lost;

impl Journal {
    pub(crate) fn new(session: &Arc<Session>, member: &Member, stream: u64) -> Self {
        Journal {
            session: Arc::downgrade(session),
            fleet: member.fleet.clone(),
            key: member.key.clone(),
            stream,
            limits: session.common.limits,
            calls: Mutex::default(),
            owed: OnceLock::new(),
            newest: Mutex::default(),
        }
    }

    /// The stream ends with the reply to this call, among others if it is of a batch.
    pub(crate) fn owe(&self, id: CallId) {
        lock(&self.calls).push(id);
    }

    /// Begins to keep the stream. Nothing of it may be sent before, nor if that fails.
    pub(crate) async fn begin(&self, log: &Arc<Log>, batch: bool) -> Result<(), Away> {
        self.owed.get_or_init(|| {
            let calls = lock(&self.calls);
            let ids: Vec<_> = calls.iter().map(CallId::as_json).collect();
            if batch { format!("[{}]", ids.join(",")) } else { ids.concat() }
        });
        let newest = self.append(Kind::Open, 0, b"").await?;
        *lock(&self.newest) = newest;
        log.begin_to_store();
        Ok(())
    }

    /// Gives up calls whose stream cannot be kept.
    pub(crate) fn give_up(&self, session: &Session) {
        lock(&self.calls).iter().for_each(|id| session.flight().cancel(id));
    }

    /// Forgets what is kept of the stream, if anything is. What fails here ends with time.
    pub(crate) fn forget(&self) {
        if self.owed.get().is_some() {
            let (fleet, name) = (self.fleet.clone(), self.name());
            self.fleet.spawn(async move {
                let _ = fleet.ask(fleet.stores.events.forget(&name)).await;
            });
        }
    }

    /// Stores what the log has, for as long as it has something.
    pub(crate) fn run(&self, log: Arc<Log>) {
        self.fleet.spawn(async move {
            let Some(journal) = log.journal() else { return };
            while let Some(next) = log.next_unstored() {
                if journal.store(&log, &next).await.is_err() {
                    log.close();
                    if let Some(session) = journal.session.upgrade() {
                        journal.give_up(&session);
                    }
                    return;
                }
                if log.stored(&next) {
                    // Nothing is lost if nobody hears it.
                    let word = Word::Grown { key: &journal.key, stream: journal.stream };
                    let _ = journal.fleet.say(&word).await;
                }
            }
        });
    }

    /// Stores one event, however often it takes.
    async fn store(&self, log: &Log, next: &Unstored) -> Result<(), Lost> {
        let kind = if next.end { Kind::End } else { Kind::Said };
        let number = loop {
            match self.append(kind, next.number, &next.message).await {
                Ok(number) => break number,
                Err(Away) => self.fleet.back().await,
            }
            if log.is_closed() {
                return Err(Lost);
            }
        };
        let before = std::mem::replace(&mut *lock(&self.newest), number);
        if number == before + 1 || !self.was_ended(before, number).await {
            return Ok(());
        }
        Err(Lost)
    }

    /// Whether one of the events between these was written by somebody who ended the stream. The
    /// others are our own, stored by an attempt that seemed to fail.
    async fn was_ended(&self, mut after: u64, before: u64) -> bool {
        let name = self.name();
        while after + 1 < before {
            let read = self.fleet.ask(self.fleet.stores.events.read(&name, after, BATCH)).await;
            let Ok(read) = read else {
                self.fleet.back().await;
                continue;
            };
            let between = read.events.iter().filter(|(number, _)| *number < before);
            let foreign =
                |entry: Entry<'_>| entry.kind == Kind::End && entry.node != self.fleet.node;
            if between.clone().any(|(_, event)| Entry::parse(event).is_some_and(foreign)) {
                return true;
            }
            match read.events.last() {
                Some((number, _)) => after = *number,
                None => return false,
            }
        }
        false
    }

    async fn append(&self, kind: Kind, number: u64, message: &[u8]) -> Result<u64, Away> {
        let owed = self.owed.get().map_or("", |owed| owed);
        let event = Entry { kind, node: self.fleet.node, number, owed, message }.to_bytes();
        let keep = keep(&self.limits, event.len());
        // Calls may be silent for longer than sessions may be idle.
        let ttl = if kind == Kind::End { keep.ttl } else { keep.ttl.max(UNENDED) };
        let keep = Retention { ttl, ..keep };
        self.fleet.ask(self.fleet.stores.events.append(&self.name(), event, keep)).await
    }

    fn name(&self) -> String {
        format!("{}.{}", self.key, self.stream)
    }
}

/// How much of a stream is kept whose newest event is so long: it, at least.
pub(crate) fn keep(limits: &HttpLimits, length: usize) -> Retention {
    Retention {
        // One more than clients see, which says that there is a stream.
        events: limits.replay_events.max(1) + 1,
        bytes: limits.replay_bytes.max(length),
        ttl: limits.session_idle,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
