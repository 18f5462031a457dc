//! Tools that return one type of content each.

use wharf::prelude::*;

use crate::media;

pub(crate) fn tools(server: Server) -> Server {
    server
        .tool::<test_simple_text>()
        .tool::<test_image_content>()
        .tool::<test_audio_content>()
        .tool::<test_embedded_resource>()
        .tool::<test_multiple_content_types>()
        .tool::<test_error_handling>()
}

/// Returns text.
#[tool(read_only)]
async fn test_simple_text() -> &'static str {
    "This is a simple text response for testing."
}

/// Returns an image.
#[tool(read_only)]
async fn test_image_content() -> Content {
    Content::image(media::PNG, "image/png")
}

/// Returns audio.
#[tool(read_only)]
async fn test_audio_content() -> Content {
    Content::audio(media::WAV, "audio/wav")
}

/// Returns an embedded resource.
#[tool(read_only)]
async fn test_embedded_resource() -> Content {
    let contents =
        ResourceContents::text("test://embedded-resource", "This is an embedded resource content.");
    Content::resource(contents.mime_type("text/plain"))
}

/// Returns text, an image and an embedded resource.
#[tool(read_only)]
async fn test_multiple_content_types() -> [Content; 3] {
    let json = r#"{"test":"data","value":123}"#;
    let contents = ResourceContents::text("test://mixed-content-resource", json);
    [
        Content::text("Multiple content types test:"),
        Content::image(media::PNG, "image/png"),
        Content::resource(contents.mime_type("application/json")),
    ]
}

/// Returns a tool error.
#[tool(read_only)]
async fn test_error_handling() -> Result<(), ToolError> {
    Err(ToolError::new("This tool intentionally returns an error for testing"))
}
