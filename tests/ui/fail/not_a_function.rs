use wharf::prelude::*;

#[tool]
struct Add {
    a: i64,
}

#[resource("demo://x")]
const X: &str = "x";

fn main() {
    let _ = (Add { a: 1 }.a, X);
}
