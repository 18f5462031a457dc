//! Who may call: every token that is good, and why each of the others is not.

mod bed;
mod dpop;
mod functions;
mod introspection;
mod jwt;
mod keys;
mod metadata;
