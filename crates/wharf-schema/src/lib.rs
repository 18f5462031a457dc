//! JSON Schemas from elsewhere: bounded, checked, never fetched.
//!
//! What a server does before it offers a schema and what a client does with a schema it was
//! offered have most of their parts in common; those parts are here, with a validator of our own:
//! [`validate`].
#![forbid(unsafe_code)]

pub mod elicitation_form;
pub mod header;
pub mod lenient_json;
pub mod param_headers;
pub mod problems;
pub mod schema_limits;
pub mod tool_output;
pub mod validate;
