//! Results by method, written by servers and read by clients. A new method has its arms and its list here.

use serde::Serialize;
use serde_json::Value;
use wharf_model::{
    CacheHint, Error, LazyJson, Meta, Method, PromptInfo, PromptResult, ReadResult, Reply,
    ResourceInfo, TemplateInfo, ToolInfo,
};

use crate::{
    Revision,
    client::decode_result::ResultReader,
    json::writer::ObjectWriter,
    server::codec::Codec,
    versions::{fields::VersionedType, translate},
};

impl Codec {
    /// Writes the fields of the result; returns its cache hint and the user's `_meta` for the caller to write.
    pub(crate) fn write_fields<'a>(
        &self,
        reply: &'a Reply,
        result: &mut ObjectWriter<'_>,
    ) -> (Option<CacheHint>, Option<&'a LazyJson<Meta>>) {
        match reply {
            Reply::Tool(it) => self.write_tool_result(it, result),
            Reply::Tools(page) => self.write_page(page, result),
            Reply::Resources(page) => self.write_page(page, result),
            Reply::Templates(page) => self.write_page(page, result),
            Reply::Prompts(page) => self.write_page(page, result),
            Reply::Read(it) => self.write_contents(it, result),
            Reply::Prompt(it) => self.write_prompt(it, result),
            Reply::Completion(it) => self.write_completion(it, result),
            Reply::Discover(it) => self.write_discovery(it, result),
            Reply::Task(_) | Reply::TaskCancelled { .. } | Reply::TaskList { .. } => {
                self.write_task_reply(reply, result);
                (None, None)
            }
            // These have no fields; `encode` writes those of a custom method.
            Reply::Listened | Reply::TaskUpdated | Reply::Custom(_) => (None, None),
        }
    }
}

impl ResultReader<'_> {
    /// Reads a complete result, as the method of its request requires.
    pub(crate) fn reply(&self) -> Result<Reply, Error> {
        Ok(match self.method {
            Method::CallTool | Method::TaskResult => {
                Reply::Tool(self.strip_protocol_fields(self.whole()?))
            }
            Method::GetPrompt => {
                let mut it: PromptResult = self.whole()?;
                it.meta = self.user_meta(it.meta);
                self.strip_protocol_extra(&mut it.extra);
                Reply::Prompt(it)
            }
            Method::ReadResource => {
                let mut it: ReadResult = self.whole()?;
                it.meta = self.user_meta(it.meta);
                self.strip_protocol_extra(&mut it.extra);
                it.cache = self.cache_hint()?;
                Reply::Read(it)
            }
            Method::ListTools => Reply::Tools(self.page(ToolInfo::KEY)?),
            Method::ListPrompts => Reply::Prompts(self.page(PromptInfo::KEY)?),
            Method::ListResources => Reply::Resources(self.page(ResourceInfo::KEY)?),
            Method::ListTemplates => Reply::Templates(self.page(TemplateInfo::KEY)?),
            Method::Complete => Reply::Completion(self.completion()?),
            Method::Discover => Reply::Discover(Box::new(self.discovery()?)),
            Method::Listen => Reply::Listened,
            Method::GetTask => Reply::Task(Box::new(self.task(self.json)?)),
            Method::UpdateTask => Reply::TaskUpdated,
            Method::CancelTask => self.task_cancelled()?,
            Method::ListTasks => self.task_list()?,
            Method::Custom => Reply::Custom(self.custom()?),
            Method::Elicit | Method::Sample | Method::ListRoots => {
                return Err(self.invalid("this method is handled by the client"));
            }
        })
    }
}

/// Item of a paginated list.
pub(crate) trait ListItem: Serialize {
    /// Field of the result that has the items.
    const KEY: &'static str;

    /// Changes an item to the form of `revision`.
    fn translate(value: &mut Value, revision: Revision);

    /// Returns whether `revision` has every field that the item sets.
    fn is_complete_in(&self, revision: Revision) -> bool;
}

impl ListItem for ToolInfo {
    const KEY: &'static str = "tools";

    fn translate(value: &mut Value, revision: Revision) {
        translate::tool(value, revision);
    }

    fn is_complete_in(&self, revision: Revision) -> bool {
        let is_unset = |field| field == "execution" && self.execution.is_none();
        VersionedType::Tool.unknown_to(revision).all(is_unset)
    }
}

impl ListItem for ResourceInfo {
    const KEY: &'static str = "resources";

    fn translate(value: &mut Value, revision: Revision) {
        translate::resource(value, revision);
    }

    fn is_complete_in(&self, revision: Revision) -> bool {
        VersionedType::Resource.is_complete_in(revision)
            && VersionedType::Annotations.is_complete_in(revision)
    }
}

impl ListItem for TemplateInfo {
    const KEY: &'static str = "resourceTemplates";

    fn translate(value: &mut Value, revision: Revision) {
        translate::resource(value, revision);
    }

    fn is_complete_in(&self, revision: Revision) -> bool {
        VersionedType::Resource.is_complete_in(revision)
            && VersionedType::Annotations.is_complete_in(revision)
    }
}

impl ListItem for PromptInfo {
    const KEY: &'static str = "prompts";

    fn translate(value: &mut Value, revision: Revision) {
        translate::prompt(value, revision);
    }

    fn is_complete_in(&self, revision: Revision) -> bool {
        VersionedType::Prompt.is_complete_in(revision)
            && VersionedType::PromptArgument.is_complete_in(revision)
    }
}
