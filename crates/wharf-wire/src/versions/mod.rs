//! Tables of the protocol revisions, and the translation between them.

pub mod error_codes;
pub(crate) mod result_wrapper;
pub(crate) mod revision;
pub(crate) mod translate;
