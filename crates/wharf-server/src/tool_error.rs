//! How a tool fails.

use std::{any::Any, fmt};

use wharf_model::{Content, Error, ErrorKind, Outcome, ToolResult};

use crate::ask::AskError;

/// How a tool fails: with words that help the model to do better, or with a named error.
///
/// Every `std::error::Error` converts into it, so `?` works on anything. The model reads the
/// error's own text and those of its sources.
///
/// ```
/// use wharf_server::ToolError;
///
/// fn parse(text: &str) -> Result<i64, ToolError> {
///     if text.is_empty() {
///         return Err(ToolError::new("give me a number"));
///     }
///     Ok(text.parse()?)
/// }
/// assert_eq!(parse("x").unwrap_err().to_string(), "invalid digit found in string");
/// ```
#[derive(Clone, Debug)]
pub struct ToolError(Failure);

#[derive(Clone, Debug)]
enum Failure {
    Content(Vec<Content>),
    Named(Box<Error>),
}

impl ToolError {
    /// Fails with this text.
    pub fn new(text: impl fmt::Display) -> Self {
        ToolError::content(vec![Content::text(text.to_string())])
    }

    /// Fails with this content.
    #[must_use]
    pub fn content(content: Vec<Content>) -> Self {
        ToolError(Failure::Content(content))
    }

    /// The outcome of the call that failed so.
    #[must_use]
    pub fn into_outcome(self) -> Outcome {
        match self.0 {
            Failure::Named(error) => Outcome::Failed(error),
            Failure::Content(content) => {
                let mut result = ToolResult::new(content);
                result.is_error = true;
                result.into()
            }
        }
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Failure::Named(error) => error.fmt(f),
            Failure::Content(content) => {
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
            return ToolError(Failure::Named(Box::new(named.clone())));
        }
        // What the client lacks is for the client to know, not for the model.
        if let Some(AskError::Unsupported(capability)) = any.downcast_ref::<AskError>() {
            let error = Error::missing_capability(capability.clone());
            return ToolError(Failure::Named(Box::new(error)));
        }
        ToolError::new(with_sources(&error))
    }
}

/// Lets a resource or a prompt fail the way a tool does.
impl From<ToolError> for Error {
    fn from(error: ToolError) -> Self {
        match error.0 {
            Failure::Named(error) => *error,
            Failure::Content(_) => {
                Error::new(ErrorKind::InternalError).with_message(error.to_string())
            }
        }
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
