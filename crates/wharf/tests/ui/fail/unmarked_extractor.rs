use wharf::prelude::*;

#[derive(Clone)]
struct Db;

type Shared = State<Db>;

#[tool]
async fn through_an_alias(shared: Shared) {
    drop(shared);
}

fn main() {}
