//! Prompts.

use wharf::prelude::*;

use crate::media;

pub(crate) fn prompts(server: Server) -> Server {
    server
        .prompt::<test_simple_prompt>()
        .prompt::<test_prompt_with_arguments>()
        .prompt::<test_prompt_with_embedded_resource>()
        .prompt::<test_prompt_with_image>()
        .prompt::<test_input_required_result_prompt>()
}

/// A prompt without arguments.
#[prompt]
async fn test_simple_prompt() -> &'static str {
    "This is a simple prompt for testing."
}

/// A prompt with two arguments.
#[prompt]
async fn test_prompt_with_arguments(
    /// The first argument.
    #[complete("test", "testing", "tested")]
    arg1: String,
    /// The second argument.
    arg2: String,
) -> String {
    format!("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")
}

/// A prompt with an embedded resource.
#[prompt]
async fn test_prompt_with_embedded_resource(
    /// The URI of the embedded resource.
    #[serde(rename = "resourceUri")]
    resource_uri: String,
) -> [PromptMessage; 2] {
    let contents = ResourceContents::text(resource_uri, "Embedded resource content for testing.");
    [
        PromptMessage::user(Content::resource(contents.mime_type("text/plain"))),
        PromptMessage::user("Please process the embedded resource above."),
    ]
}

/// A prompt with an image.
#[prompt]
async fn test_prompt_with_image() -> [PromptMessage; 2] {
    [
        PromptMessage::user(Content::image(media::PNG, "image/png")),
        PromptMessage::user("Please analyze the image above."),
    ]
}

/// A prompt that elicits its context. Modern clients answer with a retry.
#[prompt]
async fn test_input_required_result_prompt(ctx: Ctx) -> Result<String, ClientRequestError> {
    let ContextForm { context } = ctx.ask("user_context", "What context should it use?").await?;
    Ok(format!("Use this context: {context}"))
}

#[derive(Deserialize, JsonSchema)]
struct ContextForm {
    context: String,
}
