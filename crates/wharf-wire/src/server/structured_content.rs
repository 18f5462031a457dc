//! Writes a tool result: its structured content unchanged, wrapped in an object, or as text, as the revision allows.

use wharf_model::{CacheHint, Content, JsonText, LazyJson, Meta, ToolResult};

use crate::{
    json::{writer, writer::ObjectWriter},
    server::{
        codec::Codec,
        encode::{write_content, write_extra},
    },
    versions::{result_wrapper, revision::Feature},
};

impl Codec {
    /// Writes the fields of a tool result; returns the user's `_meta` for the caller to write.
    #[inline(always)]
    pub(crate) fn write_tool_result<'a>(
        &self,
        it: &'a ToolResult,
        result: &mut ObjectWriter<'_>,
    ) -> (Option<CacheHint>, Option<&'a LazyJson<Meta>>) {
        let structured = it.structured.as_ref().map(JsonText::get);
        let fits = |json: &str| self.revision.has(Feature::AnyJson) || json.starts_with('{');
        let carried = structured.filter(|_| self.revision.has(Feature::Structured));
        let out = result.key("content");
        let is_missed = |json: &&str| it.content.is_empty() && (carried.is_none() || !fits(json));
        match structured.filter(is_missed) {
            // Structured content that the revision cannot carry unchanged is sent as text, so that it is not
            // lost.
            Some(json) => writer::array(out, [Content::text(json)], |out, item| {
                write_content(out, &item, self.revision);
            }),
            None => writer::array(out, &it.content, |out, item| {
                write_content(out, item, self.revision);
            }),
        }
        match carried {
            Some(json) if fits(json) => result.raw("structuredContent", json),
            Some(json) => {
                let mut wrapper = result.object("structuredContent");
                wrapper.raw(result_wrapper::KEY, json);
                wrapper.close();
            }
            None => {}
        }
        if it.is_error {
            result.plain("isError", "true");
        }
        write_extra(result, &it.extra);
        (None, it.meta.as_deref())
    }
}
