//! Bytes to model and back, for every revision of the Model Context Protocol, without I/O
#![forbid(unsafe_code)]
