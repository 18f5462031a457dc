//! Table of an endpoint's sessions: limits, eviction and expiry.

use std::{
    collections::HashMap,
    ops::Deref,
    sync::{Arc, MutexGuard, Weak},
    time::Duration,
};

use foldhash::fast::RandomState;
use tokio::time::sleep;
use wharf_model::{Lock, LogThrottle, RequestExtensions};

use crate::server::http::{
    HttpLimits,
    session::{
        id::random_id,
        idle_time::SessionGuard,
        live_session::{Session, SessionContext},
    },
};
use crate::{
    Shutdown,
    server::limits::fair_eviction::{SlotTable, SlotUse},
};

/// Shortest and longest interval between two searches for expired sessions and streams.
const SWEEP_INTERVALS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// Handshakes for which there is room beside a full table: a fraction of the number of sessions, and the least.
const HANDSHAKE_FRACTION: usize = 8;
const MIN_HANDSHAKES: usize = 8;

/// Key of a session in the table: the 32 digits of its id, or the digest of the id where several processes share the
/// session through a store. Digits are not decoded, because that would cost each request more than the lookup does.
pub(crate) type SessionKey = [u8; 32];

/// Sessions of an endpoint by key.
///
/// A session is in its handshake until the client sends a request with the session id. Sessions in the handshake and
/// established ones have separate slots, so neither kind is evicted for the other: a client has time to end its
/// handshake, and `initialize` requests alone evict no session in use. A session whose handshake ends moves to the
/// established slots, where it evicts another one if they are full.
pub(crate) struct SessionTable<S> {
    sessions: HashMap<SessionKey, S, RandomState>,
    established: SlotTable<SessionKey>,
    /// The limit is that of both kinds, so handshakes may use what established sessions leave.
    handshakes: SlotTable<SessionKey>,
    /// True while a task removes expired sessions.
    is_swept: bool,
}

/// Reason why the session of a request cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FindError {
    /// It never existed, has ended or belongs to another principal.
    NotFound,
    /// Its handshake cannot end, because all established sessions are in use.
    TableFull,
}

/// Result of adding a session to the slots of its kind.
struct Admission<S> {
    is_admitted: bool,
    /// Sessions that were evicted for it.
    evicted: Vec<S>,
}

/// Session as the table has it: alone, or with what belongs to its kind.
pub(crate) trait TableEntry:
    Clone + Deref<Target = Session> + Send + Sync + 'static
{
    /// Marks the session as in use.
    fn guard(&self) -> SessionGuard;

    /// Called after each removal of expired sessions.
    fn after_sweep(table: &Arc<SessionManager<Self>>);
}

/// Sessions of one endpoint in this process.
pub(crate) struct SessionManager<S: TableEntry> {
    pub(super) common: Arc<SessionContext>,
    table: Lock<SessionTable<S>>,
}

impl<S: TableEntry> SessionManager<S> {
    pub(super) fn new(common: Arc<SessionContext>) -> Arc<Self> {
        let table = Lock::new(SessionTable::new(&common.limits));
        Arc::new(SessionManager { common, table })
    }

    /// Inserts a session under a new random id. None if the table is full of sessions in use.
    pub(crate) fn insert(self: &Arc<Self>, session: &S) -> Option<String> {
        let name = random_id()?;
        let id = session_key(name.as_bytes())?;
        self.admit(id, session).map(|_| name)
    }

    /// Inserts a session, or returns the one that another request inserted under this key. None if the table is
    /// full of sessions in use.
    pub(super) fn admit(self: &Arc<Self>, id: SessionKey, session: &S) -> Option<S> {
        let mut table = self.lock();
        if let Some(known) = table.sessions.get(&id) {
            return Some(known.clone());
        }
        let admission = match session.is_established() {
            true => table.add_established(id, session, self.common.now()),
            false => table.add_handshake(id, session, self.common.now()),
        };
        let mut sweep = false;
        if admission.is_admitted {
            table.sessions.insert(id, session.clone());
            sweep = !std::mem::replace(&mut table.is_swept, true);
        }
        drop(table);
        if admission.is_admitted {
            session.report_start();
        }
        if let Some(tasks) = self.common.tasks.upgrade().filter(|_| sweep) {
            let sweeping = sweep_loop(Arc::downgrade(self), self.common.shutdown.clone());
            tasks.spawn(sweeping);
        }
        admission.finish(session).then(|| session.clone())
    }

