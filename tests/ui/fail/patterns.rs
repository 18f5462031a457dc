use wharf::prelude::*;

struct Point {
    x: i64,
}

struct Json2<T>(T);

#[tool]
fn tuple((a, b): (i64, i64)) -> i64 {
    a + b
}

#[tool]
fn unnamed(_: String) {}

#[tool]
fn structure(Point { x }: Point) -> i64 {
    x
}

#[tool]
fn newtype(Json2(x): Json2<i64>) -> i64 {
    x
}

fn main() {}
