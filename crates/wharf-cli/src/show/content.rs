//! Content, formatted for people.

use serde_json::Value;
use wharf::{
    Content, ToolResult,
    model::{Body, PromptResult, ReadResult, ResourceContents},
};

use crate::terminal::{Paint, bytes, clean, clean_json, clean_line};

/// Formats a tool result.
pub(crate) fn result_lines(result: &ToolResult, paint: Paint) -> Vec<String> {
    let structured: Option<Value> =
        result.structured.as_ref().and_then(|raw| serde_json::from_str(raw.get()).ok());
    let Some(structured) = structured else { return content_lines(&result.content, paint) };
    // Most servers repeat structured content as text, for clients that support only text.
    let mut lines = match result.content.as_slice() {
        [Content::Text(text)]
            if serde_json::from_str(&text.text).ok() == Some(structured.clone()) =>
        {
            Vec::new()
        }
        content => content_lines(content, paint),
    };
    lines.push(pretty(&structured));
    lines
}

/// Formats content of any kind, in order.
fn content_lines(content: &[Content], paint: Paint) -> Vec<String> {
    content.iter().map(|item| one(item, paint)).collect()
}

/// Formats a read result.
pub(crate) fn read_lines(result: &ReadResult, paint: Paint) -> Vec<String> {
    let several = result.contents.len() > 1;
    result.contents.iter().map(|contents| resource(contents, several, paint)).collect()
}

/// Formats the messages of a prompt.
pub(crate) fn prompt_lines(result: &PromptResult, paint: Paint) -> Vec<String> {
    let mut lines: Vec<String> =
        result.description.iter().map(|about| paint.dim(&clean(about))).collect();
    for message in &result.messages {
        let role = paint.bold(&format!("{}:", clean_line(message.role.as_str())));
        lines.push(format!("{role} {}", one(&message.content, paint)));
    }
    lines
}

fn one(content: &Content, paint: Paint) -> String {
    match content {
        Content::Text(text) => clean(text.text.trim_end_matches('\n')).into_owned(),
        Content::Image(media) | Content::Audio(media) => {
            blob(Some(&media.mime_type), &media.data, paint)
        }
        Content::Link(link) => {
            let about = link.description.as_deref().or(link.title.as_deref()).unwrap_or(&link.name);
            format!("{} {}", paint.cyan(&clean_line(&link.uri)), clean_line(about))
        }
        Content::Resource(it) => resource(&it.resource, true, paint),
        other => serde_json::to_value(other).map(|value| pretty(&value)).unwrap_or_default(),
    }
}

fn resource(contents: &ResourceContents, named: bool, paint: Paint) -> String {
    let body = match &contents.body {
        Body::Text(text) => clean(text.trim_end_matches('\n')).into_owned(),
        Body::Blob(data) => blob(contents.mime_type.as_deref(), data, paint),
    };
    if named { format!("{}\n{body}", paint.cyan(&clean_line(&contents.uri))) } else { body }
}

/// Type and size of binary data, which is not written to terminals.
fn blob(mime_type: Option<&str>, data: &str, paint: Paint) -> String {
    let padding = data.bytes().rev().take_while(|byte| *byte == b'=').count();
    let size = bytes((data.len() / 4 * 3).saturating_sub(padding));
    let kind = clean_line(mime_type.unwrap_or("bytes"));
    paint.dim(&format!("[{kind}, {size}; --output FILE saves it]"))
}

fn pretty(value: &Value) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    clean_json(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use wharf::model::PromptMessage;

    #[test]
    fn each_content_type_is_formatted() {
        let content = [
            Content::text("two\nlines\n"),
            Content::text("\x1b[31mred"),
            Content::image([0; 1500], "image/png"),
            Content::link("demo://x", "x"),
            Content::resource(ResourceContents::text("demo://y", "why")),
            serde_json::from_value(json!({"type": "hologram", "depth": 3})).unwrap(),
        ];
        let expected = [
            "two\nlines",
            "\\x1b[31mred",
            "[image/png, 1.5 kB; --output FILE saves it]",
            "demo://x x",
            "demo://y\nwhy",
            "{\n  \"type\": \"hologram\",\n  \"depth\": 3\n}",
        ];
        assert_eq!(content_lines(&content, Paint::PLAIN), expected);
    }

    #[test]
    fn structured_content_is_not_shown_twice() {
        let twice = ToolResult::json(&json!({"a": 1})).unwrap();
        assert_eq!(result_lines(&twice, Paint::PLAIN), ["{\n  \"a\": 1\n}"]);
        let mut other = twice.clone();
        other.content = vec![Content::text("one")];
        assert_eq!(result_lines(&other, Paint::PLAIN), ["one", "{\n  \"a\": 1\n}"]);
    }

    #[test]
    fn prompt_messages_show_their_role() {
        let prompt = PromptResult::new([PromptMessage::user("Hi"), PromptMessage::assistant("Ho")]);
        assert_eq!(prompt_lines(&prompt, Paint::PLAIN), ["user: Hi", "assistant: Ho"]);
    }

    #[test]
    fn multiple_contents_show_their_uri() {
        let one = ResourceContents::text("demo://a", "A\n");
        let two = ResourceContents::blob("demo://b", [1, 2]);
        let read = ReadResult::new([one.clone()]);
        assert_eq!(read_lines(&read, Paint::PLAIN), ["A"]);
        let read = ReadResult::new([one, two]);
        let expected = ["demo://a\nA", "demo://b\n[bytes, 2 bytes; --output FILE saves it]"];
        assert_eq!(read_lines(&read, Paint::PLAIN), expected);
    }
}
