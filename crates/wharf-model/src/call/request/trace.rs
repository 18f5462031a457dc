//! Puts a trace context into the metadata of a request.

use std::ops::Range;

use crate::{Parts, Request, Span, TraceContext, call::request::without_members};

impl Request {
    /// Puts the [context](TraceContext::current) of the call that makes this request into its `_meta`.
    pub fn continue_trace(&mut self) {
        if let Some(context) = TraceContext::current() {
            self.set_trace_context(&context);
        }
    }

    /// Puts the context of the call that makes this request to another server into its `_meta`. Baggage may have data of
    /// the caller that are not meant for that server: it is left out unless `baggage` is true.
    pub fn continue_trace_upstream(&mut self, baggage: bool) {
        if let Some(context) = TraceContext::current() {
            match baggage {
                true => self.set_trace_context(&context),
                false => self.set_trace_context(&context.without_baggage()),
            }
        }
    }

    /// Removes `baggage` from `_meta`.
    pub fn remove_baggage(&mut self) {
        let meta = self.meta().filter(|meta| meta.contains("baggage"));
        let kept = meta.and_then(|meta| without_members(meta, |name| name != "baggage"));
        if let Some(meta) = kept {
            self.set_meta(&meta);
        }
    }

    /// Puts a trace context into `_meta`, in place of the one that it has.
    ///
    /// ```
    /// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } pub mod observe { pub use super::*; } }
    /// use wharf::{model::{Method, RequestBuilder}, observe::TraceContext};
    ///
    /// let mut request = RequestBuilder::new(Method::CallTool).target("add").build();
    /// let context = TraceContext::new(1, 2, true);
    /// request.set_trace_context(&context);
    /// assert_eq!(TraceContext::from_meta(request.meta().unwrap()), Some(context));
    /// assert_eq!(request.target(), "add");
    /// ```
    pub fn set_trace_context(&mut self, context: &TraceContext) {
        let is_kept = |name: &str| match name {
            "traceparent" | "tracestate" => false,
            "baggage" => context.baggage().is_none(),
            _ => true,
        };
        let kept = self.meta().and_then(|meta| without_members(meta, is_kept));
        let mut meta = kept.unwrap_or_else(|| "{}".into());
        meta.pop();
        for (name, value) in context.members() {
            let comma = if meta.len() > 1 { "," } else { "" };
            meta += &format!("{comma}\"{name}\":{}", serde_json::Value::from(value));
        }
        meta.push('}');
        self.set_meta(&meta);
    }

    /// Replaces or adds `_meta`. A message that would exceed 4 GiB stays as it is.
    fn set_meta(&mut self, meta: &str) {
        let Parts { params, meta: old, client_info, client_capabilities, .. } = self.parts;
        if client_info.is_some() || client_capabilities.is_some() {
            // They are parts of `_meta`, and would move.
            self.peer = Some(self.peer());
            (self.parts.client_info, self.parts.client_capabilities) = Default::default();
        }
        const KEY: &str = "\"_meta\":";
        let end = self.body.len();
        let (at, before, after) = match (old.is_some(), self.json(params)) {
            (true, _) => (old.range(), String::new(), ""),
            (false, Some(json)) => {
                let start = params.range().start + 1;
                let is_empty = json.trim_end_matches('}').trim_end() == "{";
                (start..start, KEY.to_owned(), if is_empty { "" } else { "," })
            }
            (false, None) => (end..end, format!("{{{KEY}"), "}"),
        };
        let text = [&before, meta, after].concat();
        let Some((body, distance)) = splice(&self.body, &at, &text) else { return };
        self.parts.shift(at.end, distance);
        let start = at.start + before.len();
        self.parts.meta = span(start, start + meta.len());
        if !params.is_some() {
            self.parts.params = span(at.start, body.len());
        }
        self.body = body.into();
    }
}

impl Parts {
    /// Moves the positions from `from` on.
    fn shift(&mut self, from: usize, distance: i64) {
        let Parts { id, params, target, arguments, cursor, limit, .. } = self;
        let first = [id, params, target, arguments, cursor, limit];
        let rest = [&mut self.input_responses, &mut self.request_state];
        for part in first.into_iter().chain(rest).filter(|it| it.is_some()) {
            for position in [&mut part.start, &mut part.end] {
                if *position as usize >= from {
                    *position = position.saturating_add_signed(distance as i32);
                }
            }
        }
    }
}

/// Replaces a part of `body`, and returns the growth; `None` if positions would exceed 31 bits.
fn splice(body: &str, at: &Range<usize>, text: &str) -> Option<(String, i64)> {
    let new = [body.get(..at.start)?, text, body.get(at.end..)?].concat();
    let distance = i64::try_from(new.len()).ok()? - i64::try_from(body.len()).ok()?;
    i32::try_from(new.len()).is_ok().then_some((new, distance))
}

/// Positions were checked by [`splice`].
fn span(start: usize, end: usize) -> Span {
    Span::new(start as u32, end as u32)
}

#[cfg(test)]
mod tests {
    use crate::{Method, Request, RequestBuilder, TraceContext};

    fn is_intact(request: &Request, expected: &str) {
        let params: serde_json::Value = serde_json::from_str(request.params()).unwrap();
        assert_eq!(params, serde_json::from_str::<serde_json::Value>(expected).unwrap());
        assert_eq!(request.meta().unwrap(), params["_meta"].to_string());
    }

    #[test]
    fn baggage_is_removed_alone() {
        let meta = r#"{"a":1,"baggage":"k=v","traceparent":"x"}"#;
        let call = RequestBuilder::new(Method::CallTool).target("t").meta(meta);
        let mut request = call.arguments("{}").build();
        request.remove_baggage();
        is_intact(&request, r#"{"name":"t","_meta":{"a":1,"traceparent":"x"},"arguments":{}}"#);
        assert_eq!((&*request.target(), request.arguments()), ("t", "{}"));
    }

    #[test]
    fn every_form_of_a_request_takes_a_context() {
        let context = TraceContext::new(0xab, 0xcd, true);
        let traceparent = context.to_string();
        let meta = format!(r#"{{"traceparent":"{traceparent}"}}"#);
        let old = r#"{"a":[1,{}],"traceparent":"x","tracestate":"y","baggage":"z"}"#;
        let new = format!(r#"{{"a":[1,{{}}],"baggage":"z","traceparent":"{traceparent}"}}"#);
        let bare = RequestBuilder::new(Method::ListTools);
        let call = || RequestBuilder::new(Method::CallTool).target("t");
        let custom = || RequestBuilder::custom("acme/report");
        let cases = [
            (bare.build(), format!(r#"{{"_meta":{meta}}}"#)),
            (
                call().arguments("{}").build(),
                format!(r#"{{"name":"t","arguments":{{}},"_meta":{meta}}}"#),
            ),
            (
                call().meta(old).arguments("{}").build(),
                format!(r#"{{"name":"t","_meta":{new},"arguments":{{}}}}"#),
            ),
            (custom().build(), format!(r#"{{"_meta":{meta}}}"#)),
            (custom().meta(old).build(), format!(r#"{{"_meta":{new}}}"#)),
        ];
        for (mut request, expected) in cases {
            let (target, arguments) =
                (request.target().into_owned(), request.arguments().to_owned());
            for _ in 0..2 {
                request.set_trace_context(&context);
                is_intact(&request, &expected);
                assert_eq!((&*request.target(), request.arguments()), (&*target, &*arguments));
            }
        }
    }
}
