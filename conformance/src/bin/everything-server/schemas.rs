//! Tools for scenarios about input schemas.

use serde_json::{Value, json};
use wharf::prelude::*;

pub(crate) fn tools(server: Server) -> Server {
    let contact = Tool::dynamic("json_schema_2020_12_tool", contact_schema(), echo)
        .description("Returns contact data; its schema uses most of JSON Schema 2020-12.")
        .read_only();
    server.add(contact).tool::<test_custom_header>()
}

async fn echo(RawArgs(arguments): RawArgs) -> String {
    format!("Received {}", arguments.get())
}

/// Clients must receive the schema unchanged.
fn contact_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
            },
        },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": {
            "properties": { "contactMethod": { "const": "phone" } },
            "required": ["contactMethod"],
        },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}

/// Returns its argument, which modern clients also send in a header. The only tool with a header.
#[tool(read_only)]
async fn test_custom_header(
    /// The text to return.
    #[header("Value")]
    value: String,
) -> String {
    value
}
