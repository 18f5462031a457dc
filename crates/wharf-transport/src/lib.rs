//! Byte movers for Wharf: stdio, in-memory, TCP and Unix-socket lines
#![forbid(unsafe_code)]
