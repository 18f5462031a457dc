use std::rc::Rc;

use wharf::prelude::*;

struct Opaque;

#[tool]
async fn unknown_answer(n: i64) -> Opaque {
    drop(n);
    Opaque
}

#[resource("demo://x")]
fn unknown_contents() -> Result<Opaque, wharf::Error> {
    Ok(Opaque)
}

#[prompt]
async fn not_send(text: String) -> String {
    let shared = Rc::new(text);
    std::future::ready(()).await;
    shared.to_uppercase()
}

fn main() {}
