//! Errors of tools.

use std::{any::Any, error::Error as StdError, fmt, sync::Arc};

use wharf_model::{
    CallError, ConnectError, Content, Error, ErrorKind, InternalSource, Outcome, ToolResult,
};

use crate::context::client_requests::ClientRequestError;

/// Error of a tool: a text that helps the model to correct its call, or a named error.
///
/// Every `std::error::Error` converts into it, so `?` works on any error. The model receives the
/// error's text and those of its sources.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; }
/// use wharf::ToolError;
///
/// fn parse(text: &str) -> Result<i64, ToolError> {
///     if text.is_empty() {
///         return Err(ToolError::new("give me a number"));
///     }
///     Ok(text.parse()?)
/// }
/// assert_eq!(parse("x").unwrap_err().to_string(), "invalid digit found in string");
/// ```
///
/// Resources, prompts and completions can return it too. Their clients receive only an [`Error`], a
/// [`ClientRequestError`], or the text of [`ToolError::new`] and [`ToolError::content`]; the text
/// of any other error goes to the server's log.
#[derive(Clone, Debug)]
pub struct ToolError(ToolFailure);

#[derive(Clone, Debug)]
enum ToolFailure {
    /// Content from the author of the handler.
    Content(Vec<Content>),
    Named(Box<Error>),
    Asked(Box<ClientRequestError>),
    /// Any other error.
    Other(Arc<dyn StdError + Send + Sync>),
}

impl ToolError {
    /// Creates an error with this text: a `String`, or an error that does not implement
    /// `std::error::Error`, such as `anyhow::Error` or `Box<dyn Error>`.
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
            ToolFailure::Other(error) => Some(&**error),
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
            ToolFailure::Other(error) => vec![Content::text(with_sources(&*error))],
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
            ToolFailure::Other(error) => f.write_str(&with_sources(&**error)),
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
        // A failure of a client that the tool uses is internal: the model cannot correct it.
        if any.is::<CallError>() || any.is::<ConnectError>() {
            return ToolError(ToolFailure::Named(Box::new(Error::internal(error))));
        }
        ToolError(ToolFailure::Other(Arc::new(error)))
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
            ToolFailure::Other(error) => Error::internal(error),
        }
    }
}

/// Types that the `Err` of a handler can have: [`ToolError`] and everything that converts into it,
/// such as every `std::error::Error`.
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

/// Text of an error and of its sources, but not of the sources of an [`Error`]: these are internal.
fn with_sources(error: &(dyn StdError + 'static)) -> String {
    joined(error, |error| error.source().filter(|source| !source.is::<InternalSource>()))
}

/// Text of an error and of all its sources, for the log.
pub(crate) fn with_all_sources(error: &(dyn StdError + 'static)) -> String {
    joined(error, StdError::source)
}

fn joined<'e>(
    error: &'e (dyn StdError + 'static),
    source_of: impl Fn(&'e (dyn StdError + 'static)) -> Option<&'e (dyn StdError + 'static)>,
) -> String {
    let mut text = error.to_string();
    let mut source = source_of(error);
    while let Some(error) = source {
        let cause = error.to_string();
        // Many errors already contain the text of their source.
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
        source = source_of(error);
    }
    text
}
