//! Cluster on one machine: `cargo run -p cluster` starts Redis, three nodes and a load balancer, starts a task,
//! kills the node that runs it, and shows how another node resumes it.
//!
//! `node.rs` is the code to deploy; the other files run the demonstration.
#![forbid(unsafe_code)]

mod balancer;
mod demonstration;
mod lift_log;
mod node;
mod node_process;
mod redis;

use std::env;

#[tokio::main]
async fn main() -> wharf::Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [] => demonstration::run().await,
        // The demonstration starts this program again for each node.
        ["node", name, port, store] => node::run(name, port.parse()?, store).await,
        _ => Err(wharf::RunError::new("usage: cargo run -p cluster")),
    }
}
