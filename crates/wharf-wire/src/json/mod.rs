//! JSON scanning, field location and writing without building a tree.

pub(crate) mod envelope;
pub(crate) mod scanner;
pub(crate) mod writer;
