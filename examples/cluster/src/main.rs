//! A cluster on one machine: `cargo run -p cluster` starts a Redis, three nodes and a balancer, gives them a
//! task, kills the node that runs it, and shows how another one takes it over.
//!
//! `node.rs` is what you would deploy; the rest is the stage around it.
#![forbid(unsafe_code)]

mod balancer;
mod log;
mod node;
mod redis;
mod show;
mod stage;

use std::env;

#[tokio::main]
async fn main() -> wharf::Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [] => show::run().await,
        // How the show starts its nodes: this program again.
        ["node", name, port, store] => node::run(name, port.parse()?, store).await,
        _ => Err(wharf::RunError::new("usage: cargo run -p cluster")),
    }
}
