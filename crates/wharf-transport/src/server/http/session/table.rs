//! The sessions of an endpoint, by their ids: how many there may be, and when they end unused.

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
        Sessions,
        id::unguessable,
        session::{Session, USED, Visit},
    },
};
use crate::{
    Shutdown,
    server::limits::fair_eviction::{Places, Use},
};

/// How often sessions are looked through, at most and at least, for those that have expired.
const SWEEPS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// Key of a session in the table: the 32 digits of its id, or the digest of the id where several processes share the
/// session through a store. Digits are not decoded, because that would cost each request more than the lookup does.
pub(crate) type Id = [u8; 32];

/// The sessions of an endpoint.
pub(crate) struct Table {
    sessions: HashMap<Id, Arc<Session>, RandomState>,
    places: Places<Id>,
    /// Whether somebody looks for those that have expired.
    swept: bool,
}

impl Sessions {
    /// Gives a session a place and an id that nobody can guess. None if there is no place left.
    pub(crate) fn insert(self: &Arc<Self>, session: &Arc<Session>) -> Option<String> {
        let name = unguessable()?;
        let id = id(name.as_bytes())?;
        self.admit(id, session).map(|_| name)
    }

    /// Gives a session a place. If somebody else did so meanwhile, that one counts. None if there
    /// is no place left.
    pub(super) fn admit(self: &Arc<Self>, id: Id, session: &Arc<Session>) -> Option<Arc<Session>> {
        let mut table = self.lock();
        if let Some(known) = table.sessions.get(&id) {
            return Some(known.clone());
        }
        let gone = table.make_room(session, self.common.now());
        let has_place = table.places.has_room(session.units());
        let mut sweep = false;
        if has_place {
            table.places.add(&session.caller, session.units(), self.common.now(), id);
            table.sessions.insert(id, session.clone());
            sweep = !std::mem::replace(&mut table.swept, true);
        }
        drop(table);
        note(session, gone.len(), has_place);
        gone.iter().for_each(|session| session.end());
        if sweep {
            let sweeping = sweep_up(Arc::downgrade(self), self.common.shutdown.clone());
            self.tasks.spawn(sweeping);
        }
        has_place.then(|| session.clone())
    }

    /// The session that this process has under a digest, and whether nobody used it here for so
    /// long that it may have ended.
    pub(super) fn known(&self, id: &Id) -> Option<(Visit, bool)> {
        let table = self.lock();
        let session = table.sessions.get(id)?;
        let idle = session.is_expired();
        Some((Visit::new(session.clone()), idle))
    }

    /// The session that the stores know by this key, if this process has it.
    pub(super) fn held(&self, key: &str) -> Option<Arc<Session>> {
        self.lock().sessions.get(&unhex(key)?).cloned()
    }

    pub(super) fn all_held(&self) -> Vec<Arc<Session>> {
        self.lock().sessions.values().cloned().collect()
    }

    /// Ends a session that the stores know no more by this key.
    pub(super) fn forget(&self, key: &str) {
        let session = unhex(key).and_then(|id| self.lock().take_out(&id));
        if let Some(session) = session {
            session.forget_stored();
            session.end();
        }
    }

    /// The session of this id, for whoever opened it. There is no telling apart why there is none.
    pub(crate) fn find(&self, name: &[u8], scope: &RequestExtensions) -> Option<Visit> {
        let id = id(name)?;
        let mut table = self.lock();
        let session = table.sessions.get(&id).filter(|session| session.belongs_to(scope))?;
        if !session.is_expired() {
            session.touch();
            return Some(Visit::new(session.clone()));
        }
        let session = table.take_out(&id)?;
        drop(table);
        session.end();
        None
    }

    /// Takes a session out of the table and ends it. False if it is out already.
    pub(crate) fn remove(&self, name: &[u8]) -> bool {
        let session = id(name).and_then(|id| self.lock().take_out(&id));
        session.inspect(|session| session.end()).is_some()
    }

