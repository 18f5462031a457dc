//! Arguments of tools and prompts, as the command line gives them.

mod schema;
mod typed;
mod words;

pub(crate) use schema::{Schema, plain};
pub(crate) use typed::{arguments, boolean, integer, number, signature};
pub(crate) use words::{Word, read_words, stdin};
