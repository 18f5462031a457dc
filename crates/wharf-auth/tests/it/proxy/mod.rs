//! The OAuth proxy with a fake identity provider, clients, browsers and attackers.

mod browser_and_client;
mod clients;
mod consent;
mod documents;
mod flow;
mod tokens;
mod upstream;
