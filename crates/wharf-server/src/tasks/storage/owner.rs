//! Owner of a task: the principal, or the group of an unauthenticated caller's address.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};
use wharf_model::{Caller, Principal, Request};

/// Number of owners that unauthenticated callers are counted as, by their addresses.
const ADDRESS_GROUPS: u16 = 4096;
/// First character of an owner that is a group of addresses. No digest of a principal contains it.
const GROUP_MARK: char = '~';

/// Owner that a new task of this caller is stored and counted under. Unauthenticated callers are
/// counted by address, so that one of them cannot use up the tasks of all.
pub(crate) fn owner_of(request: &Request) -> String {
    match request.principal() {
        Some(principal) => principal_owner(principal),
        None => match Caller::of(&request.scope).address_group(ADDRESS_GROUPS) {
            Some(group) => format!("{GROUP_MARK}{group:03x}"),
            None => String::new(),
        },
    }
}

/// True if a caller with this principal may access the tasks of `owner`. All unauthenticated callers
/// are one identity: the address counts for limits only, because it may change.
pub(crate) fn is_owner(caller: Option<&Principal>, owner: &str) -> bool {
    match caller {
        Some(principal) => principal_owner(principal) == owner,
        None => owner.is_empty() || owner.starts_with(GROUP_MARK),
    }
}

/// Caller whose share the running tasks of this owner are counted in.
pub(crate) fn counted_caller(owner: &str) -> Caller {
    if owner.is_empty() { Caller::Local } else { Caller::Principal(owner.into()) }
}

/// Owner of a principal's tasks: a digest, so that the store does not learn the principal.
pub(crate) fn principal_owner(principal: &Principal) -> String {
    let hash = Sha256::new().chain_update("wharf task owner\0").chain_update(principal.id());
    BASE64_URL_SAFE_NO_PAD.encode(hash.finalize())
}
