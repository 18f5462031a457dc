//! One call: its builder, its attempts, its events and its result.

pub(crate) mod any_method;
pub(crate) mod args;
pub(crate) mod builder;
pub(crate) mod deadline;
pub(crate) mod events;
pub(crate) mod options;
pub(crate) mod request;
pub(crate) mod result;
pub(crate) mod retry;
pub(crate) mod run;
pub(crate) mod url_elicitation;
