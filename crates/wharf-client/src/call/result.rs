//! Converts results into the types that callers requested.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};
use wharf_model::{
    Completion, Content, Error, ErrorKind, FailureOrigin, PromptResult, ReadResult, Reply,
    ToolResult, excerpt,
};

use crate::{TaskHandle, call::builder::CallResult};

/// Error for a transport that returned the result of another method: a bug of the transport, but
/// not a reason to panic.
pub(crate) fn unexpected() -> Error {
    Error::new(ErrorKind::InternalError)
        .with_message(
            "The transport returned the result of another method: this is a bug of the transport",
        )
        .from_client(FailureOrigin::Protocol)
}

pub(crate) fn tool(done: CallResult) -> Result<ToolResult, Error> {
    match done {
        CallResult::Reply(Reply::Tool(result)) => Ok(result),
        _ => Err(unexpected()),
    }
}

pub(crate) fn task(done: CallResult) -> Result<TaskHandle, Error> {
    match done {
        CallResult::Task(handle) => Ok(handle),
        _ => Err(unexpected()),
    }
}

pub(crate) fn resource(done: CallResult) -> Result<ReadResult, Error> {
    match done {
        CallResult::Reply(Reply::Read(result)) => Ok(result),
        _ => Err(unexpected()),
    }
}

pub(crate) fn prompt(done: CallResult) -> Result<PromptResult, Error> {
    match done {
        CallResult::Reply(Reply::Prompt(result)) => Ok(result),
        _ => Err(unexpected()),
    }
}

pub(crate) fn completion(done: CallResult) -> Result<Completion, Error> {
    match done {
        CallResult::Reply(Reply::Completion(result)) => Ok(result),
        _ => Err(unexpected()),
    }
}

/// The result of any method as the caller's type.
pub(crate) fn value<T: DeserializeOwned>(done: CallResult) -> Result<T, Error> {
    let json: &str = match &done {
        CallResult::Raw(result) => result.get(),
        CallResult::Reply(Reply::Custom(result)) => result.get(),
        _ => return Err(unexpected()),
    };
    serde_json::from_str(json).map_err(|error| {
        let message =
            format!("The result does not match the requested type: {error}: {}", excerpt(json));
        mismatch(message).with_source(error)
    })
}

pub(crate) fn raw(done: CallResult) -> Result<Box<RawValue>, Error> {
    match done {
        CallResult::Raw(result) => Ok(result),
        _ => Err(unexpected()),
    }
}

/// Structured content that is not an object, as revisions before 2026-07-28 carry it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound = "T: DeserializeOwned")]
struct WrappedResult<T> {
    result: T,
}

pub(crate) fn tool_as<T: DeserializeOwned>(done: CallResult) -> Result<T, Error> {
    let result = tool(done)?;
    let texts: Vec<&str> = result.content.iter().filter_map(Content::as_text).collect();
    if result.is_error {
        let message = match texts[..] {
            [] => ErrorKind::ToolExecutionFailed.message().to_owned(),
            _ => texts.join("\n"),
        };
        return Err(Error::new(ErrorKind::ToolExecutionFailed).with_message(message));
    }
    if let Some(structured) = &result.structured {
        let json = structured.get();
        let unwrapped = || serde_json::from_str::<WrappedResult<T>>(json).map(|it| it.result);
        return serde_json::from_str(json)
            .or_else(|error| unwrapped().map_err(|_| type_mismatch(error, json)));
    }
    if result.content.is_empty() {
        return serde_json::from_value(Value::Null).map_err(|error| type_mismatch(error, ""));
    }
    let [text] = texts[..] else {
        let message = format!(
            "The tool returned no structured content and {} texts, so there is no single value to \
             deserialize: use `call` for the whole result",
            texts.len()
        );
        return Err(mismatch(message));
    };
    // Many tools write JSON into their text content, others plain text.
    serde_json::from_str(text).or_else(|error| {
        serde_json::from_value(Value::from(text)).map_err(|_| type_mismatch(error, text))
    })
}

fn type_mismatch(error: serde_json::Error, text: &str) -> Error {
    let message =
        format!("The tool's result does not match the requested type: {error}: {}", excerpt(text));
    mismatch(message).with_source(error)
}

fn mismatch(message: String) -> Error {
    let error = Error::new(ErrorKind::ValidationFailed).with_message(message);
    error.from_client(FailureOrigin::Protocol)
}
