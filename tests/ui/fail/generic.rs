use wharf::prelude::*;

#[tool]
async fn echo<T: ToString>(value: T) -> String {
    value.to_string()
}

#[prompt]
fn sized<const N: usize>() -> String {
    N.to_string()
}

#[tool]
fn borrowed<'a>(text: std::borrow::Cow<'a, str>) -> String {
    text.into_owned()
}

fn main() {}
