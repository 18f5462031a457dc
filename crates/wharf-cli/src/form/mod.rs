//! Elicitation at the terminal.

mod field;
mod fill;
mod url_elicitation;

pub(crate) use crate::form::url_elicitation::{open, visit};
pub(crate) use fill::fill;
