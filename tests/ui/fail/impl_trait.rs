use wharf::prelude::*;

#[tool]
async fn echo(value: impl ToString) -> String {
    value.to_string()
}

#[tool]
async fn join(values: Vec<impl ToString>) -> String {
    values.len().to_string()
}

fn main() {}