    /// Ends the handshake of a session, at the first request with its id.
    #[cold]
    pub(super) fn establish(&self, id: &SessionKey, session: &Session) -> Result<(), FindError> {
        let mut table = self.lock();
        if session.is_established() {
            return Ok(());
        }
        // It may have been evicted before this request was counted as a use.
        if !table.sessions.contains_key(id) {
            return Err(FindError::NotFound);
        }
        let admission = table.add_established(*id, session, self.common.now());
        if admission.is_admitted {
            session.set_established();
            table.remove_handshake(session);
        }
        drop(table);
        if admission.finish(session) { Ok(()) } else { Err(FindError::TableFull) }
    }

    /// Finds a session in this process by the digest of its id. True if it was idle here for so long that it
    /// may have expired in the store.
    pub(super) fn find_local(&self, id: &SessionKey) -> Option<(S, SessionGuard, bool)> {
        let table = self.lock();
        let session = table.sessions.get(id)?;
        let idle = session.is_expired();
        Some((session.clone(), session.guard(), idle))
    }

    /// Finds a session in this process by its key in the store.
    pub(super) fn local_by_key(&self, key: &str) -> Option<S> {
        self.lock().sessions.get(&decode_key(key)?).cloned()
    }

    pub(super) fn all_local(&self) -> Vec<S> {
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
    pub(crate) fn find(
        &self,
        name: &[u8],
        scope: &RequestExtensions,
    ) -> Result<SessionGuard, FindError> {
        let id = session_key(name).ok_or(FindError::NotFound)?;
        let mut table = self.lock();
        let session = table.sessions.get(&id).filter(|session| session.belongs_to(scope));
        let session = session.ok_or(FindError::NotFound)?;
        if !session.is_expired() {
            let guard = session.guard();
            drop(table);
            if !guard.is_established() {
                self.establish(&id, &guard)?;
            }
            return Ok(guard);
        }
        let session = table.remove_key(&id);
        drop(table);
        session.inspect(|session| session.end_for("expired"));
        Err(FindError::NotFound)
    }

    /// Removes the session with this id for its owner, and ends it. False if there is none.
    pub(crate) fn remove(&self, name: &[u8], scope: &RequestExtensions) -> bool {
        let Some(id) = session_key(name) else { return false };
        let mut table = self.lock();
        if !table.sessions.get(&id).is_some_and(|session| session.belongs_to(scope)) {
            return false;
        }
        let session = table.remove_key(&id);
        drop(table);
        let was_alive = session.as_ref().is_some_and(|session| !session.is_expired());
        session.inspect(|session| session.end());
        was_alive
    }

    /// Ends expired sessions, and discards streams that are no longer kept for replay. False if the table is empty
    /// afterwards.
    fn sweep(self: &Arc<Self>) -> bool {
        let mut table = self.lock();
        let evicted = table.expired();
        table.is_swept = !table.sessions.is_empty();
        let is_swept = table.is_swept;
        drop(table);
        evicted.iter().for_each(|session| session.end_for("expired"));
        self.common.replay_budget.expire(self.common.now(), usize::MAX);
        S::after_sweep(self);
        is_swept
    }

    /// Ends every session, when the server has drained. Sessions in a store live on there.
    pub(super) fn end_all(&self) {
        let sessions: Vec<_> = self.lock().sessions.values().cloned().collect();
        sessions.iter().for_each(|session| session.end());
    }

    /// Ends the streams and client requests of every session on shutdown.
    fn shut_down(&self) {
        let mut table = self.lock();
        table.is_swept = false;
        let sessions: Vec<_> = table.sessions.values().cloned().collect();
        drop(table);
        sessions.iter().for_each(|session| session.shut_down());
    }

    fn lock(&self) -> MutexGuard<'_, SessionTable<S>> {
        self.table.lock()
    }
}

/// Calls and stream readers hold sessions without the table, so dropping the table ends the sessions.
impl<S: TableEntry> Drop for SessionManager<S> {
    fn drop(&mut self) {
        let table = self.table.get_mut();
        table.sessions.values().for_each(|session| session.end());
    }
}

impl<S: TableEntry> SessionTable<S> {
    /// Creates a table with the capacity that the limits give.
    pub(super) fn new(limits: &HttpLimits) -> Self {
        let unit = limits.session_unit();
        let most = unit.saturating_mul(limits.sessions);
        let reserve = (most / HANDSHAKE_FRACTION).max(unit.saturating_mul(MIN_HANDSHAKES));
        SessionTable {
            sessions: HashMap::default(),
            established: SlotTable::new(most),
            handshakes: SlotTable::new(most.saturating_add(reserve)),
            is_swept: false,
        }
    }

