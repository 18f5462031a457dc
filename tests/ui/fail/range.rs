use wharf::prelude::*;

#[tool]
fn upside_down(#[range(5..=1)] n: i64, #[range(-1..=-2)] m: i64) -> i64 {
    n + m
}

#[tool]
fn empty(#[range(3..3)] n: i64, #[range(1.5..1.0)] x: f64) -> f64 {
    x + n as f64
}

fn main() {}
