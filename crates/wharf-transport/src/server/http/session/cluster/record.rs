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

use crate::server::http::cluster::{Away, Fleet, Word};
use crate::server::http::session::session::{OWN, Session};

/// How often a change is tried again that others came before.
const TRIES: usize = 16;
/// How much longer a record is kept than its session may be idle: uses are noted only so often.
pub(crate) const SLACK: Duration = Duration::from_secs(90);

/// The session's place in the store, and who follows its streams through that.
pub(crate) struct Member {
    pub(crate) fleet: Arc<Fleet>,
    /// By what the stores know it.
    pub(crate) key: String,
    /// As this process last saw it. Held while it is changed.
    record: AsyncMutex<Record>,
    version: AtomicU64,
    /// Whether another process has changed it since.
    stale: AtomicBool,
    /// Whether anybody has used it since that was noted.
    used: AtomicBool,
    readers: Mutex<Vec<Weak<Reader>>>,
}

/// Somebody who came back to a stream.
pub(crate) struct Reader {
    stream: u64,
    pub(crate) ticket: u64,
    /// Whether it reads what this process wrote, past the store.
    local: bool,
    pub(crate) news: Notify,
    /// Whether it has heard that it follows the stream. What it hears before that others take it
    /// was said before.
    heard: AtomicBool,
    /// Whether somebody else follows it by now.
    taken: AtomicBool,
}

impl Reader {
    pub(crate) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Acquire)
    }

    fn take(&self) {
        self.taken.store(true, Ordering::Release);
        self.news.notify_one();
    }
}

/// Why a change was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unkept {
    Away,
    /// The session has ended.
    Gone,
    /// Others change it all the time.
    Crowded,
}

impl From<Away> for Unkept {
    fn from(Away: Away) -> Self {
        Unkept::Away
    }
}

impl Member {
    pub(crate) fn new(fleet: Arc<Fleet>, record: Record) -> Self {
        Member {
            fleet,
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

    pub(crate) fn note_use(&self) {
        self.used.store(true, Ordering::Release);
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Acquire)
    }

    /// Another process may have changed the session.
    pub(crate) fn doubt(&self) {
        self.stale.store(true, Ordering::Release);
    }

    /// Another process changed the session. False if this one has seen that.
    pub(crate) fn changed(&self, version: u64) -> bool {
        let news = self.version.load(Ordering::Acquire) < version;
        if news {
            self.doubt();
        }
        news
    }

    /// Catches up with the other processes, now or before the session is used again.
    pub(crate) async fn refresh(&self, session: &Session) -> Result<(), Unkept> {
        let seen = self.look_up(session).await;
        if seen.is_err() {
            self.doubt();
        }
        seen
    }

    /// Catches up with the other processes, if that is possible now.
    pub(crate) async fn look_up(&self, session: &Session) -> Result<(), Unkept> {
        let mut record = self.record.lock().await;
        // Before the look: what is changed after it is told again.
        let stale = self.stale.swap(false, Ordering::AcqRel);
        let loaded = self.reload(&mut record).await;
        match loaded {
            Ok(()) => session.connection().catch_up(&record.body),
            Err(_) if stale => self.doubt(),
            Err(_) => {}
        }
        loaded
    }

    async fn reload(&self, record: &mut Record) -> Result<(), Unkept> {
        let loaded = self.fleet.ask(self.fleet.stores.sessions.load(&self.key)).await?;
        *record = loaded.ok_or(Unkept::Gone)?;
        self.version.store(record.version, Ordering::Release);
        Ok(())
    }

    /// Reads a message. What it changes is in the store before anybody acts on it.
    pub(crate) async fn receive(
        &self,
        session: &Session,
        message: Bytes,
        heads: &McpHeaders<'_>,
    ) -> Result<Received, Unkept> {
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
        let service = &*session.common.host.service;
        let mut received = Received::Ignore;
        let kept = self.change(session, |connection| {
            received = connection.receive_http(message.clone(), heads);
            put_off(connection, &mut received, service);
        });
        kept.await.map(|()| received)
    }

    /// Tells the other processes what the session follows by now.
    pub(crate) fn share(session: &Arc<Session>) {
        let Some(member) = &session.member else { return };
        let shared = session.clone();
        member.fleet.spawn(async move {
            if let Some(member) = &shared.member {
                let _ = member.change(&shared, |_| {}).await;
            }
        });
    }

    /// Changes what the store has, however often it takes.
    async fn change(
        &self,
        session: &Session,
        mut edit: impl FnMut(&mut Connection),
    ) -> Result<(), Unkept> {
        let mut record = self.record.lock().await;
        let changed = async {
            for _ in 0..TRIES {
                let body = {
                    let mut connection = session.connection();
                    connection.catch_up(&record.body);
                    edit(&mut connection);
                    connection.save().unwrap_or_default()
                };
                if self.write(&mut record, body).await? {
                    return Ok(());
                }
                self.reload(&mut record).await?;
            }
            Err(Unkept::Crowded)
        };
        let changed = changed.await;
        if changed.is_err() {
            // It did not happen, or nobody knows: the client will say it again.
            session.connection().catch_up(&record.body);
            self.doubt();
        }
        let version = record.version;
        drop(record);
        if changed.is_ok() {
            let _ = self.fleet.say(&Word::Changed { key: &self.key, version }).await;
        }
        changed
    }

    /// Puts `body` in the place of what the record says. False if others came before.
    async fn write(&self, record: &mut Record, body: Vec<u8>) -> Result<bool, Unkept> {
        let new = Record { body, ..record.clone() };
        let swapped = self.fleet.ask(self.fleet.stores.sessions.swap(new.clone())).await?;
        if swapped {
            *record = Record { version: new.version + 1, ..new };
            self.version.store(record.version, Ordering::Release);
        }
        Ok(swapped)
    }

    /// Notes in the store that the session is used, if it is, and what it has heard by now.
    pub(crate) async fn touch(&self, session: &Session, idle: Duration) -> Result<(), Unkept> {
        if !self.used.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let noted = self.note_in_store(session, idle).await;
        if noted.is_err() {
            self.note_use();
        }
        noted
    }

    async fn note_in_store(&self, session: &Session, idle: Duration) -> Result<(), Unkept> {
        let now = self.fleet.ask(self.fleet.stores.sessions.now()).await?;
        let mut record = self.record.lock().await;
        for _ in 0..TRIES {
            let until = now + (idle + SLACK).as_millis() as u64;
            record.expires = record.expires.max(Some(until));
            let body = session.connection().save().unwrap_or_default();
            if self.write(&mut record, body).await? {
                break;
            }
            self.reload(&mut record).await?;
            session.connection().catch_up(&record.body);
        }
        Ok(())
    }

    /// Ends the session for all processes. False if it had ended.
    pub(crate) async fn remove(&self) -> Result<bool, Away> {
        let removed = self.fleet.ask(self.fleet.stores.sessions.remove(&self.key)).await?;
        // What fails here ends with time.
        let _ = self.fleet.ask(self.fleet.stores.events.forget(&self.stream(OWN))).await;
        let _ = self.fleet.say(&Word::Gone { key: &self.key }).await;
        Ok(removed)
    }
}

/// Those who follow the session's streams through the store.
impl Member {
    /// Follows a stream from now on, instead of whoever does, and tells the others.
    pub(crate) async fn follow(&self, stream: u64, local: bool) -> Result<Arc<Reader>, Away> {
        self.of(|it| it.stream == stream).iter().for_each(|it| it.take());
        let reader = Arc::new(Reader {
            stream,
            ticket: self.fleet.ticket(),
            local,
            news: Notify::new(),
            heard: AtomicBool::new(false),
            taken: AtomicBool::new(false),
        });
        self.note(&reader);
        let (key, node, ticket) = (&*self.key, self.fleet.node, reader.ticket);
        self.fleet.say(&Word::Taken { key, stream, node, ticket }).await?;
        Ok(reader)
    }