    /// Ends the sessions that have expired. False if none is left.
    fn sweep(self: &Arc<Self>) -> bool {
        let mut table = self.lock();
        let gone = table.expired();
        table.swept = !table.sessions.is_empty();
        let swept = table.swept;
        let held = if self.fleet.is_some() {
            table.sessions.values().cloned().collect()
        } else {
            Vec::new()
        };
        drop(table);
        gone.iter().for_each(|session| session.end());
        self.touch_all(held);
        swept
    }

    /// Ends what would never end by itself, in every session.
    fn wind_up(&self) {
        let mut table = self.lock();
        table.swept = false;
        let sessions: Vec<_> = table.sessions.values().cloned().collect();
        drop(table);
        sessions.iter().for_each(|session| session.wind_up());
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls and followers know a session without its table.
impl Drop for Sessions {
    fn drop(&mut self) {
        let table = self.table.get_mut().unwrap_or_else(PoisonError::into_inner);
        table.sessions.values().for_each(|session| session.end());
    }
}

impl Table {
    /// A table with as much room as there may be sessions.
    pub(super) fn new(limits: &HttpLimits) -> Self {
        let most = limits.session_unit().saturating_mul(limits.sessions);
        Table { sessions: HashMap::default(), places: Places::new(most), swept: false }
    }

    fn expired(&mut self) -> Vec<Arc<Session>> {
        let expired = self.sessions.iter().filter(|(_, it)| it.is_expired());
        let expired: Vec<_> = expired.map(|(id, _)| *id).collect();
        expired.iter().filter_map(|id| self.take_out(id)).collect()
    }

    fn take_out(&mut self, id: &Id) -> Option<Arc<Session>> {
        let session = self.sessions.remove(id)?;
        let sessions = &self.sessions;
        self.places.remove(&session.caller, session.units(), |id| !sessions.contains_key(id));
        Some(session)
    }

    /// Takes out those sessions that must end so that there is a place for this one, as far as any may.
    fn make_room(&mut self, session: &Session, now: u64) -> Vec<Arc<Session>> {
        let mut gone = Vec::new();
        while !self.places.has_room(session.units()) {
            let sessions = &self.sessions;
            let look = |id: &Id| used_for(sessions, id);
            let Some(id) = self.places.victim(&session.caller, USED | now, look) else { break };
            gone.extend(self.take_out(&id));
        }
        gone
    }
}

fn used_for(sessions: &HashMap<Id, Arc<Session>, RandomState>, id: &Id) -> Use {
    sessions.get(id).map_or(Use::Gone, |session| session.used_for())
}

/// Tells the operator that sessions have to make room for others.
fn note(session: &Session, gone: usize, has_place: bool) {
    static LINE: LogThrottle = LogThrottle::new();
    if (gone > 0 || !has_place) && LINE.is_due() {
        let caller = &session.caller;
        match has_place {
            true => tracing::warn!(?caller, "the table of sessions is full: idle sessions end"),
            false => tracing::warn!(?caller, "the table of sessions is full: one was refused"),
        }
    }
}

/// Ends sessions as they expire, for as long as there are any.
async fn sweep_up(sessions: Weak<Sessions>, shutdown: Shutdown) {
    let [least, most] = SWEEPS;
    loop {
        let Some(idle) = sessions.upgrade().map(|it| it.common.limits.session_idle) else { return };
        tokio::select! {
            () = sleep((idle / 8).clamp(least, most)) => {}
            () = shutdown.stopped() => {}
        }
        let Some(sessions) = sessions.upgrade() else { return };
        if shutdown.is_stopped() {
            return sessions.wind_up();
        }
        if !sessions.sweep() {
            return;
        }
    }
}

/// Key of the session whose id a client sent.
fn id(name: &[u8]) -> Option<Id> {
    name.try_into().ok()
}

/// Decodes the 64 hexadecimal digits by which stores know a session.
fn unhex(key: &str) -> Option<Id> {
    let (first, second) = key.split_at_checked(32).filter(|(_, second)| second.len() == 32)?;
    let mut id = Id::default();
    for (half, digits) in id.chunks_exact_mut(16).zip([first, second]) {
        half.copy_from_slice(&u128::from_str_radix(digits, 16).ok()?.to_be_bytes());
    }
    Some(id)
}
