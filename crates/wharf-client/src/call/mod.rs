//! One call: its builder, its attempts, its events and its result.
//!
//! # Retries
//!
//! Levels, the inner ones first. Within a message they add up; they do not multiply.
//!
//! | repeats | because of | at most | constant |
//! | --- | --- | --- | --- |
//! | one request | redirect within the origin (307, 308) | 5 for a message | `MAX_REDIRECTS` in `wharf-transport/src/client/http/send.rs` |
//! | one request | 401 or 403, after new credentials | 5 for a message | `MAX_AUTH_RETRIES` in `wharf-transport/src/client/http/auth.rs`; also `MAX_RETRIES` in `wharf-auth/src/client/token_manager.rs` |
//! | the message, in a new session | session that the server has lost (404): it ran nothing | 1 for a sending | `send_with_reopen` in `wharf-transport/src/client/http/reopen_session.rs` |
//! | the sending | broken connection, if the method or the tool is repeatable; connection that was not made, so nothing was sent | 2 for a call | `MAX_RETRIES` in `wharf-client/src/call/retry.rs` |
//! | the sending | `input_required`, deferral, required URL elicitation | `CallOptions::rounds` (8) of each for a call | `wharf-client/src/call/{run,url_elicitation}.rs` |
//! | the sending | tool that changed its parameters, or runs only as a task | 1 of each for a call | `wharf-client/src/call/retry.rs` |
//!
//! So a message is at most 1 + 5 + 5 = 11 requests, a sending two messages, and a call 1 + 2 + 3 · 8 + 2 = 29 sendings: **at most 638 requests carry one call**,
//! whatever the server does, and in practice one. A new session adds a handshake, whose messages have the same limit. Reading a reply again (`Last-Event-ID`) sends nothing twice; it is limited by
//! time, and by 8 failures in a row (`resume.rs`). Test: `wharf-transport/tests/it/client_http/bounded_retries.rs`.

pub(crate) mod any_method;
pub(crate) mod args;
pub(crate) mod backoff;
pub(crate) mod builder;
pub(crate) mod check_output;
pub(crate) mod events;
pub(crate) mod find_tool;
pub(crate) mod input_required;
pub(crate) mod options;
pub(crate) mod protocol_violation;
pub(crate) mod request;
pub(crate) mod result;
pub(crate) mod retry;
pub(crate) mod run;
pub(crate) mod total_timeout;
pub(crate) mod url_elicitation;
