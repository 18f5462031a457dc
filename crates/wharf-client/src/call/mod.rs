//! One call: its builder, its attempts, its events and its result.

pub(crate) mod any_method;
pub(crate) mod args;
pub(crate) mod backoff;
pub(crate) mod builder;
pub(crate) mod check_output;
pub(crate) mod events;
pub(crate) mod input_required;
pub(crate) mod options;
pub(crate) mod protocol_violation;
pub(crate) mod request;
pub(crate) mod result;
pub(crate) mod retry;
pub(crate) mod run;
pub(crate) mod total_timeout;
pub(crate) mod url_elicitation;