    fn expired(&mut self) -> Vec<S> {
        let expired = self.sessions.iter().filter(|(_, it)| it.is_expired());
        let expired: Vec<_> = expired.map(|(id, _)| *id).collect();
        expired.iter().filter_map(|id| self.remove_key(id)).collect()
    }

    fn remove_key(&mut self, id: &SessionKey) -> Option<S> {
        let session = self.sessions.remove(id)?;
        let sessions = &self.sessions;
        match session.is_established() {
            true => self
                .established
                .remove(&session.caller, session.units(), |id| !sessions.contains_key(id)),
            false => self.remove_handshake(&session),
        }
        Some(session)
    }

    fn remove_handshake(&mut self, session: &Session) {
        let sessions = &self.sessions;
        let is_gone = |id: &SessionKey| handshake_use(sessions, id) == SlotUse::Gone;
        self.handshakes.remove(&session.caller, session.units(), is_gone);
    }

    /// Adds a session to the established ones. The longest idle ones are evicted if they are full.
    fn add_established(&mut self, id: SessionKey, session: &Session, now: u64) -> Admission<S> {
        let (units, mut evicted) = (session.units(), Vec::new());
        while !self.established.has_room(units)
            && let Some(victim) = self.established_victim(session, now)
        {
            evicted.extend(self.remove_key(&victim));
        }
        let is_admitted = self.established.has_room(units);
        if is_admitted {
            self.established.add(&session.caller, units, now, id);
        }
        Admission { is_admitted, evicted }
    }

    /// Adds a session in the handshake. Older handshakes are evicted if the table is full.
    fn add_handshake(&mut self, id: SessionKey, session: &Session, now: u64) -> Admission<S> {
        let (units, mut evicted) = (session.units(), Vec::new());
        // Without an established session to evict, the client is refused now instead of at its next request.
        let can_end =
            self.established.has_room(units) || self.established_victim(session, now).is_some();
        while can_end && !self.has_room_for_handshake(units) {
            let sessions = &self.sessions;
            let look = |id: &SessionKey| handshake_use(sessions, id);
            let Some(victim) = self.handshakes.victim(&session.caller, now, look) else { break };
            evicted.extend(self.remove_key(&victim));
        }
        let is_admitted = can_end && self.has_room_for_handshake(units);
        if is_admitted {
            self.handshakes.add(&session.caller, units, now, id);
        }
        Admission { is_admitted, evicted }
    }

    fn has_room_for_handshake(&self, units: usize) -> bool {
        self.handshakes.has_room(units.saturating_add(self.established.used()))
    }

    fn established_victim(&mut self, session: &Session, now: u64) -> Option<SessionKey> {
        let sessions = &self.sessions;
        let look =
            |id: &SessionKey| sessions.get(id).map_or(SlotUse::Gone, |session| session.slot_use());
        self.established.victim(&session.caller, now, look)
    }
}

impl<S: TableEntry> Admission<S> {
    /// Ends the evicted sessions, without the lock of the table. Returns true if `session` was admitted.
    fn finish(self, session: &Session) -> bool {
        if !self.evicted.is_empty() {
            log_eviction(session);
        }
        self.evicted.iter().for_each(|session| session.end_for("evicted"));
        self.is_admitted
    }
}

/// Use of the slot of a session in the handshake. It is gone once the handshake has ended.
fn handshake_use<S: TableEntry>(
    sessions: &HashMap<SessionKey, S, RandomState>,
    id: &SessionKey,
) -> SlotUse {
    let session = sessions.get(id).filter(|session| !session.is_established());
    session.map_or(SlotUse::Gone, |session| session.slot_use())
}

/// Logs that idle sessions end for the session of this caller.
fn log_eviction(session: &Session) {
    static LINE: LogThrottle = LogThrottle::new();
    if let Some(suppressed) = LINE.due() {
        let caller = &session.caller;
        tracing::warn!(?caller, suppressed, "evicting idle sessions: the session table is full");
    }
}

/// Removes expired sessions at intervals, until the table is empty or the server stops.
async fn sweep_loop<S: TableEntry>(sessions: Weak<SessionManager<S>>, shutdown: Shutdown) {
    let [least, most] = SWEEP_INTERVALS;
    loop {
        let Some(limits) = sessions.upgrade().map(|it| it.common.limits) else { return };
        let shortest = limits.session_idle.min(limits.replay_time);
        tokio::select! {
            () = sleep((shortest / 8).clamp(least, most)) => {}
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
