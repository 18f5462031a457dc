//! JSON types that stay text until they are read.

pub(crate) mod lazy;
pub(crate) mod object;
pub(crate) mod text;
pub(crate) mod unknown_fields;
