//! The OAuth proxy with a fake identity provider, clients, browsers and attackers.

mod browser_and_client;
mod client_id_documents;
mod clients;
mod complete_flow;
mod consent;
mod idp_responses;
mod tokens;