    fn note(&self, reader: &Arc<Reader>) {
        let mut readers = self.readers();
        readers.retain(|reader| reader.strong_count() > 0);
        readers.push(Arc::downgrade(reader));
    }

    /// Somebody follows a stream by this ticket: those with others need not. False if that was so
    /// before somebody came back to this process.
    pub(crate) fn taken(&self, stream: u64, ticket: u64) -> bool {
        let mut news = true;
        for reader in self.of(|it| it.stream == stream) {
            if reader.ticket == ticket {
                reader.heard.store(true, Ordering::Release);
            } else if reader.heard.load(Ordering::Acquire) {
                reader.take();
            } else {
                news &= !reader.local;
            }
        }
        news
    }

    /// There is more of a stream.
    pub(crate) fn grown(&self, stream: u64) {
        self.of(|it| it.stream == stream).iter().for_each(|it| it.news.notify_one());
    }

    /// Whoever follows any stream should look.
    pub(crate) fn look(&self) {
        self.of(|_| true).iter().for_each(|it| it.news.notify_one());
    }

    fn of(&self, which: impl Fn(&Reader) -> bool) -> Vec<Arc<Reader>> {
        self.readers().iter().filter_map(Weak::upgrade).filter(|it| which(it)).collect()
    }

    fn readers(&self) -> MutexGuard<'_, Vec<Weak<Reader>>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets the session's listen wait until somebody opens its stream, wherever that is.
fn put_off(connection: &mut Connection, received: &mut Received, service: &dyn Service) {
    match received {
        Received::Call(_, codec) if codec.is_silent() => {
            connection.put_off_listen(service.moment().unwrap_or(ChangeVersion::FIRST));
            *received = Received::Ignore;
        }
        Received::Batch(members) => {
            members.iter_mut().for_each(|member| put_off(connection, member, service));
        }
        _ => {}
    }
}
