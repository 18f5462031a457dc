//! JSON that stays text until it is read.

pub(crate) mod lazy;
pub(crate) mod object;
pub(crate) mod text;
pub(crate) mod unknown_fields;
