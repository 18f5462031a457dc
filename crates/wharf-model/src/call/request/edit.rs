//! Changes of a received request, for services that forward it under another name.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::{Value, value::RawValue};

use crate::{Parts, Request, Span};

impl Request {
    /// Replaces the name or URI of the target. All other bytes of the message stay the same. Does nothing if the
    /// request has no target.
    ///
    /// ```
    /// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
    /// use wharf::model::{Method, RequestBuilder};
    ///
    /// let call = RequestBuilder::new(Method::CallTool).target("github_add").arguments(r#"{"a":1.50}"#);
    /// let mut call = call.build();
    /// call.set_target("add");
    /// assert_eq!((&*call.target(), call.arguments()), ("add", r#"{"a":1.50}"#));
    /// ```
    pub fn set_target(&mut self, target: &str) {
        self.replace(self.parts().target, &Value::from(target).to_string());
    }

    /// Replaces one parameter by the text of another JSON value. All other bytes of the message stay the same. Does
    /// nothing if the request has no such parameter.
    ///
    /// ```
    /// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
    /// use wharf::model::{Method, RequestBuilder};
    ///
    /// let mut request = RequestBuilder::new(Method::Complete).param("ref", "{}").build();
    /// request.set_param("ref", r#"{"type":"ref/prompt","name":"greet"}"#);
    /// assert_eq!(request.params(), r#"{"ref":{"type":"ref/prompt","name":"greet"}}"#);
    /// ```
    pub fn set_param(&mut self, name: &str, json: &str) {
        if let Some(span) = self.param_span(name) {
            self.replace(span, json);
        }
    }

    fn param_span(&self, name: &str) -> Option<Span> {
        let members: BTreeMap<Cow<'_, str>, &RawValue> =
            serde_json::from_str(self.params()).ok()?;
        let value = members.get(name)?.get();
        // The text is borrowed from the message.
        let start = value.as_ptr().addr().checked_sub(self.body.as_ptr().addr())?;
        let end = u32::try_from(start + value.len()).ok()?;
        Some(Span::new(u32::try_from(start).ok()?, end))
    }

    fn replace(&mut self, old: Span, json: &str) {
        let range = old.range();
        let mut body = String::with_capacity(self.body.len() + json.len());
        let (Some(before), Some(after)) =
            (self.body.get(..range.start), self.body.get(range.end..))
        else {
            return;
        };
        let Ok(new_end) = u32::try_from(range.start + json.len()) else { return };
        if !old.is_some() || u32::try_from(self.body.len() + json.len()).is_err() {
            return;
        }
        body.push_str(before);
        body.push_str(json);
        body.push_str(after);
        // Positions at or after the end of the old text move with it.
        let moved = |at: u32| if at >= old.end { at - old.end + new_end } else { at };
        let Parts {
            id,
            params,
            target,
            arguments,
            cursor,
            limit,
            meta,
            input_responses,
            request_state,
            client_info,
            client_capabilities,
        } = &mut self.parts;
        for span in [
            id,
            params,
            target,
            arguments,
            cursor,
            limit,
            meta,
            input_responses,
            request_state,
            client_info,
            client_capabilities,
        ] {
            if span.is_some() {
                *span = Span::new(moved(span.start), moved(span.end));
            }
        }
        self.body = body.into();
    }
}

#[cfg(test)]
mod tests {
    use crate::{Method, RequestBuilder};

    #[test]
    fn the_parts_before_and_after_the_target_stay_the_same() {
        for target in ["x", "a longer name with \"quotes\"", "same"] {
            let request = RequestBuilder::new(Method::CallTool).meta(r#"{"k": 1}"#).target("same");
            let request = request.arguments("{ \"a\": 1.50 }").param("future", "[1]");
            let mut request = request.request_state("s").build();
            request.set_target(target);
            assert_eq!(request.target(), target);
            assert_eq!(request.meta(), Some(r#"{"k": 1}"#));
            assert_eq!(request.arguments(), "{ \"a\": 1.50 }");
            assert_eq!(request.request_state().as_deref(), Some("s"));
            let name = serde_json::Value::from(target);
            let params = format!(
                r#"{{"_meta":{{"k": 1}},"name":{name},"arguments":{{ "a": 1.50 }},"future":[1],"requestState":"s"}}"#
            );
            assert_eq!(request.params(), params);
        }
    }

    #[test]
    fn a_request_without_the_part_stays_the_same() {
        let mut request = RequestBuilder::new(Method::ListTools).cursor("c").build();
        request.set_target("x");
        request.set_param("ref", "1");
        assert_eq!(request.params(), r#"{"cursor":"c"}"#);
    }
}
