use wharf::prelude::*;

#[tool(task = "maybe")]
async fn unknown_mode() {}

#[tool(task = true)]
async fn not_a_text() {}

#[tool(after = "30s")]
async fn when_but_not_whether() {}

#[tool(task, after = "soon")]
async fn not_a_time() {}

#[tool(task, after)]
async fn no_time() {}

#[tool(task = "forbidden", after = "30s")]
async fn never_and_later() {}

#[tool(task, task = "required")]
async fn twice() {}

#[prompt(task)]
async fn not_a_tool() -> String {
    String::new()
}

fn main() {}
