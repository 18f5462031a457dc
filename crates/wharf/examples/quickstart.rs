//! The smallest complete server.
use wharf::prelude::*;

/// Adds two numbers.
#[tool]
async fn add(a: i64, b: i64) -> i64 {
    a + b
}

#[tokio::main]
async fn main() -> wharf::Result<()> {
    Server::new("adder", "1.0.0").tool::<add>().run().await
}
