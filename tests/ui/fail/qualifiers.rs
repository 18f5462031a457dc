use wharf::prelude::*;

#[tool]
unsafe fn dangerous() {}

#[tool]
extern "C" fn foreign() {}

#[prompt]
const fn fixed() -> &'static str {
    "fixed"
}

fn main() {}
