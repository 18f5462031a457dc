//! Tables of the protocol revisions, and the translation between them.

pub mod error_codes_and_http_status;
pub(crate) mod fields;
pub(crate) mod protocol_info;
pub(crate) mod result_wrapper;
pub(crate) mod revision;
#[cfg(test)]
mod tests;
pub(crate) mod translate;

pub use self::error_codes_and_http_status as error_codes;
