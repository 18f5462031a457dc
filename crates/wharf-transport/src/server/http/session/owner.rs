//! Owner of a session: the principal that opened it, or any unauthenticated caller if none did. The address of an
//! unauthenticated caller counts for limits only, because it may change.

use wharf_model::{Caller, Principal, RequestExtensions};

use crate::server::http::{
    HttpLimits,
    cluster::{digest, hex},
    session::live_session::Session,
};

/// Number of owners that unauthenticated callers are counted as in a store, by their addresses. Each may have this
/// fraction of `HttpLimits::anonymous_sessions`.
const ADDRESS_GROUPS: u16 = 16;
/// First character of an owner that is a group of addresses. No digest of a principal contains it.
const GROUP_MARK: char = '~';

impl Session {
    /// Returns true if the caller of this request owns the session.
    pub(crate) fn belongs_to(&self, scope: &RequestExtensions) -> bool {
        let opener = match &self.caller {
            Caller::Principal(id) => Some(&**id),
            Caller::Address(_) | Caller::Local => None,
        };
        opener == principal(scope)
    }
}

/// Returns the owner of a session in a store. It does not reveal the principal or the address.
pub(crate) fn stored(opener: &Caller) -> String {
    match opener {
        Caller::Principal(id) => stored_principal(id),
        _ => match opener.address_group(ADDRESS_GROUPS) {
            Some(group) => format!("{GROUP_MARK}{group:x}"),
            None => String::new(),
        },
    }
}

/// Returns true if the caller of this request owns the sessions of `owner` in a store.
pub(crate) fn owns_stored(scope: &RequestExtensions, owner: &str) -> bool {
    match principal(scope) {
        Some(id) => stored_principal(id) == owner,
        None => owner.is_empty() || owner.starts_with(GROUP_MARK),
    }
}

/// Maximum number of sessions in a store that have the owner of this one.
pub(crate) fn max_sessions(opener: &Caller, limits: &HttpLimits) -> usize {
    match opener {
        Caller::Principal(_) => limits.sessions,
        Caller::Address(_) => (limits.anonymous_sessions / usize::from(ADDRESS_GROUPS)).max(1),
        Caller::Local => limits.anonymous_sessions,
    }
}

fn stored_principal(id: &str) -> String {
    hex(&digest(id.as_bytes()))
}

/// Returns the authenticated principal of a request.
fn principal(scope: &RequestExtensions) -> Option<&str> {
    scope.get::<Principal>().map(Principal::id)
}
