use wharf::prelude::*;

#[resource]
fn missing() -> String {
    String::new()
}

#[resource(mime = "text/plain", "demo://late")]
fn late() -> String {
    String::new()
}

#[resource("readme.md")]
fn no_scheme() -> String {
    String::new()
}

#[resource("demo://a b")]
fn space() -> String {
    String::new()
}

#[resource("demo://{name")]
fn open(name: String) -> String {
    name
}

#[resource("demo://{na-me}")]
fn bad_name(name: String) -> String {
    name
}

#[resource("demo://{name}", size = 10)]
fn sized(name: String) -> String {
    name
}

#[resource("demo://x", priority = 2.0, audience = "nobody", size = "big")]
fn annotations() -> String {
    String::new()
}

fn main() {}
