//! Prompts of the demo server.

use wharf::prelude::*;

/// Requests a greeting.
#[prompt]
pub(crate) async fn greet(
    /// The name to greet.
    name: String,
) -> String {
    format!("Say hello to {name}.")
}

/// Requests a code review.
#[prompt]
pub(crate) async fn review(
    /// The code to review.
    code: String,
    /// The programming language of the code.
    #[complete("python", "pascal", "perl", "rust")]
    language: Option<String>,
) -> PromptMessage {
    let language = language.filter(|name| !name.is_empty());
    let language = language.map(|name| format!("{name} ")).unwrap_or_default();
    PromptMessage::user(format!("Review this {language}code:\n{code}"))
}
