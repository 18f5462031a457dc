use std::borrow::Cow;
use std::path::Path;

use wharf::prelude::*;

#[tool]
async fn shout(text: &str) -> String {
    text.to_uppercase()
}

#[tool]
fn sum(numbers: &[i64], label: Option<&'static str>) -> i64 {
    let _ = label;
    numbers.iter().sum()
}

#[prompt]
fn review(code: Cow<'_, str>, file: &Path) -> String {
    format!("{code} {}", file.display())
}

#[tool]
async fn report(ctx: &Ctx) {
    let _ = ctx;
}

fn main() {}
