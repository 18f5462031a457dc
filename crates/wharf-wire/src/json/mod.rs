//! JSON text: scanned, located and written without building a tree.

pub(crate) mod envelope;
pub(crate) mod scanner;
pub(crate) mod writer;
