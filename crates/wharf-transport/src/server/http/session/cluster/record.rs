//! What a session has beside itself where several processes serve it.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::sync::{Mutex as AsyncMutex, Notify};
use wharf_model::{ChangeVersion, Record, Service};
use wharf_wire::{Connection, McpHeaders, Received};

use crate::server::http::cluster::{Cluster, ClusterMessage, StoreUnavailable};
use crate::server::http::session::session::{SESSION_STREAM, Session};

/// How often a change is tried again that others came before.
const MAX_SWAP_ATTEMPTS: usize = 16;
/// How much longer a record is kept than its session may be idle: uses are noted only so often.
pub(crate) const EXPIRY_SLACK: Duration = Duration::from_secs(90);

/// The session's place in the store, and who follows its streams through that.
pub(crate) struct SessionRecord {
    pub(crate) cluster: Arc<Cluster>,
    /// By what the stores know it.
    pub(crate) key: String,
    /// As this process last saw it. Held while it is changed.
    record: AsyncMutex<Record>,
    version: AtomicU64,
    /// Whether another process has changed it since.
    stale: AtomicBool,
    /// Whether anybody has used it since that was noted.
    used: AtomicBool,
    readers: Mutex<Vec<Weak<RegisteredReader>>>,
}

/// Somebody who came back to a stream.
pub(crate) struct RegisteredReader {
    stream: u64,
    pub(crate) ticket: u64,
    /// Whether it reads what this process wrote, past the store.
    local: bool,
    pub(crate) wakeup: Notify,
    /// Whether it has heard that it follows the stream. What it hears before that others take it
    /// was said before.
    announced: AtomicBool,
    /// Whether somebody else follows it by now.
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

/// Why a change was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionStoreError {
    StoreUnavailable,
    /// The session has ended.
    Gone,
    /// Others change it all the time.
    Contended,
}

impl From<StoreUnavailable> for SessionStoreError {
    fn from(StoreUnavailable: StoreUnavailable) -> Self {
        SessionStoreError::StoreUnavailable
    }
}

impl SessionRecord {
    pub(crate) fn new(cluster: Arc<Cluster>, record: Record) -> Self {
        SessionRecord {
            cluster,
            key: record.id.clone(),
            version: AtomicU64::new(record.version),
            record: AsyncMutex::new(record),
            stale: AtomicBool::new(false),
            used: AtomicBool::new(false),
            readers: Mutex::default(),
        }
    }

    /// The name of a stream in the store.
    pub(crate) fn stream(&self, number: u64) -> String {
        format!("{}.{number}", self.key)
    }

