use wharf::prelude::*;

#[tool(timeout = "soon")]
fn words() {}

#[tool(timeout = "0s")]
fn nothing() {}

#[prompt(timeout = "30")]
fn no_unit() {}

#[resource("demo://x", timeout = 30)]
fn number() -> String {
    String::new()
}

fn main() {}
