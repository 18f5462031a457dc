//! State of a session that several processes share: its record in the store, and the readers of its streams.

use std::{
    sync::{
        Arc, MutexGuard, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::sync::{Mutex as AsyncMutex, Notify};
use wharf_model::{ChangeVersion, Error, Lock, Record, RequestExtensions, Service};
use wharf_wire::{Connection, McpHeaders, Received, sse};

use crate::server::http::session::{
    cluster::event_writer::EventWriter,
    id::random_number,
    idle_time::SessionGuard,
    kinds::SessionKind,
    live_session::{SESSION_STREAM, Session},
};
use crate::server::http::{
    HttpBody,
    cluster::{Cluster, ClusterMessage, StoreUnavailable},
    response,
    response::HttpResponse,
};

/// Number of attempts of a compare-and-swap.
const MAX_SWAP_ATTEMPTS: usize = 16;
/// Time that a record outlives the idle limit of its session, because uses are saved only at intervals.
pub(crate) const EXPIRY_SLACK: Duration = Duration::from_secs(90);

/// Record of a session in the store, and the readers of its streams in this process.
pub(crate) struct SessionRecord {
    pub(crate) cluster: Arc<Cluster>,
    /// Key of the session in the stores.
    pub(crate) key: String,
    /// The record as last loaded or written. Locked during an update.
    record: AsyncMutex<Record>,
    version: AtomicU64,
    /// True if another process may have changed the record since.
    stale: AtomicBool,
    /// True if the session was used since its expiry was last extended.
    used: AtomicBool,
    readers: Lock<Vec<Weak<RegisteredReader>>>,
}

/// Registration of a reader that resumed a stream. A stream has one reader in the whole cluster.
pub(crate) struct RegisteredReader {
    stream: u64,
    pub(crate) ticket: u64,
    /// True if it reads the event log of this process instead of the store.
    local: bool,
    pub(crate) wakeup: Notify,
    /// True once this process has received its own `ReaderMoved` message. A `ReaderMoved` of another reader
    /// that arrives earlier was published earlier, and does not displace this one.
    announced: AtomicBool,
    /// True once another reader has displaced this one.
    displaced: AtomicBool,
}

impl RegisteredReader {
    pub(crate) fn is_displaced(&self) -> bool {
        self.displaced.load(Ordering::Acquire)
    }

    fn displace(&self) {
        self.displaced.store(true, Ordering::Release);
        self.wakeup.notify_one();
    }
}

/// Error of an operation on the shared record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionStoreError {
    StoreUnavailable,
    /// The session has ended.
    Gone,
    /// Other processes changed the record on every attempt, or the table is full.
    Contended,
}

impl From<StoreUnavailable> for SessionStoreError {
    fn from(StoreUnavailable: StoreUnavailable) -> Self {
        SessionStoreError::StoreUnavailable
    }
}

impl SessionRecord {
    pub(crate) fn new(cluster: Arc<Cluster>, record: Record) -> Arc<Self> {
        Arc::new(SessionRecord {
            cluster,
            key: record.id.clone(),
            version: AtomicU64::new(record.version),
            record: AsyncMutex::new(record),
            stale: AtomicBool::new(false),
            used: AtomicBool::new(false),
            readers: Lock::default(),
        })
    }

    /// Returns the key of a stream in the store.
    pub(crate) fn stream(&self, number: u64) -> String {
        format!("{}.{number}", self.key)
    }

    /// Prepares the session for a request: applies what other processes changed, and what the request's principal
    /// may see.
    pub(crate) async fn prepare(
        &self,
        session: &Session,
        scope: &RequestExtensions,
    ) -> Result<(), SessionStoreError> {
        self.mark_used();
        self.refresh_if_stale(session).await?;
        session.set_principal(scope);
        Ok(())
    }

    pub(crate) fn mark_used(&self) {
        self.used.store(true, Ordering::Release);
    }

    /// Marks the record as possibly changed by another process.
    pub(crate) fn mark_stale(&self) {
        self.stale.store(true, Ordering::Release);
    }

    /// Handles a `SessionChanged` message. False if this version is already known.
    pub(crate) fn on_changed(&self, version: u64) -> bool {
        let is_new = self.version.load(Ordering::Acquire) < version;
        if is_new {
            self.mark_stale();
        }
        is_new
    }

    /// Loads the record and applies it to the session, if another process may have changed it.
    pub(crate) async fn refresh_if_stale(
        &self,
        session: &Session,
    ) -> Result<(), SessionStoreError> {
        match self.stale.load(Ordering::Acquire) {
            true => self.refresh(session).await,
            false => Ok(()),
        }
    }

    /// Loads the record and applies it to the session.
    pub(crate) async fn refresh(&self, session: &Session) -> Result<(), SessionStoreError> {
        let mut record = self.record.lock().await;
        // Cleared before the load: a change after the load is announced again.
        let stale = self.stale.swap(false, Ordering::AcqRel);
        let loaded = self.reload(&mut record).await;
        match loaded {
            Ok(()) => session.connection().catch_up(&record.body),
            Err(_) if stale => self.mark_stale(),
            Err(_) => {}
        }
        loaded
    }

    async fn reload(&self, record: &mut Record) -> Result<(), SessionStoreError> {
        let loaded = self.cluster.store_call(self.cluster.stores.sessions.load(&self.key)).await?;
        *record = loaded.ok_or(SessionStoreError::Gone)?;
        self.version.store(record.version, Ordering::Release);
        Ok(())
    }

    /// Handles a posted message up to its decoded form: prepares the session, decodes the message, and forwards the
    /// parts that concern other processes. The changes that a message makes to the session are stored before they
    /// take effect.
    pub(crate) async fn receive(
        &self,
        session: &Session,
        scope: &RequestExtensions,
        message: Bytes,
        heads: &McpHeaders<'_>,
    ) -> Result<Received, SessionStoreError> {
        self.prepare(session, scope).await?;
        let (mut received, edited) = {
            let mut connection = session.connection();
            let before = connection.edits();
            let received = connection.receive_http(message.clone(), heads);
            (received, connection.edits() != before)
        };
        if edited {
            // Decoded again on top of the stored state, because other processes may have changed the session too.
            let service = &*session.common.context.service;
            let updated = self.update(session, |connection| {
                received = connection.receive_http(message.clone(), heads);
                defer_listen(connection, &mut received, service);
            });
            updated.await?;
        }
        self.forward(session, &mut received).await?;
        Ok(received)
    }

    /// Edits the session and stores it with compare-and-swap, with retries.
    async fn update(
        &self,
        session: &Session,
        mut edit: impl FnMut(&mut Connection),
    ) -> Result<(), SessionStoreError> {
        let mut record = self.record.lock().await;
        let changed = async {
            for _ in 0..MAX_SWAP_ATTEMPTS {
                let body = {
                    let mut connection = session.connection();
                    connection.catch_up(&record.body);
                    edit(&mut connection);
                    connection.save().unwrap_or_default()
                };
                if self.compare_and_swap(&mut record, body).await? {
                    return Ok(());
                }
                self.reload(&mut record).await?;
            }
            Err(SessionStoreError::Contended)
        };
        let changed = changed.await;
        if changed.is_err() {
            // The change failed, or its outcome is unknown: the client repeats its request.
            session.connection().catch_up(&record.body);
            self.mark_stale();
        }
        let version = record.version;
        drop(record);
        if changed.is_ok() {
            let _ = self
                .cluster
                .publish(&ClusterMessage::SessionChanged { key: &self.key, version })
                .await;
        }
        changed
    }

    /// Replaces the record's body. False if another process changed the record first.
    async fn compare_and_swap(
        &self,
        record: &mut Record,
        body: Vec<u8>,
    ) -> Result<bool, SessionStoreError> {
        let new = record.clone().body(body);
        let swapped =
            self.cluster.store_call(self.cluster.stores.sessions.swap(new.clone())).await?;
        if swapped {
            let version = new.version + 1;
            *record = new.version(version);
            self.version.store(record.version, Ordering::Release);
        }
        Ok(swapped)
    }

    /// Extends the record's expiry if the session was used, and saves its change versions.
    pub(crate) async fn touch(
        &self,
        session: &Session,
        idle: Duration,
    ) -> Result<(), SessionStoreError> {
        if !self.used.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let extended = self.extend_expiry(session, idle).await;
        if extended.is_err() {
            self.mark_used();
        }
        extended
    }

    async fn extend_expiry(
        &self,
        session: &Session,
        idle: Duration,
    ) -> Result<(), SessionStoreError> {
        let now = self.cluster.store_call(self.cluster.stores.sessions.now()).await?;
        let mut record = self.record.lock().await;
        for _ in 0..MAX_SWAP_ATTEMPTS {
            let until = now + (idle + EXPIRY_SLACK).as_millis() as u64;
            record.expires = record.expires.max(Some(until));
            let body = session.connection().save().unwrap_or_default();
            if self.compare_and_swap(&mut record, body).await? {
                break;
            }
            self.reload(&mut record).await?;
            session.connection().catch_up(&record.body);
        }
        Ok(())
    }

    /// Ends the session for all processes. False if it had ended before.
    pub(crate) async fn remove(&self) -> Result<bool, StoreUnavailable> {
        let removed =
            self.cluster.store_call(self.cluster.stores.sessions.remove(&self.key)).await?;
        // If this fails, the stream expires by its TTL.
        let _ = self
            .cluster
            .store_call(self.cluster.stores.events.remove(&self.stream(SESSION_STREAM)))
            .await;
        let _ = self.cluster.publish(&ClusterMessage::SessionEnded { key: &self.key }).await;
        Ok(removed)
    }
}

/// Kind of a session that is shared.
impl SessionKind for Arc<SessionRecord> {
    fn first_request_number(&self) -> u64 {
        self.cluster.first_request_number()
    }

    /// Other processes open streams of the session too, and no two may have the same number.
    fn stream_number(&self, newest: u64) -> u64 {
        random_number().unwrap_or(newest)
    }

    fn event_writer(&self, session: &Arc<Session>, number: u64) -> Option<EventWriter> {
        Some(EventWriter::new(session, self, number))
    }

    /// The reader of the session's stream runs the subscription.
    fn start_listen(
        &self,
        _: &Arc<Session>,
        _: &RequestExtensions,
        _: bool,
    ) -> Result<(), Box<Error>> {
        Ok(())
    }

    /// The event is complete in the response, so it is never resumed and not stored.
    fn one_event(&self, _: &SessionGuard, reply: Vec<u8>) -> HttpResponse {
        let mut event = Vec::new();
        sse::event(&mut event, None, &reply);
        response::events(HttpBody::whole(event))
    }

    fn save(&self, session: &Arc<Session>) {
        let (shared_record, session) = (self.clone(), session.clone());
        self.cluster.spawn(async move {
            let _ = shared_record.update(&session, |_| {}).await;
        });
    }

    fn on_end(&self) {
        self.wake_readers();
    }
}

/// Readers of the session's streams.
impl SessionRecord {
    /// Registers a reader of a stream, displaces the current one and announces it to the cluster.
    pub(crate) async fn register_reader(
        &self,
        stream: u64,
        local: bool,
    ) -> Result<Arc<RegisteredReader>, StoreUnavailable> {
        self.matching(|it| it.stream == stream).iter().for_each(|it| it.displace());
        let reader = Arc::new(RegisteredReader {
            stream,
            ticket: self.cluster.next_ticket(),
            local,
            wakeup: Notify::new(),
            announced: AtomicBool::new(false),
            displaced: AtomicBool::new(false),
        });
        self.add_reader(&reader);
        let (key, node, ticket) = (&*self.key, self.cluster.node, reader.ticket);
        self.cluster.publish(&ClusterMessage::ReaderMoved { key, stream, node, ticket }).await?;
        Ok(reader)
    }

    fn add_reader(&self, reader: &Arc<RegisteredReader>) {
        let mut readers = self.readers();
        readers.retain(|reader| reader.strong_count() > 0);
        readers.push(Arc::downgrade(reader));
    }

    /// Handles a `ReaderMoved` message: displaces readers with other tickets. False if the message is older
    /// than a reader of this process's log.
    pub(crate) fn on_reader_moved(&self, stream: u64, ticket: u64) -> bool {
        let mut is_new = true;
        for reader in self.matching(|it| it.stream == stream) {
            if reader.ticket == ticket {
                reader.announced.store(true, Ordering::Release);
            } else if reader.announced.load(Ordering::Acquire) {
                reader.displace();
            } else {
                is_new &= !reader.local;
            }
        }
        is_new
    }

    /// Handles a `StreamGrew` message: wakes the readers of the stream.
    pub(crate) fn on_stream_grew(&self, stream: u64) {
        self.matching(|it| it.stream == stream).iter().for_each(|it| it.wakeup.notify_one());
    }

    /// Wakes the readers of all streams.
    pub(crate) fn wake_readers(&self) {
        self.matching(|_| true).iter().for_each(|it| it.wakeup.notify_one());
    }

    fn matching(&self, which: impl Fn(&RegisteredReader) -> bool) -> Vec<Arc<RegisteredReader>> {
        self.readers().iter().filter_map(Weak::upgrade).filter(|it| which(it)).collect()
    }

    fn readers(&self) -> MutexGuard<'_, Vec<Weak<RegisteredReader>>> {
        self.readers.lock()
    }
}

/// Defers the session's subscription until a client opens the session's stream, in any process.
fn defer_listen(connection: &mut Connection, received: &mut Received, service: &dyn Service) {
    match received {
        Received::Call(_, codec) if codec.is_silent() => {
            connection.postpone_listen(service.change_version().unwrap_or(ChangeVersion::FIRST));
            *received = Received::Ignore;
        }
        Received::Batch(members) => {
            members.iter_mut().for_each(|member| defer_listen(connection, member, service));
        }
        _ => {}
    }
}
