//! Return types of tools.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use wharf_model::{Content, Error, ErrorKind, Outcome, ToolResult};

use crate::{
    handler::{ReturnConverter, extract::Incoming, tool_error::IntoToolError},
    schema,
};

/// Serializable value. A tool returns it as structured content with an output schema, and as JSON
/// text; a resource as JSON text; a prompt as a message with JSON text.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; }
/// use wharf::{Json, Tool};
///
/// #[derive(serde::Serialize, schemars::JsonSchema)]
/// struct Sum { sum: i64 }
///
/// let tool = Tool::new("two", async || Json(Sum { sum: 1 + 1 }));
/// assert_eq!(tool.info().output_schema.as_ref().unwrap()["type"], "object");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Json<T>(pub T);

/// Type that a tool can return.
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    label = "not an outcome of a tool",
    note = "return text, a number, `Content` or a list of it, `Json<T>` of anything serializable \
            with a `JsonSchema`, `ToolResult`, `()`, or a `Result` of these"
)]
pub trait IntoToolOutcome {
    /// Converts to the outcome of the call.
    fn into_tool_outcome(self) -> Outcome;

    /// Returns the JSON Schema of the structured content, if there is any.
    #[must_use]
    fn output_schema() -> Option<Value> {
        None
    }

    /// Returns whether results can have content for the model.
    #[must_use]
    fn has_content() -> bool {
        true
    }
}

macro_rules! as_text {
    ($($T:ty)*) => {
        $(impl IntoToolOutcome for $T {
            fn into_tool_outcome(self) -> Outcome {
                ToolResult::text(self.to_string()).into()
            }
        })*
    };
}

as_text! { i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64 bool char }

macro_rules! into_text {
    ($($T:ty)*) => {
        $(impl IntoToolOutcome for $T {
            fn into_tool_outcome(self) -> Outcome {
                ToolResult::text(self).into()
            }
        })*
    };
}

into_text! { String &'static str Box<str> Cow<'static, str> }

impl IntoToolOutcome for () {
    fn into_tool_outcome(self) -> Outcome {
        ToolResult::default().into()
    }

    fn has_content() -> bool {
        false
    }
}

impl IntoToolOutcome for ToolResult {
    fn into_tool_outcome(self) -> Outcome {
        self.into()
    }
}

impl IntoToolOutcome for Content {
    fn into_tool_outcome(self) -> Outcome {
        ToolResult::new([self]).into()
    }
}

impl IntoToolOutcome for Vec<Content> {
    fn into_tool_outcome(self) -> Outcome {
        ToolResult::new(self).into()
    }
}

impl<const N: usize> IntoToolOutcome for [Content; N] {
    fn into_tool_outcome(self) -> Outcome {
        ToolResult::new(self).into()
    }
}

impl<T: Serialize + JsonSchema> IntoToolOutcome for Json<T> {
    fn into_tool_outcome(self) -> Outcome {
        match ToolResult::json(&self.0) {
            Ok(result) => result.into(),
            Err(error) => unserializable(&error).into(),
        }
    }

    fn output_schema() -> Option<Value> {
        schema::derive::output::<T>()
    }
}

impl<T: IntoToolOutcome, E: IntoToolError> IntoToolOutcome for Result<T, E> {
    fn into_tool_outcome(self) -> Outcome {
        match self {
            Ok(value) => value.into_tool_outcome(),
            Err(error) => error.into_tool_error().into_outcome(),
        }
    }

    fn output_schema() -> Option<Value> {
        T::output_schema()
    }

    fn has_content() -> bool {
        T::has_content()
    }
}

/// Logs that the handler's value cannot be serialized as JSON. The client receives only an internal
/// error.
pub(crate) fn unserializable(error: &serde_json::Error) -> Error {
    tracing::error!(%error, "cannot serialize the value that a handler returned");
    Error::new(ErrorKind::InternalError)
}

pub(crate) struct ToolConverter;

impl<R: IntoToolOutcome> ReturnConverter<R> for ToolConverter {
    fn for_call(_incoming: &Incoming<'_>) -> Self {
        ToolConverter
    }

    fn convert(self, returned: R) -> Outcome {
        returned.into_tool_outcome()
    }
}
