use axum::extract::State;
use wharf::prelude::*;

#[derive(Clone)]
struct Db;

#[tool]
async fn count(State(db): State<Db>, n: i64) -> i64 {
    drop(db);
    n
}

#[resource("demo://{name}")]
fn read(name: String, state: State<Db>) -> String {
    drop(state);
    name
}

#[prompt]
async fn greet(ctx: Ctx, state: State<Db>) -> String {
    drop((ctx, state));
    "Greet.".into()
}

/// axum's extractor, not Wharf's.
type Shared = State<Db>;

#[tool]
async fn through_an_alias(#[extract] State(db): Shared) {
    drop(db);
}

fn main() {}
