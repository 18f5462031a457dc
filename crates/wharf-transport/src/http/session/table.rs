//! The sessions of an endpoint, by their ids: how many there may be, and when they end unused.

use std::{
    collections::HashMap,
    sync::{Arc, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use foldhash::fast::RandomState;
use tokio::time::sleep;
use wharf_model::Scope;

use super::{
    super::ids::unguessable,
    Sessions,
    life::{Session, Visit},
};
use crate::Shutdown;

/// How long a session that nobody came back to is safe when there is no place for another.
const SAFE: Duration = Duration::from_secs(30);
/// How often sessions are looked through, at most and at least, for those that have expired.
const SWEEPS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// A session's id, as the client writes it, or its digest where stores know it by that.
type Id = [u8; 32];

/// The sessions of an endpoint.
#[derive(Default)]
pub(crate) struct Table {
    sessions: HashMap<Id, Arc<Session>, RandomState>,
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
        let full = table.sessions.len() >= self.common.limits.sessions;
        let gone = if full { table.evict() } else { None };
        let free = table.sessions.len() < self.common.limits.sessions;
        let mut sweep = false;
        if free {
            table.sessions.insert(id, session.clone());
            sweep = !std::mem::replace(&mut table.swept, true);
        }
        drop(table);
        if let Some(session) = gone {
            session.end();
        }
        if sweep {
            let sweeping = sweep_up(Arc::downgrade(self), self.common.shutdown.clone());
            self.tasks.spawn(sweeping);
        }
        free.then(|| session.clone())
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
        let session = unhex(key).and_then(|id| self.lock().sessions.remove(&id));
        if let Some(session) = session {
            session.forget_stored();
            session.end();
        }
    }

    /// The session of this id, for whoever opened it. There is no telling apart why there is none.
    pub(crate) fn find(&self, name: &[u8], scope: &Scope) -> Option<Visit> {
        let id = id(name)?;
        let mut table = self.lock();
        let session = table.sessions.get(&id).filter(|session| session.belongs_to(scope))?;
        if !session.is_expired() {
            session.touch();
            return Some(Visit::new(session.clone()));
        }
        let session = table.sessions.remove(&id)?;
        drop(table);
        session.end();
        None
    }

    /// Takes a session out of the table and ends it. False if it is out already.
    pub(crate) fn remove(&self, name: &[u8]) -> bool {
        let session = id(name).and_then(|id| self.lock().sessions.remove(&id));
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
    fn expired(&mut self) -> Vec<Arc<Session>> {
        self.sessions.extract_if(|_, it| it.is_expired()).map(|(_, session)| session).collect()
    }

    /// Takes out the session that was idle for longest, of those that have expired or that nobody
    /// came back to.
    fn evict(&mut self) -> Option<Arc<Session>> {
        // Other processes have those that they serve too, and this one can have them again.
        let cached = |it: &Arc<Session>| it.member.is_some() && !it.is_in_use();
        let unused = |it: &Arc<Session>| it.unused().is_some_and(|it| it > SAFE);
        let spare = |it: &&Arc<Session>| it.is_expired() || unused(it) || cached(it);
        let spare = self.sessions.iter().filter(|(_, it)| spare(it));
        let id = *spare.max_by_key(|(_, it)| it.idle())?.0;
        self.sessions.remove(&id)
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

fn id(name: &[u8]) -> Option<Id> {
    name.try_into().ok()
}

/// The digest that these are the digits of.
fn unhex(key: &str) -> Option<Id> {
    let mut id = [0; 32];
    if !key.is_ascii() || key.len() != 2 * id.len() {
        return None;
    }
    for (byte, digits) in id.iter_mut().zip(key.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(id)
}
