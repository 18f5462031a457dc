//! JSON Schemas from elsewhere: bounded, checked, never fetched.
#![forbid(unsafe_code)]
