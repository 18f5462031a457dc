//! Authentication: principals, callers, and the traits that servers and clients implement.

pub(crate) mod authenticator;
pub(crate) mod caller;
pub(crate) mod credentials;
pub(crate) mod principal;
