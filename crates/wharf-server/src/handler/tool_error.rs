//! Errors of tools.

use std::{any::Any, error::Error as StdError, fmt, sync::Arc};

use wharf_model::{Content, Error, ErrorKind, Outcome, ToolResult};

use crate::context::{client_requests::ClientRequestError, step::StepError};

/// Error of a tool: a text that helps the model to correct its call, or a named error.
///
/// `?` converts any `std::error::Error` into it. Such an error is internal: the model receives only
/// that the tool failed, and the server logs the error with its sources. To show the text of an
/// error to the model, convert it with [`ToolError::new`].
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; }
/// use wharf::ToolError;
///
/// fn berth(number: &str) -> Result<String, ToolError> {
///     // The model can correct its argument, so it receives the text.
///     let number: u8 = number.parse().map_err(ToolError::new)?;
///     // The model receives "Tool execution failed"; the log has the path and the reason.
///     let berths = std::fs::read_to_string("/var/lib/harbour/berths")?;
///     let berth = berths.lines().nth(number.into());
///     berth.map(str::to_owned).ok_or_else(|| ToolError::new(format!("there is no berth {number}")))
/// }
/// assert_eq!(berth("x").unwrap_err().to_string(), "invalid digit found in string");
/// assert_eq!(berth("7").unwrap_err().to_string(), "Tool execution failed");
/// ```
///
/// An [`Error`], a [`ClientRequestError`] and a [`StepError`] keep their text, which is for the
/// client. Resources, prompts, completions and custom methods can return a `ToolError` too; there
/// an internal error is "Internal error".
#[derive(Clone, Debug)]
pub struct ToolError(ToolFailure);

#[derive(Clone, Debug)]
enum ToolFailure {
    /// Content from the author of the handler.
    Content(Vec<Content>),
    Named(Box<Error>),
    Asked(Box<ClientRequestError>),
    /// Any other error. Its text is for the log.
    Internal(Arc<dyn StdError + Send + Sync>),
}

impl ToolError {
    /// Creates an error with this text, which the model receives: a `String`, or an error whose text is
    /// for the model.
    ///
    /// ```
    /// # mod wharf { pub use {wharf_model::*, wharf_server::*}; }
    /// use wharf::ToolError;
    ///
    /// fn open(door: &str) -> Result<(), String> {
    ///     Err(format!("the {door} door is locked"))
    /// }
    ///
    /// fn knock() -> Result<&'static str, ToolError> {
    ///     open("front").map_err(ToolError::new)?;
    ///     Ok("come in")
    /// }
    /// assert_eq!(knock().unwrap_err().to_string(), "the front door is locked");
    /// ```
    pub fn new(text: impl fmt::Display) -> Self {
        ToolError::content(vec![Content::text(text.to_string())])
    }

    /// Creates an error with this content.
    #[must_use]
    pub fn content(content: Vec<Content>) -> Self {
        ToolError(ToolFailure::Content(content))
    }

    /// Returns the error that this one was converted from by `?`, if there is one. (`ToolError` cannot
    /// implement `std::error::Error`, because it converts from every type that does.)
    #[must_use]
    pub fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.0 {
            ToolFailure::Content(_) => None,
            ToolFailure::Named(error) => Some(&**error),
            ToolFailure::Asked(error) => Some(&**error),
            ToolFailure::Internal(error) => Some(&**error),
        }
    }

    /// Converts to the outcome of the failed call.
    #[must_use]
    pub fn into_outcome(self) -> Outcome {
        let content = match self.0 {
            ToolFailure::Named(error) => return Outcome::Failed(error),
            ToolFailure::Content(content) => content,
            ToolFailure::Asked(error) => match *error {
                // A missing capability concerns the client, not the model.
                ClientRequestError::Unsupported(_) => return Error::from(*error).into(),
                error => vec![Content::text(error.to_string())],
            },
            // The specification reports failures of a tool as results, so that the model learns of them.
            ToolFailure::Internal(error) => {
                return Error::new(ErrorKind::ToolExecutionFailed).with_source(error).into();
            }
        };
        let mut result = ToolResult::new(content);
        result.is_error = true;
        result.into()
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ToolFailure::Named(error) => error.fmt(f),
            ToolFailure::Asked(error) => error.fmt(f),
            ToolFailure::Internal(_) => f.write_str(ErrorKind::ToolExecutionFailed.message()),
            ToolFailure::Content(content) => {
                let mut texts = content.iter().filter_map(Content::as_text);
                f.write_str(texts.next().unwrap_or(ErrorKind::ToolExecutionFailed.message()))
            }
        }
    }
}

// Does not implement `std::error::Error`: otherwise it could not convert from all of them.
impl<E: std::error::Error + Send + Sync + 'static> From<E> for ToolError {
    fn from(error: E) -> Self {
        let any: &dyn Any = &error;
        if let Some(named) = any.downcast_ref::<Error>() {
            return ToolError(ToolFailure::Named(Box::new(named.clone())));
        }
        if let Some(asked) = any.downcast_ref::<ClientRequestError>() {
            return ToolError(ToolFailure::Asked(Box::new(asked.clone())));
        }
        match any.downcast_ref::<StepError>() {
            Some(StepError::Spent) => return ToolError::new(error),
            Some(StepError::Store(named)) => {
                return ToolError(ToolFailure::Named(Box::new(named.clone())));
            }
            None => {}
        }
        ToolError(ToolFailure::Internal(Arc::new(error)))
    }
}

/// Lets a resource or a prompt return the error of a tool.
impl From<ToolError> for Error {
    fn from(error: ToolError) -> Self {
        match error.0 {
            ToolFailure::Named(error) => *error,
            ToolFailure::Asked(error) => Error::from(*error),
            ToolFailure::Content(_) => {
                Error::new(ErrorKind::InternalError).with_message(error.to_string())
            }
            ToolFailure::Internal(error) => Error::internal(error),
        }
    }
}

/// Types that the `Err` of a handler can have: [`ToolError`] and everything that converts into it,
/// such as every `std::error::Error`, whose text the client does not receive.
#[diagnostic::on_unimplemented(
    message = "a handler cannot fail with `{Self}`",
    label = "neither a `ToolError` nor a `std::error::Error`",
    note = "return a `ToolError`: `.map_err(ToolError::new)`"
)]
pub trait IntoToolError {
    /// Converts to the error of a tool.
    fn into_tool_error(self) -> ToolError;
}

// Otherwise the compiler suggests an implementation of `From`, which does not help.
#[diagnostic::do_not_recommend]
impl<E: Into<ToolError>> IntoToolError for E {
    fn into_tool_error(self) -> ToolError {
        self.into()
    }
}

/// Text of an error and of all its sources, for the log.
pub(crate) fn with_sources(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        // Many errors already contain the text of their source.
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
        source = error.source();
    }
    text
}
