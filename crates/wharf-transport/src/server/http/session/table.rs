//! Table of an endpoint's sessions: limits, eviction and expiry.

use std::{
    collections::HashMap,
    sync::{Arc, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use foldhash::fast::RandomState;
use tokio::time::sleep;
use wharf_model::{LogThrottle, RequestExtensions};

use crate::server::http::{
    HttpLimits,
    session::{
        SessionManager,
        id::random_id,
        live_session::{Session, SessionGuard, USED_BIT},
    },
};
use crate::{
    Shutdown,
    server::limits::fair_eviction::{SlotTable, SlotUse},
};

/// Shortest and longest interval between two searches for expired sessions.
const SWEEP_INTERVALS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// Key of a session in the table: the 32 digits of its id, or the digest of the id where several processes share the
/// session through a store. Digits are not decoded, because that would cost each request more than the lookup does.
pub(crate) type SessionKey = [u8; 32];

/// Sessions of an endpoint by key.
pub(crate) struct SessionTable {
    sessions: HashMap<SessionKey, Arc<Session>, RandomState>,
    slots: SlotTable<SessionKey>,
    /// True while a task removes expired sessions.
    is_swept: bool,
}

impl SessionManager {
    /// Inserts a session under a new random id. None if the table is full of sessions in use.
    pub(crate) fn insert(self: &Arc<Self>, session: &Arc<Session>) -> Option<String> {
        let name = random_id()?;
        let id = session_key(name.as_bytes())?;
        self.admit(id, session).map(|_| name)
    }

    /// Inserts a session, or returns the one that another request inserted under this key. None if the table is
    /// full of sessions in use.
    pub(super) fn admit(
        self: &Arc<Self>,
        id: SessionKey,
        session: &Arc<Session>,
    ) -> Option<Arc<Session>> {
        let mut table = self.lock();
        if let Some(known) = table.sessions.get(&id) {
            return Some(known.clone());
        }
        let evicted = table.evict_for(session, self.common.now());
        let has_slot = table.slots.has_room(session.units());
        let mut sweep = false;
        if has_slot {
            table.slots.add(&session.caller, session.units(), self.common.now(), id);
            table.sessions.insert(id, session.clone());
            sweep = !std::mem::replace(&mut table.is_swept, true);
        }
        drop(table);
        log_full_table(session, evicted.len(), has_slot);
        evicted.iter().for_each(|session| session.end());
        if sweep {
            let sweeping = sweep_loop(Arc::downgrade(self), self.common.shutdown.clone());
            self.tasks.spawn(sweeping);
        }
        has_slot.then(|| session.clone())
    }

    /// Finds a session in this process by the digest of its id. True if it was idle here for so long that it
    /// may have expired in the store.
    pub(super) fn find_local(&self, id: &SessionKey) -> Option<(SessionGuard, bool)> {
        let table = self.lock();
        let session = table.sessions.get(id)?;
        let idle = session.is_expired();
        Some((SessionGuard::new(session.clone()), idle))
    }

    /// Finds a session in this process by its key in the store.
    pub(super) fn local_by_key(&self, key: &str) -> Option<Arc<Session>> {
        self.lock().sessions.get(&decode_key(key)?).cloned()
    }

    pub(super) fn all_local(&self) -> Vec<Arc<Session>> {
        self.lock().sessions.values().cloned().collect()
    }

    /// Ends a session that the store no longer has.
    pub(super) fn remove_ended(&self, key: &str) {
        let session = decode_key(key).and_then(|id| self.lock().remove_key(&id));
        if let Some(session) = session {
            session.delete_stored_streams();
            session.end();
        }
    }

    /// Finds the session with this id for its owner. Unknown, expired and foreign sessions are not told apart.
    pub(crate) fn find(&self, name: &[u8], scope: &RequestExtensions) -> Option<SessionGuard> {
        let id = session_key(name)?;
        let mut table = self.lock();
        let session = table.sessions.get(&id).filter(|session| session.belongs_to(scope))?;
        if !session.is_expired() {
            session.touch();
            return Some(SessionGuard::new(session.clone()));
        }
        let session = table.remove_key(&id)?;
        drop(table);
        session.end();
        None
    }

    /// Removes a session and ends it. False if it was removed before.
    pub(crate) fn remove(&self, name: &[u8]) -> bool {
        let session = session_key(name).and_then(|id| self.lock().remove_key(&id));
        session.inspect(|session| session.end()).is_some()
    }

    /// Ends expired sessions. False if the table is empty afterwards.
    fn sweep(self: &Arc<Self>) -> bool {
        let mut table = self.lock();
        let evicted = table.expired();
        table.is_swept = !table.sessions.is_empty();
        let is_swept = table.is_swept;
        let held = if self.cluster.is_some() {
            table.sessions.values().cloned().collect()
        } else {
            Vec::new()
        };
        drop(table);
        evicted.iter().for_each(|session| session.end());
        self.save_uses(held);
        is_swept
    }

    /// Ends the streams and client requests of every session on shutdown.
    fn shut_down(&self) {
        let mut table = self.lock();
        table.is_swept = false;
        let sessions: Vec<_> = table.sessions.values().cloned().collect();
        drop(table);
        sessions.iter().for_each(|session| session.shut_down());
    }

    fn lock(&self) -> MutexGuard<'_, SessionTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls and stream readers hold sessions without the table, so dropping the table ends the sessions.
impl Drop for SessionManager {
    fn drop(&mut self) {
        let table = self.table.get_mut().unwrap_or_else(PoisonError::into_inner);
        table.sessions.values().for_each(|session| session.end());
    }
}

impl SessionTable {
    /// Creates a table with the capacity that the limits give.
    pub(super) fn new(limits: &HttpLimits) -> Self {
        let most = limits.session_unit().saturating_mul(limits.sessions);
        SessionTable { sessions: HashMap::default(), slots: SlotTable::new(most), is_swept: false }
    }

    fn expired(&mut self) -> Vec<Arc<Session>> {
        let expired = self.sessions.iter().filter(|(_, it)| it.is_expired());
        let expired: Vec<_> = expired.map(|(id, _)| *id).collect();
        expired.iter().filter_map(|id| self.remove_key(id)).collect()
    }

    fn remove_key(&mut self, id: &SessionKey) -> Option<Arc<Session>> {
        let session = self.sessions.remove(id)?;
        let sessions = &self.sessions;
        self.slots.remove(&session.caller, session.units(), |id| !sessions.contains_key(id));
        Some(session)
    }

    /// Removes the sessions that are evicted for this one. There may be too few idle ones.
    fn evict_for(&mut self, session: &Session, now: u64) -> Vec<Arc<Session>> {
        let mut evicted = Vec::new();
        while !self.slots.has_room(session.units()) {
            let sessions = &self.sessions;
            let look = |id: &SessionKey| slot_use(sessions, id);
            let Some(id) = self.slots.victim(&session.caller, USED_BIT | now, look) else { break };
            evicted.extend(self.remove_key(&id));
        }
        evicted
    }
}

fn slot_use(sessions: &HashMap<SessionKey, Arc<Session>, RandomState>, id: &SessionKey) -> SlotUse {
    sessions.get(id).map_or(SlotUse::Gone, |session| session.slot_use())
}

/// Logs that the table is full.
fn log_full_table(session: &Session, evicted: usize, has_slot: bool) {
    static LINE: LogThrottle = LogThrottle::new();
    if (evicted > 0 || !has_slot) && LINE.is_due() {
        let caller = &session.caller;
        match has_slot {
            true => tracing::warn!(?caller, "evicting idle sessions: the session table is full"),
            false => tracing::warn!(?caller, "refusing a session: the session table is full"),
        }
    }
}

/// Removes expired sessions at intervals, until the table is empty or the server stops.
async fn sweep_loop(sessions: Weak<SessionManager>, shutdown: Shutdown) {
    let [least, most] = SWEEP_INTERVALS;
    loop {
        let Some(idle) = sessions.upgrade().map(|it| it.common.limits.session_idle) else { return };
        tokio::select! {
            () = sleep((idle / 8).clamp(least, most)) => {}
            () = shutdown.stopped() => {}
        }
        let Some(sessions) = sessions.upgrade() else { return };
        if shutdown.is_stopped() {
            return sessions.shut_down();
        }
        if !sessions.sweep() {
            return;
        }
    }
}

/// Returns the key of the session id that a client sent.
fn session_key(name: &[u8]) -> Option<SessionKey> {
    name.try_into().ok()
}

/// Decodes a key of 64 hexadecimal digits, as stores have it.
fn decode_key(key: &str) -> Option<SessionKey> {
    let (first, second) = key.split_at_checked(32).filter(|(_, second)| second.len() == 32)?;
    let mut id = SessionKey::default();
    for (half, digits) in id.chunks_exact_mut(16).zip([first, second]) {
        half.copy_from_slice(&u128::from_str_radix(digits, 16).ok()?.to_be_bytes());
    }
    Some(id)
}
