use wharf::prelude::*;

async fn add(a: i64, b: i64) -> i64 {
    a + b
}

#[prompt]
async fn review(code: String) -> String {
    code
}

fn main() {
    let _ = Server::new("demo", "1.0.0").tool::<add>();
    let _ = Server::new("demo", "1.0.0").tool::<review>();
}
