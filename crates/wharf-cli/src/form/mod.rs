//! What a server asks of the user, at the terminal.

mod field;
mod fill;
mod page;

pub(crate) use fill::fill;
pub(crate) use page::{open, visit};