    pub(crate) fn mark_used(&self) {
        self.used.store(true, Ordering::Release);
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Acquire)
    }

    /// Another process may have changed the session.
    pub(crate) fn mark_stale(&self) {
        self.stale.store(true, Ordering::Release);
    }

    /// Another process changed the session. False if this one has seen that.
    pub(crate) fn on_changed(&self, version: u64) -> bool {
        let is_new = self.version.load(Ordering::Acquire) < version;
        if is_new {
            self.mark_stale();
        }
        is_new
    }

    /// Catches up with the other processes, now or before the session is used again.
    pub(crate) async fn refresh_or_mark_stale(
        &self,
        session: &Session,
    ) -> Result<(), SessionStoreError> {
        let seen = self.refresh(session).await;
        if seen.is_err() {
            self.mark_stale();
        }
        seen
    }

    /// Catches up with the other processes, if that is possible now.
    pub(crate) async fn refresh(&self, session: &Session) -> Result<(), SessionStoreError> {
        let mut record = self.record.lock().await;
        // Before the look: what is changed after it is told again.
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

    /// Reads a message. What it changes is in the store before anybody acts on it.
    pub(crate) async fn receive(
        &self,
        session: &Session,
        message: Bytes,
        heads: &McpHeaders<'_>,
    ) -> Result<Received, SessionStoreError> {
        let (received, edited) = {
            let mut connection = session.connection();
            let before = connection.edits();
            let received = connection.receive_http(message.clone(), heads);
            (received, connection.edits() != before)
        };
        if !edited {
            return Ok(received);
        }
        // Once more, from what the store has: others may have changed the session too.
        let service = &*session.common.context.service;
        let mut received = Received::Ignore;
        let kept = self.update(session, |connection| {
            received = connection.receive_http(message.clone(), heads);
            defer_listen(connection, &mut received, service);
        });
        kept.await.map(|()| received)
    }

    /// Tells the other processes what the session follows by now.
    pub(crate) fn save_in_background(session: &Arc<Session>) {
        let Some(shared_record) = &session.shared_record else { return };
        let shared = session.clone();
        shared_record.cluster.spawn(async move {
            if let Some(shared_record) = &shared.shared_record {
                let _ = shared_record.update(&shared, |_| {}).await;
            }
        });
    }

    /// Changes what the store has, however often it takes.
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
            // It did not happen, or nobody knows: the client will say it again.
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

    /// Puts `body` in the place of what the record says. False if others came before.
    async fn compare_and_swap(
        &self,
        record: &mut Record,
        body: Vec<u8>,
    ) -> Result<bool, SessionStoreError> {
        let new = Record { body, ..record.clone() };
        let swapped =
            self.cluster.store_call(self.cluster.stores.sessions.swap(new.clone())).await?;
        if swapped {
            *record = Record { version: new.version + 1, ..new };
            self.version.store(record.version, Ordering::Release);
        }
        Ok(swapped)
    }

    /// Notes in the store that the session is used, if it is, and what it has heard by now.
    pub(crate) async fn touch(
        &self,
        session: &Session,
        idle: Duration,
    ) -> Result<(), SessionStoreError> {
        if !self.used.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let noted = self.extend_expiry(session, idle).await;
        if noted.is_err() {
            self.mark_used();
        }
        noted
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

    /// Ends the session for all processes. False if it had ended.
    pub(crate) async fn remove(&self) -> Result<bool, StoreUnavailable> {
        let removed =
            self.cluster.store_call(self.cluster.stores.sessions.remove(&self.key)).await?;
        // What fails here ends with time.
        let _ = self
            .cluster
            .store_call(self.cluster.stores.events.forget(&self.stream(SESSION_STREAM)))
            .await;
        let _ = self.cluster.publish(&ClusterMessage::SessionEnded { key: &self.key }).await;
        Ok(removed)
    }
}

/// Those who follow the session's streams through the store.
impl SessionRecord {
    /// Follows a stream from now on, instead of whoever does, and tells the others.
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

    /// Somebody follows a stream by this ticket: those with others need not. False if that was so
    /// before somebody came back to this process.
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

    /// There is more of a stream.
    pub(crate) fn on_stream_grew(&self, stream: u64) {
        self.matching(|it| it.stream == stream).iter().for_each(|it| it.wakeup.notify_one());
    }

    /// Whoever follows any stream should look.
    pub(crate) fn wake_readers(&self) {
        self.matching(|_| true).iter().for_each(|it| it.wakeup.notify_one());
    }

    fn matching(&self, which: impl Fn(&RegisteredReader) -> bool) -> Vec<Arc<RegisteredReader>> {
        self.readers().iter().filter_map(Weak::upgrade).filter(|it| which(it)).collect()
    }

    fn readers(&self) -> MutexGuard<'_, Vec<Weak<RegisteredReader>>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets the session's listen wait until somebody opens its stream, wherever that is.
fn defer_listen(connection: &mut Connection, received: &mut Received, service: &dyn Service) {
    match received {
        Received::Call(_, codec) if codec.is_silent() => {
            connection.put_off_listen(service.moment().unwrap_or(ChangeVersion::FIRST));
            *received = Received::Ignore;
        }
        Received::Batch(members) => {
            members.iter_mut().for_each(|member| defer_listen(connection, member, service));
        }
        _ => {}
    }
}
