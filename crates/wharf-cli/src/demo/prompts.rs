//! Prompts of the demo server.

use wharf::prelude::*;

/// Asks for a greeting.
#[prompt]
pub(crate) async fn greet(
    /// Whom to greet.
    name: String,
) -> String {
    format!("Say hello to {name}.")
}

/// Asks for a review of some code.
#[prompt]
pub(crate) async fn review(
    /// The code to look at.
    code: String,
    /// The language it is written in.
    #[complete("python", "pascal", "perl", "rust")]
    language: Option<String>,
) -> PromptMessage {
    let language = language.filter(|name| !name.is_empty());
    let language = language.map(|name| format!("{name} ")).unwrap_or_default();
    PromptMessage::user(format!("Review this {language}code:\n{code}"))
}
