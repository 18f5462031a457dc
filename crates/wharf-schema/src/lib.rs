//! JSON Schemas from untrusted sources: size limits, validation, no network access.
//!
//! A server before it publishes a schema and a client that receives one share most of the checks.
//! This crate contains these checks and its own validator, [`validate`].
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod client_output_validator;
pub mod elicitation_form;
pub mod header_annotations;
pub mod lenient_json;
pub mod param_headers;
pub mod problem_report;
pub mod schema_problems;
pub mod validate;
