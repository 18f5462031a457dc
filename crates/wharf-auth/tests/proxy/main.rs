//! The OAuth proxy, with an identity provider, clients, browsers and attackers of the tests' own.

mod clients;
mod consent;
mod flow;
mod idp;
mod tokens;
mod upstream;
mod world;
