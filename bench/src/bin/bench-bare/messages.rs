//! Message types. Incoming messages borrow from the input.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

#[derive(Deserialize)]
pub(crate) struct Message<'a> {
    #[serde(borrow)]
    pub(crate) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) method: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(crate) struct Call<'a> {
    #[serde(borrow)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) arguments: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    pub(crate) meta: Option<Meta<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct Meta<'a> {
    #[serde(borrow, rename = "progressToken")]
    pub(crate) progress_token: Option<&'a RawValue>,
    /// Only modern requests have one.
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    pub(crate) version: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(crate) struct EchoArgs<'a> {
    #[serde(borrow)]
    pub(crate) text: Cow<'a, str>,
}

#[derive(Deserialize)]
pub(crate) struct AddArgs {
    pub(crate) a: i64,
    pub(crate) b: i64,
}

#[derive(Deserialize)]
pub(crate) struct NumberArgs {
    pub(crate) n: i64,
}

#[derive(Serialize)]
pub(crate) struct Reply<'a, T> {
    jsonrpc: &'static str,
    id: &'a RawValue,
    result: T,
}

impl<'a, T> Reply<'a, T> {
    pub(crate) fn new(id: &'a RawValue, result: T) -> Self {
        Reply { jsonrpc: "2.0", id, result }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolResult<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    result_type: Option<&'static str>,
    content: [Text<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<Number>,
}

impl<'a> ToolResult<'a> {
    pub(crate) fn new(text: &'a str, structured_content: Option<Number>, modern: bool) -> Self {
        ToolResult {
            result_type: modern.then_some("complete"),
            content: [Text { r#type: "text", text }],
            structured_content,
        }
    }
}

#[derive(Serialize)]
struct Text<'a> {
    r#type: &'static str,
    text: &'a str,
}

#[derive(Clone, Copy, Serialize)]
pub(crate) struct Number {
    pub(crate) result: i64,
}
