//! Write a tool once, as a plain function; serve it to every MCP client
#![forbid(unsafe_code)]
