use wharf::prelude::*;

#[tool]
fn completed(#[complete("a", "b")] letter: String) -> String {
    letter
}

#[prompt]
fn headed(#[header("Region")] region: String) -> String {
    region
}

#[tool]
fn not_a_header(#[header("Re gion")] region: String) -> String {
    region
}

#[prompt]
fn mixed(#[complete("a", letters)] letter: String, #[complete()] other: String) -> String {
    letter + &other
}

#[tool]
fn twice(
    #[default(1)]
    #[default(2)]
    n: i64,
) -> i64 {
    n
}

#[tool]
fn not_a_range(#[range(5)] n: i64, #[range(..)] m: i64) -> i64 {
    n + m
}

#[tool]
fn on_an_extractor(#[default(1)] ctx: Ctx) {
    drop(ctx);
}

#[tool]
fn conditional(#[cfg(unix)] n: i64) -> i64 {
    n
}

fn main() {}
