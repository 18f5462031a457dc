//! How to get in.
