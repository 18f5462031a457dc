//! Authentication: who calls, and the traits that servers and clients implement for it.

pub(crate) mod authenticator;
pub(crate) mod caller;
pub(crate) mod credentials;
pub(crate) mod principal;
