use wharf::prelude::*;

/// Error type that does not implement `std::error::Error`.
struct No;

#[tool]
fn fails() -> Result<String, String> {
    Err("no".into())
}

#[tool]
async fn fails_later() -> Result<String, No> {
    Err(No)
}

#[resource("x://y")]
fn unreadable() -> Result<String, String> {
    Err("no".into())
}

#[prompt]
fn unsaid() -> Result<String, No> {
    Err(No)
}

fn main() {}
