//! Writes the events of a call stream to the store before a client sees them.

use std::{
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use wharf_model::{Lock, Retention};
use wharf_wire::CallId;

use crate::server::http::session::{
    cluster::{
        event_record::{EventKind, EventRecord},
        record::SessionRecord,
    },
    event_log::{EventLog, UnstoredEvent},
    live_session::Session,
};
use crate::server::http::{
    HttpLimits,
    cluster::{Cluster, ClusterMessage, StoreUnavailable},
};

/// Number of events in one read.
pub(crate) const READ_BATCH_SIZE: usize = 64;
/// Shortest time that the store keeps an open call stream after its last event.
const OPEN_STREAM_TTL: Duration = Duration::from_secs(24 * 3600);

/// Copies the events of one call stream from its event log to the store.
pub(crate) struct EventWriter {
    /// Weak, because calls hold their session and the session holds its streams.
    session: Weak<Session>,
    cluster: Arc<Cluster>,
    key: String,
    stream: u64,
    limits: HttpLimits,
    /// Ids of the calls whose replies end the stream.
    calls: Lock<Vec<CallId>>,
    /// The same ids as JSON, once the stream is open.
    reply_ids: OnceLock<String>,
    /// Number that the store gave the newest event.
    newest: Lock<u64>,
}

/// Error: another process took this one for dead and ended the stream.
struct TakenOver;

impl EventWriter {
    pub(crate) fn new(session: &Arc<Session>, shared_record: &SessionRecord, stream: u64) -> Self {
        EventWriter {
            session: Arc::downgrade(session),
            cluster: shared_record.cluster.clone(),
            key: shared_record.key.clone(),
            stream,
            limits: session.common.limits,
            calls: Lock::default(),
            reply_ids: OnceLock::new(),
            newest: Lock::default(),
        }
    }

    /// Adds a call whose reply ends the stream. A batch has several.
    pub(crate) fn expect_reply(&self, id: CallId) {
        self.calls.lock().push(id);
    }

    /// Opens the stream in the store, then starts the task that stores the events of the log: from then on, readers
    /// see only stored events. If this fails, the calls of the stream are cancelled.
    pub(crate) async fn start(
        &self,
        log: &Arc<EventLog>,
        batch: bool,
    ) -> Result<(), StoreUnavailable> {
        self.reply_ids.get_or_init(|| {
            let calls = self.calls.lock();
            let ids: Vec<_> = calls.iter().map(CallId::as_json).collect();
            if batch { format!("[{}]", ids.join(",")) } else { ids.concat() }
        });
        match self.append(EventKind::Open, 0, b"").await {
            Ok(newest) => *self.newest.lock() = newest,
            Err(unavailable) => {
                self.cancel_calls();
                return Err(unavailable);
            }
        }
        log.begin_storing();
        self.run(log.clone());
        Ok(())
    }

    /// Cancels the calls of a stream that cannot be stored.
    fn cancel_calls(&self) {
        if let Some(session) = self.session.upgrade() {
            self.calls.lock().iter().for_each(|id| session.calls().cancel(id));
        }
    }

    /// Deletes the stored events, if there are any. If this fails, they expire by their TTL.
    pub(crate) fn delete_stored(&self) {
        if self.reply_ids.get().is_some() {
            let (cluster, name) = (self.cluster.clone(), self.name());
            self.cluster.spawn(async move {
                let _ = cluster.store_call(cluster.stores.events.remove(&name)).await;
            });
        }
    }

    /// Spawns a task that stores events until the log has no more.
    pub(crate) fn run(&self, log: Arc<EventLog>) {
        self.cluster.spawn(async move {
            let Some(writer) = log.writer() else { return };
            while let Some(next) = log.next_unstored() {
                if writer.store(&log, &next).await.is_err() {
                    log.close();
                    writer.cancel_calls();
                    return;
                }
                if log.mark_stored(&next) {
                    // Readers also poll the store, so a lost message only delays them.
                    let message =
                        ClusterMessage::StreamGrew { key: &writer.key, stream: writer.stream };
                    let _ = writer.cluster.publish(&message).await;
                }
            }
        });
    }

    /// Stores one event, and retries until it succeeds.
    async fn store(&self, log: &EventLog, next: &UnstoredEvent) -> Result<(), TakenOver> {
        let kind = if next.end { EventKind::End } else { EventKind::Message };
        let number = loop {
            match self.append(kind, next.number, &next.message).await {
                Ok(number) => break number,
                Err(StoreUnavailable) => self.cluster.wait_until_available().await,
            }
            if log.is_closed() {
                return Err(TakenOver);
            }
        };
        let before = std::mem::replace(&mut *self.newest.lock(), number);
        if number == before + 1 || !self.ended_by_other(before, number).await {
            return Ok(());
        }
        Err(TakenOver)
    }

    /// Returns true if one of the events between these two was written by another process that ended the
    /// stream. The others are this process's own, stored by an attempt whose response was lost.
    async fn ended_by_other(&self, mut after: u64, before: u64) -> bool {
        let name = self.name();
        while after + 1 < before {
            let read = self
                .cluster
                .store_call(self.cluster.stores.events.read(&name, after, READ_BATCH_SIZE))
                .await;
            let Ok(read) = read else {
                self.cluster.wait_until_available().await;
                continue;
            };
            let between = read.events.iter().filter(|(number, _)| *number < before);
            let foreign = |record: EventRecord<'_>| {
                record.kind == EventKind::End && record.node != self.cluster.node
            };
            if between.clone().any(|(_, event)| EventRecord::parse(event).is_some_and(foreign)) {
                return true;
            }
            match read.events.last() {
                Some((number, _)) => after = *number,
                None => return false,
            }
        }
        false
    }

    async fn append(
        &self,
        kind: EventKind,
        number: u64,
        message: &[u8],
    ) -> Result<u64, StoreUnavailable> {
        let reply_ids = self.reply_ids.get().map_or("", |reply_ids| reply_ids);
        let event =
            EventRecord { kind, node: self.cluster.node, number, reply_ids, message }.to_bytes();
        let retention = retention(&self.limits, event.len());
        // A call may be silent for longer than a session may be idle.
        let ttl =
            if kind == EventKind::End { retention.ttl } else { retention.ttl.max(OPEN_STREAM_TTL) };
        let retention = retention.ttl(ttl);
        self.cluster
            .store_call(self.cluster.stores.events.append(&self.name(), event, retention))
            .await
    }

    fn name(&self) -> String {
        format!("{}.{}", self.key, self.stream)
    }
}

/// Returns the retention of a stream. It always has room for the newest event, of `length` bytes.
pub(crate) fn retention(limits: &HttpLimits, length: usize) -> Retention {
    // One more than clients see, for the event that opens the stream.
    let events = limits.replay_events.max(1) + 1;
    Retention::new(events, limits.replay_bytes.max(length), limits.session_idle)
}
