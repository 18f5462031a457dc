use schemars::JsonSchema;
use serde::Deserialize;
use wharf::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Sum {
    a: i64,
    b: i64,
}

#[tool]
fn beside(Args(sum): Args<Sum>, c: i64) -> i64 {
    sum.a + sum.b + c
}

#[tool]
fn twice(Args(one): Args<Sum>, Args(two): Args<Sum>) -> i64 {
    one.a + one.b + two.a + two.b
}

fn main() {}
