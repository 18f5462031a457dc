//! How a tool fails.

use std::{any::Any, fmt};

use wharf_model::{Content, Error, ErrorKind, Outcome, ToolResult};

use crate::{context::client_requests::ClientRequestError, middleware::printable};

/// How a tool fails: with words that help the model to do better, or with a named error.
///
/// Every `std::error::Error` converts into it, so `?` works on anything. The model reads the
/// error's own text and those of its sources.
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
/// Resources, prompts and completions can fail with it too. Nobody reads the text of an error
/// there but the server's log: only an [`Error`], an [`ClientRequestError`] and what [`ToolError::new`] and
/// [`ToolError::content`] say reach the client.
#[derive(Clone, Debug)]
pub struct ToolError(ToolFailure);

#[derive(Clone, Debug)]
enum ToolFailure {
    /// What the handler's author says.
    Content(Vec<Content>),
    Named(Box<Error>),
    Asked(Box<ClientRequestError>),
    /// The text of any other error.
    Other(String),
}

impl ToolError {
    /// Fails with this text: a `String`, or an error that is no `std::error::Error`, such as
    /// `anyhow::Error` or `Box<dyn Error>`.
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

    /// Fails with this content.
    #[must_use]
    pub fn content(content: Vec<Content>) -> Self {
        ToolError(ToolFailure::Content(content))
    }

    /// The outcome of the call that failed so.
    #[must_use]
    pub fn into_outcome(self) -> Outcome {
        let content = match self.0 {
            ToolFailure::Named(error) => return Outcome::Failed(error),
            ToolFailure::Content(content) => content,
            ToolFailure::Asked(error) => match *error {
                // What the client lacks is for the client to know, not for the model.
                ClientRequestError::Unsupported(_) => return Error::from(*error).into(),
                error => vec![Content::text(error.to_string())],
            },
            ToolFailure::Other(text) => vec![Content::text(text)],
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
            ToolFailure::Other(text) => f.write_str(text),
            ToolFailure::Content(content) => {
                let mut texts = content.iter().filter_map(Content::as_text);
                f.write_str(texts.next().unwrap_or(ErrorKind::ToolExecutionFailed.message()))
            }
        }
    }
}

// Not an `std::error::Error` itself: then it could not convert from all of them.
impl<E: std::error::Error + Send + Sync + 'static> From<E> for ToolError {
    fn from(error: E) -> Self {
        let any: &dyn Any = &error;
        if let Some(named) = any.downcast_ref::<Error>() {
            return ToolError(ToolFailure::Named(Box::new(named.clone())));
        }
        if let Some(asked) = any.downcast_ref::<ClientRequestError>() {
            return ToolError(ToolFailure::Asked(Box::new(asked.clone())));
        }
        ToolError(ToolFailure::Other(with_sources(&error)))
    }
}

/// Lets a resource or a prompt fail the way a tool does.
impl From<ToolError> for Error {
    fn from(error: ToolError) -> Self {
        match error.0 {
            ToolFailure::Named(error) => *error,
            ToolFailure::Asked(error) => Error::from(*error),
            ToolFailure::Content(_) => {
                Error::new(ErrorKind::InternalError).with_message(error.to_string())
            }
            ToolFailure::Other(text) => {
                tracing::error!(error = printable(&text), "a handler failed");
                Error::new(ErrorKind::InternalError)
            }
        }
    }
}

/// What the `Err` of a handler can be: a [`ToolError`] and all that converts into one, which every
/// `std::error::Error` does.
#[diagnostic::on_unimplemented(
    message = "a handler cannot fail with `{Self}`",
    label = "neither a `ToolError` nor a `std::error::Error`",
    note = "return a `ToolError`: `.map_err(ToolError::new)`"
)]
pub trait IntoToolError {
    /// The error as a tool's.
    fn into_tool_error(self) -> ToolError;
}

// The compiler would otherwise speak of `From` and not say what to do.
#[diagnostic::do_not_recommend]
impl<E: Into<ToolError>> IntoToolError for E {
    fn into_tool_error(self) -> ToolError {
        self.into()
    }
}

fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        // Many errors already repeat their source.
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
        source = error.source();
    }
    text
}
