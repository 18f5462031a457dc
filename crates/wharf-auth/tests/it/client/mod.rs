//! The OAuth client against fake servers: discovery, login, renewal and attacks.

mod authorization_code;
mod challenges;
mod dpop;
mod fake_servers;
mod grants_without_user;
mod hostile;
mod issuers;
mod renewal_and_logout;
mod resource_metadata;
mod stored_metadata;
