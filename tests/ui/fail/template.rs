use wharf::prelude::*;

#[resource("weather://{city}/{day}")]
async fn forecast(city: String, date: String) -> String {
    format!("{city} {date}")
}

#[resource("notes://today")]
async fn today(name: String) -> String {
    name
}

#[resource("files://{+path}{?line}")]
async fn file() -> String {
    String::new()
}

#[resource("kinds://{type}")]
async fn kind(#[serde(rename = "kind")] r#type: String) -> String {
    r#type
}

fn main() {}
