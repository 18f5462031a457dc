//! Builder of a request, for callers in the same process.

use crate::{Method, Parts, Request, Span};

/// Builder of a [`Request`] for callers in the same process, without a message to decode.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
/// use wharf::model::{Method, RequestBuilder};
///
/// let request = RequestBuilder::new(Method::CallTool)
///     .target("add")
///     .arguments(r#"{"a":1,"b":2}"#)
///     .build();
/// assert_eq!(request.target(), "add");
/// assert_eq!(request.params(), r#"{"name":"add","arguments":{"a":1,"b":2}}"#);
/// ```
#[derive(Debug)]
pub struct RequestBuilder {
    method: Method,
    /// Name of a custom method, as JSON text.
    custom: String,
    body: String,
    parts: Parts,
}

impl RequestBuilder {
    /// Creates a request for `method` without parameters.
    #[must_use]
    pub fn new(method: Method) -> Self {
        let (custom, body) = (String::new(), "{".into());
        RequestBuilder { method, custom, body, parts: Parts::default() }
    }

    /// Creates a request for a method that the protocol does not define.
    #[must_use]
    pub fn custom(name: &str) -> Self {
        let custom = serde_json::Value::from(name).to_string();
        RequestBuilder { custom, ..RequestBuilder::new(Method::Custom) }
    }

    /// Sets the tool, prompt, resource or task.
    #[must_use]
    pub fn target(mut self, target: &str) -> Self {
        let field = self.method.info().mirrored.unwrap_or("name");
        self.parts.target = self.put_text(field, target);
        self
    }

    /// Sets the arguments: the text of a JSON object.
    #[must_use]
    pub fn arguments(mut self, json: &str) -> Self {
        self.parts.arguments = self.put("arguments", json);
        self
    }

    /// Sets the pagination cursor.
    #[must_use]
    pub fn cursor(mut self, cursor: &str) -> Self {
        self.parts.cursor = self.put_text("cursor", cursor);
        self
    }

    /// Sets the requested page size.
    #[must_use]
    pub fn limit(mut self, limit: u64) -> Self {
        self.parts.limit = self.put("limit", &limit.to_string());
        self
    }

    /// Sets the responses to earlier input requests: the text of a JSON object.
    #[must_use]
    pub fn input_responses(mut self, json: &str) -> Self {
        self.parts.input_responses = self.put("inputResponses", json);
        self
    }

    /// Sets the state that an earlier attempt returned.
    #[must_use]
    pub fn request_state(mut self, state: &str) -> Self {
        self.parts.request_state = self.put_text("requestState", state);
        self
    }

    /// Sets `_meta`: the text of a JSON object.
    #[must_use]
    pub fn meta(mut self, json: &str) -> Self {
        self.parts.meta = self.put("_meta", json);
        self
    }

    /// Adds any other parameter: its name and the text of its JSON value.
    #[must_use]
    pub fn param(mut self, name: &str, json: &str) -> Self {
        self.put(name, json);
        self
    }

    /// Builds the request.
    #[must_use]
    pub fn build(mut self) -> Request {
        self.body.push('}');
        self.parts.params = span(0, self.body.len());
        if self.method == Method::Custom {
            // Behind the parameters: no part of the message itself.
            self.body.push_str(&self.custom);
            self.parts.target = span(self.body.len() - self.custom.len(), self.body.len());
        }
        Request::new(self.method, self.body.into(), self.parts)
    }

    fn put_text(&mut self, name: &str, text: &str) -> Span {
        let json = serde_json::Value::from(text).to_string();
        self.put(name, &json)
    }

    fn put(&mut self, name: &str, json: &str) -> Span {
        if self.body.len() > 1 {
            self.body.push(',');
        }
        self.body.push_str(&serde_json::Value::from(name).to_string());
        self.body.push(':');
        let start = self.body.len();
        self.body.push_str(json);
        span(start, self.body.len())
    }
}

/// Returns the span. Messages are far below 4 GiB; a longer one has no parts.
fn span(start: usize, end: usize) -> Span {
    match (u32::try_from(start), u32::try_from(end)) {
        (Ok(start), Ok(end)) => Span::new(start, end),
        _ => Span::default(),
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    #[test]
    fn escaped_text_is_decoded_and_plain_text_is_borrowed() {
        let request = RequestBuilder::new(Method::GetPrompt).target("a\"b").cursor("c").build();
        assert_eq!(request.target(), "a\"b");
        assert!(matches!(request.cursor(), Some(Cow::Borrowed("c"))));
    }
}
