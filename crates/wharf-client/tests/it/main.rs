//! Tests of the client through its public API, in one binary.
#![allow(clippy::unwrap_used)]

mod cache;
mod calls;
mod hostile_tasks;
mod in_process;
mod in_process_tasks;
mod input_required;
mod listen;
mod log_warnings;
mod output_schema;
mod pagination;
mod proxy;
mod proxy_tasks;
mod retries;
mod server_requests;
mod support;
mod task_handles;
mod tasks;
