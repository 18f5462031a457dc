//! Use of a session: guards count what uses it, and without any it expires after `HttpLimits::session_idle`.

use std::{
    ops::Deref,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use crate::server::{http::session::live_session::Session, limits::fair_eviction::SlotUse};

impl Session {
    /// Returns the use of the session's slot in the table.
    pub(crate) fn slot_use(&self) -> SlotUse {
        match self.is_in_use() {
            true => SlotUse::Busy,
            false => SlotUse::Idle(self.last_used.load(Ordering::Acquire)),
        }
    }

    /// Returns true while a request, a call or a response uses the session.
    pub(crate) fn is_in_use(&self) -> bool {
        self.guards.load(Ordering::Acquire) > 0
    }

    /// Returns the time since the last use.
    pub(crate) fn idle(&self) -> Duration {
        if self.guards.load(Ordering::Acquire) > 0 {
            return Duration::ZERO;
        }
        let last_used = self.last_used.load(Ordering::Acquire);
        Duration::from_millis(self.common.now().saturating_sub(last_used))
    }

    pub(crate) fn is_expired(&self) -> bool {
        self.idle() >= self.common.limits.session_idle
    }
}

/// Marks the session as in use while it exists, so that the session does not expire.
pub(crate) struct SessionGuard(Arc<Session>);

impl SessionGuard {
    pub(crate) fn new(session: Arc<Session>) -> Self {
        session.guards.fetch_add(1, Ordering::AcqRel);
        SessionGuard(session)
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.0
    }
}

impl Clone for SessionGuard {
    fn clone(&self) -> Self {
        SessionGuard::new(self.0.clone())
    }
}

impl Deref for SessionGuard {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.0
    }
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        self.last_used.store(self.common.now(), Ordering::Release);
        self.guards.fetch_sub(1, Ordering::AcqRel);
    }
}
