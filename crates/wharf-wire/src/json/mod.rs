//! JSON scanning, field location and writing without building a tree.

pub(crate) mod field_spans;
pub(crate) mod scanner;
pub(crate) mod writer;
