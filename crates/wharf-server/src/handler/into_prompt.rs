//! Return types of prompts.

use std::borrow::Cow;

use serde::Serialize;
use wharf_model::{Content, Error, Outcome, PromptMessage, PromptResult, Reply};

use crate::handler::{
    ReturnConverter,
    extract::Incoming,
    into_tool::{Json, unserializable},
    tool_error::IntoToolError,
};

/// Type that a prompt can return. Text and content become messages of the user.
#[diagnostic::on_unimplemented(
    message = "a prompt cannot return `{Self}`",
    label = "not the messages of a prompt",
    note = "return text, `Content`, `PromptMessage` or a list of them, `PromptResult`, `Json<T>`, \
            or a `Result` of these whose error is a `ToolError` or any `std::error::Error`"
)]
pub trait IntoPrompt {
    /// Converts to the messages of the prompt.
    fn into_prompt(self) -> Result<PromptResult, Error>;
}

macro_rules! user_message {
    ($($T:ty)*) => {
        $(impl IntoPrompt for $T {
            fn into_prompt(self) -> Result<PromptResult, Error> {
                PromptMessage::user(Content::from(self)).into_prompt()
            }
        })*
    };
}

user_message! { String &'static str Content }

impl IntoPrompt for Cow<'static, str> {
    fn into_prompt(self) -> Result<PromptResult, Error> {
        self.into_owned().into_prompt()
    }
}

impl IntoPrompt for PromptMessage {
    fn into_prompt(self) -> Result<PromptResult, Error> {
        Ok(PromptResult::new([self]))
    }
}

impl IntoPrompt for Vec<PromptMessage> {
    fn into_prompt(self) -> Result<PromptResult, Error> {
        Ok(PromptResult::new(self))
    }
}

impl<const N: usize> IntoPrompt for [PromptMessage; N] {
    fn into_prompt(self) -> Result<PromptResult, Error> {
        Ok(PromptResult::new(self))
    }
}

impl IntoPrompt for PromptResult {
    fn into_prompt(self) -> Result<PromptResult, Error> {
        Ok(self)
    }
}

impl<T: Serialize> IntoPrompt for Json<T> {
    fn into_prompt(self) -> Result<PromptResult, Error> {
        serde_json::to_string(&self.0).map_err(|error| unserializable(&error))?.into_prompt()
    }
}

impl<T: IntoPrompt, E: IntoToolError> IntoPrompt for Result<T, E> {
    fn into_prompt(self) -> Result<PromptResult, Error> {
        self.map_err(|error| Error::from(error.into_tool_error()))?.into_prompt()
    }
}

pub(crate) struct PromptConverter;

impl<R: IntoPrompt> ReturnConverter<R> for PromptConverter {
    fn for_call(_incoming: &Incoming<'_>) -> Self {
        PromptConverter
    }

    fn convert(self, returned: R) -> Outcome {
        match returned.into_prompt() {
            Ok(result) => Reply::Prompt(result).into(),
            Err(error) => error.into(),
        }
    }
}
