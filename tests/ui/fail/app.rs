use wharf::prelude::*;

#[tool(app = "https://example.com/weather")]
fn wrong_scheme() {}

#[tool(app)]
fn no_uri() {}

#[tool(app = "ui://weather", visibility = "user")]
fn unknown_caller() {}

#[tool(app = "ui://weather", visibility = [])]
fn no_caller() {}

#[tool(app = "ui://weather", visibility)]
fn no_value() {}

#[resource("demo://x", app = "ui://weather")]
fn of_another_kind() -> String {
    String::new()
}

fn main() {}
