//! Lists of tools, resources and prompts.

use rmcp::model::{Prompt, Resource, ResourceTemplate, Tool};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::CLOCK;

/// Tools with their arguments and types.
const TOOLS: [(&str, &[(&str, &str)]); 13] = [
    ("add", &[("a", "integer"), ("b", "integer")]),
    ("echo", &[("text", "string")]),
    ("fail", &[("reason", "string")]),
    ("weather", &[("city", "string")]),
    ("countdown", &[("steps", "integer")]),
    ("sleep", &[("seconds", "number")]),
    ("cancelled", &[]),
    ("deploy", &[("build", "string")]),
    ("sign_in", &[]),
    ("poem", &[("topic", "string")]),
    ("workspace", &[]),
    ("set_bonus", &[("on", "boolean")]),
    ("touch", &[]),
];

pub(crate) fn tools(bonus: bool) -> Vec<Tool> {
    let bonus: &[(&str, &[(&str, &str)])] = if bonus { &[("bonus", &[])] } else { &[] };
    TOOLS.iter().chain(bonus).map(|(name, arguments)| typed(tool(name, arguments))).collect()
}

fn tool(name: &str, arguments: &[(&str, &str)]) -> Value {
    let mut tool = json!({ "name": name, "description": name, "inputSchema": object(arguments) });
    match name {
        "add" => tool["annotations"] = json!({ "readOnlyHint": true }),
        "weather" => {
            tool["outputSchema"] =
                object(&[("city", "string"), ("celsius", "number"), ("sky", "string")]);
        }
        _ => {}
    }
    tool
}

fn object(properties: &[(&str, &str)]) -> Value {
    let names: Vec<&str> = properties.iter().map(|(name, _)| *name).collect();
    let types: serde_json::Map<_, _> = properties
        .iter()
        .map(|(name, kind)| ((*name).to_owned(), json!({ "type": kind })))
        .collect();
    json!({ "type": "object", "properties": types, "required": names })
}

pub(crate) fn resources() -> Vec<Resource> {
    let of = |(uri, name)| typed(json!({ "uri": uri, "name": name, "mimeType": "text/plain" }));
    [("demo://readme", "readme"), (CLOCK, "clock")].map(of).into()
}

pub(crate) fn templates() -> Vec<ResourceTemplate> {
    vec![typed(json!({ "uriTemplate": "demo://notes/{name}", "name": "notes" }))]
}

pub(crate) fn prompts() -> Vec<Prompt> {
    let greet = json!({ "name": "greet", "arguments": [{ "name": "name", "required": true }] });
    let review = json!({
        "name": "review",
        "arguments": [{ "name": "code", "required": true }, { "name": "language" }],
    });
    vec![typed(greet), typed(review)]
}

fn typed<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("it is written as rmcp wants it")
}
