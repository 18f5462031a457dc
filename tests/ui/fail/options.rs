use wharf::prelude::*;

#[tool(readonly, mime = "text/plain")]
fn unknown() {}

#[prompt(destructive)]
fn of_another_kind() {}

#[resource("demo://x", colour = "red")]
fn unknown_on_resource() -> String {
    String::new()
}

#[tool(title = "One", read_only, title = "Two", read_only)]
fn twice() {}

#[tool(read_only, destructive, closed_world, open_world)]
fn contradicting() {}

#[tool(title, idempotent = true, name = 5, crate = "wharf")]
fn values() {}

#[tool(scope = 5)]
fn scoped() {}

#[tool("add")]
fn literal() {}

#[tool(cheap)]
async fn cheap_async() {}

#[tool(name "add")]
fn syntax() {}

fn main() {}
