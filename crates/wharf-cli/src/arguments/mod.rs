//! Arguments of tools and prompts on the command line.

mod convert;
mod parse;
mod schema;

pub(crate) use crate::arguments::convert::{arguments, boolean, integer, number, signature};
pub(crate) use crate::arguments::parse::{CliArgument, parse_arguments, stdin};
pub(crate) use schema::{Schema, plain};
