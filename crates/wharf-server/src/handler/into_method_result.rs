//! Return types of custom methods.

use serde::Serialize;
use wharf_model::{Error, ErrorKind, JsonText, Outcome, Reply};

use crate::handler::{
    ReturnConverter,
    extract::Incoming,
    into_tool::{Json, unserializable},
    tool_error::IntoToolError,
};

/// Type that a custom method can return.
#[diagnostic::on_unimplemented(
    message = "a custom method cannot return `{Self}`",
    label = "not a result of a custom method",
    note = "return `Json<T>` of a struct or a map, `()` for an empty result, or a `Result` of these \
            whose error is a `ToolError` or any `std::error::Error`"
)]
pub trait IntoMethodResult {
    /// Converts to the text of a JSON object.
    fn into_method_result(self) -> Result<JsonText, Error>;
}

impl IntoMethodResult for () {
    fn into_method_result(self) -> Result<JsonText, Error> {
        Json(serde_json::Map::new()).into_method_result()
    }
}

impl<T: Serialize> IntoMethodResult for Json<T> {
    fn into_method_result(self) -> Result<JsonText, Error> {
        let json = JsonText::of(&self.0).map_err(|error| unserializable(&error))?;
        if json.get().starts_with('{') {
            return Ok(json);
        }
        tracing::error!("rejected the result of a custom method: it is not an object");
        Err(Error::new(ErrorKind::InternalError))
    }
}

impl<T: IntoMethodResult, E: IntoToolError> IntoMethodResult for Result<T, E> {
    fn into_method_result(self) -> Result<JsonText, Error> {
        self.map_err(|error| Error::from(error.into_tool_error()))?.into_method_result()
    }
}

pub(crate) struct MethodConverter;

impl<R: IntoMethodResult> ReturnConverter<R> for MethodConverter {
    fn for_call(_incoming: &Incoming<'_>) -> Self {
        MethodConverter
    }

    fn convert(self, returned: R) -> Outcome {
        match returned.into_method_result() {
            Ok(json) => Reply::Custom(json).into(),
            Err(error) => error.into(),
        }
    }
}
