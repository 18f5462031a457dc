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

/// A session's id, as the client writes it.
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
        let mut table = self.lock();
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
        free.then_some(name)
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
    fn sweep(&self) -> bool {
        let mut table = self.lock();
        let gone = table.expired();
        table.swept = !table.sessions.is_empty();
        let swept = table.swept;
        drop(table);
        gone.iter().for_each(|session| session.end());
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
        let spare = |it: &&Arc<Session>| it.is_expired() || it.unused().is_some_and(|it| it > SAFE);
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
