//! A mistake causes one message: the function and its type still exist.
use wharf::prelude::*;

#[tool(readonly)]
async fn add(a: i64, b: i64) -> i64 {
    a + b
}

#[resource("demo://{name}")]
async fn note() -> String {
    String::new()
}

fn main() {
    drop(add(1, 2));
    let _ = wharf::server::Router::builder().tool::<add>().resource::<note>();
}
