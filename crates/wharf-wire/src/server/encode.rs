//! Encodes the result of a call.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use wharf_model::{
    Annotations, CacheHint, Completion, Content, Discovery, ErrorKind, JsonMember, LazyJson, Meta,
    Method, Outcome, Page, PromptResult, ReadResult, Reply, ServerCapabilities, TaskState,
    ToolResult, UnknownFields,
};

use crate::{
    Revision,
    json::{writer, writer::ObjectWriter},
    replies::ListItem,
    server::{
        codec::{Codec, CodecRole, SUBSCRIPTION_ID},
        encode_client_request, encode_task,
        encode_task::RELATED_TASK,
    },
    versions::{fields::VersionedType, revision::Feature, translate},
};

pub(crate) const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

impl Codec {
    /// Writes the end of the call; returns the HTTP status.
    pub fn encode(&self, outcome: &Outcome, out: &mut Vec<u8>) -> u16 {
        match outcome {
            _ if self.is_silent() => 200,
            Outcome::Complete(reply @ Reply::TaskCancelled { task, too_late }) => {
                self.task_cancelled(reply, task, *too_late, out)
            }
            Outcome::Complete(Reply::Custom(json)) => match self.complete_custom(json.get(), out) {
                true => 200,
                false => self.refuse(&ErrorKind::InternalError.into(), out),
            },
            Outcome::Complete(reply) => self.complete(reply, out),
            Outcome::InputRequired(input)
                if self.may_suspend() && encode_client_request::has_content(input) =>
            {
                self.input_required(input, out)
            }
            Outcome::Task(task) if self.may_be_task => self.task_created(task, out),
            Outcome::Failed(error) => self.fail(error, out),
            // Only calls that allow it may end as a task, and only some modern ones with input requests.
            _ => self.refuse(&ErrorKind::InternalError.into(), out),
        }
    }

    pub(crate) fn complete(&self, reply: &Reply, out: &mut Vec<u8>) -> u16 {
        let frame = match self.revision.has(Feature::ServerInfo) {
            true => 256 + self.wire.server_info().len(),
            false => 128,
        };
        out.reserve(frame + self.id.range().len() + rough_size(reply));
        out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        out.extend_from_slice(self.id_json().as_bytes());
        out.extend_from_slice(br#","result":"#);
        let mut result = ObjectWriter::open(out);
        if self.revision.has(Feature::ResultTypes) {
            result.plain("resultType", "\"complete\"");
        }
        let (cache, meta) = self.write_fields(reply, &mut result);
        if let Some(mut cache) = cache.filter(|_| self.revision.has(Feature::CacheHints)) {
            if self.retried {
                // The result depends on input responses that are not part of the cache key.
                cache = CacheHint::default();
            }
            writer::integer(result.key("ttlMs"), cache.ttl_ms);
            result.text("cacheScope", cache.scope.as_str());
        }
        self.write_meta(&mut result, meta);
        result.close();
        out.push(b'}');
        200
    }

    pub(crate) fn write_meta(&self, result: &mut ObjectWriter<'_>, user: Option<&LazyJson<Meta>>) {
        if !self.revision.has(Feature::ServerInfo) {
            return self.write_legacy_meta(result, user);
        }
        let mut meta = result.object("_meta");
        match self.method {
            Method::Discover => self.write_server(meta.key(SERVER_INFO)),
            _ => meta.key(SERVER_INFO).extend_from_slice(self.wire.server_info()),
        }
        if self.is_listen() {
            meta.plain(SUBSCRIPTION_ID, self.id_json());
        }
        if let Some(user) = user {
            write_members(&mut meta, user, &[SERVER_INFO, SUBSCRIPTION_ID]);
        }
        meta.close();
    }

    fn write_server(&self, out: &mut Vec<u8>) {
        let (server, revision) = (self.wire.about(), self.revision);
        match revision.has(Feature::AnyJson)
            && VersionedType::Implementation.is_complete_in(revision)
        {
            true => writer::json(out, server),
            false => translated(out, server, translate::implementation, revision),
        }
    }

    fn write_legacy_meta(&self, result: &mut ObjectWriter<'_>, user: Option<&LazyJson<Meta>>) {
        match (self.related_task(), user) {
            (None, None) => {}
            (None, Some(user)) => result.json("_meta", user),
            (Some(id), user) => {
                let mut meta = result.object("_meta");
                encode_task::write_related(&mut meta, id);
                user.into_iter().for_each(|user| write_members(&mut meta, user, &[RELATED_TASK]));
                meta.close();
            }
        }
    }

    pub(crate) fn write_page<'a, T: ListItem>(
        &self,
        page: &'a Page<T>,
        result: &mut ObjectWriter<'_>,
    ) -> (Option<CacheHint>, Option<&'a LazyJson<Meta>>) {
        let revision = self.revision;
        let items = page.body.memo.get(revision.index(), || {
            let mut out = Vec::new();
            writer::array(&mut out, page.items(), |out, item| write_item(out, &**item, revision));
            Bytes::from(out)
        });
        result.key(T::KEY).extend_from_slice(&items);
        if let Some(next) = &page.next {
            result.text("nextCursor", next);
        }
        (Some(page.cache), page.meta.as_deref())
    }

    pub(crate) fn write_contents<'a>(
        &self,
        it: &'a ReadResult,
        result: &mut ObjectWriter<'_>,
    ) -> (Option<CacheHint>, Option<&'a LazyJson<Meta>>) {
        writer::array(result.key("contents"), &it.contents, |out, contents| {
            let lacks_only_meta =
                || VersionedType::Content.unknown_to(self.revision).all(|field| field == "_meta");
            let is_complete = VersionedType::Content.is_complete_in(self.revision);
            match contents.meta.is_none() && (is_complete || lacks_only_meta()) {
                true => writer::json(out, contents),
                false => translated(out, contents, translate::contents, self.revision),
            }
        });
        write_extra(result, &it.extra);
        (Some(it.cache.unwrap_or_default()), it.meta.as_deref())
    }

    pub(crate) fn write_prompt<'a>(
        &self,
        it: &'a PromptResult,
        result: &mut ObjectWriter<'_>,
    ) -> (Option<CacheHint>, Option<&'a LazyJson<Meta>>) {
        if let Some(description) = &it.description {
            result.text("description", description);
        }
        writer::array(result.key("messages"), &it.messages, |out, prompt_message| {
            let mut message = ObjectWriter::open(out);
            message.text("role", prompt_message.role.as_str());
            write_content(message.key("content"), &prompt_message.content, self.revision);
            write_extra(&mut message, &prompt_message.extra);
            message.close();
        });
        write_extra(result, &it.extra);
        (None, it.meta.as_deref())
    }

    pub(crate) fn write_completion<'a>(
        &self,
        it: &'a Completion,
        result: &mut ObjectWriter<'_>,
    ) -> (Option<CacheHint>, Option<&'a LazyJson<Meta>>) {
        result.json("completion", it);
        (None, it.meta.as_deref())
    }

    pub(crate) fn write_discovery<'a>(
        &self,
        it: &Discovery,
        result: &mut ObjectWriter<'_>,
    ) -> (Option<CacheHint>, Option<&'a LazyJson<Meta>>) {
        let revision = self.revision;
        let streams = self.wire.streams && !matches!(self.role, CodecRole::StatelessInitialize);
        let offered = match streams {
            true => Cow::Borrowed(&it.capabilities),
            false => Cow::Owned(without_streams(&it.capabilities)),
        };
        if let CodecRole::Initialize(pending) = &self.role {
            pending.succeed(&offered);
        }
        if revision.is_modern() {
            result.json("supportedVersions", &self.wire.supported());
        } else {
            result.text("protocolVersion", revision.as_str());
            self.write_server(result.key("serverInfo"));
        }
        let out = result.key("capabilities");
        translated(out, &*offered, translate::server_capabilities, revision);
        if let Some(instructions) = &it.instructions {
            result.text("instructions", instructions);
        }
        (Some(it.cache), None)
    }
}

/// Fields of results that only the protocol layer may set.
pub(crate) const PROTOCOL_FIELDS: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];
/// Feature that each of these fields belongs to.
pub(crate) const PROTOCOL_FIELD_FEATURES: [Feature; 3] =
    [Feature::ResultTypes, Feature::CacheHints, Feature::CacheHints];

pub(crate) fn write_extra(object: &mut ObjectWriter<'_>, extra: &UnknownFields) {
    extra.each_member(|name, value| write_member(object, name, value, &PROTOCOL_FIELDS));
}

/// Writes the members of `_meta`, except those that only the protocol layer may set.
pub(crate) fn write_members(object: &mut ObjectWriter<'_>, user: &LazyJson<Meta>, but: &[&str]) {
    user.each_member(|name, value| write_member(object, name, value, but));
}

fn write_member(object: &mut ObjectWriter<'_>, name: &str, value: JsonMember<'_>, but: &[&str]) {
    if !but.contains(&name) {
        match value {
            JsonMember::Tree(tree) => writer::json(object.any_key(name), tree),
            member => writer::raw(object.any_key(name), &member.text()),
        }
    }
}

/// Returns the capabilities that remain if only replies can be sent.
fn without_streams(capabilities: &ServerCapabilities) -> ServerCapabilities {
    let mut left = capabilities.clone();
    left.logging = false;
    for list in [&mut left.tools, &mut left.prompts].into_iter().flatten() {
        list.list_changed = false;
    }
    if let Some(resources) = &mut left.resources {
        (resources.list_changed, resources.subscribe) = (false, false);
    }
    left
}

fn write_item<T: ListItem>(out: &mut Vec<u8>, item: &T, revision: Revision) {
    match revision.has(Feature::AnyJson) && item.is_complete_in(revision) {
        true => writer::json(out, item),
        false => translated(out, item, T::translate, revision),
    }
}

/// Writes a value in the form of `revision`. Slow, because it builds a tree.
fn translated(
    out: &mut Vec<u8>,
    value: &impl Serialize,
    translate: fn(&mut Value, Revision),
    revision: Revision,
) {
    let mut value = serde_json::to_value(value).unwrap_or_default();
    translate(&mut value, revision);
    writer::json(out, &value);
}

/// Writes a content item: common ones directly, others through a translated tree.
pub(crate) fn write_content(out: &mut Vec<u8>, item: &Content, revision: Revision) {
    let bare =
        |hints: &Option<Box<Annotations>>,
         meta: &Option<Box<LazyJson<Meta>>>,
         extra: &UnknownFields| { hints.is_none() && meta.is_none() && extra.is_empty() };
    let (kind, media) = match item {
        Content::Text(it) if bare(&it.annotations, &it.meta, &it.extra) => {
            out.extend_from_slice(br#"{"type":"text","text":"#);
            writer::quoted(out, &it.text);
            return out.push(b'}');
        }
        Content::Image(it) if bare(&it.annotations, &it.meta, &it.extra) => ("image", it),
        Content::Audio(it)
            if bare(&it.annotations, &it.meta, &it.extra) && revision.has(Feature::Audio) =>
        {
            ("audio", it)
        }
        _ if revision.has_canonical_content() => return writer::json(out, item),
        _ => return translated(out, item, translate::content, revision),
    };
    let mut object = ObjectWriter::open(out);
    object.text("type", kind);
    object.text("data", &media.data);
    object.text("mimeType", &media.mime_type);
    object.close();
}

/// Estimates the size of a reply in bytes.
fn rough_size(reply: &Reply) -> usize {
    let of_content = |item: &Content| match item {
        Content::Text(it) => it.text.len() + 32,
        Content::Image(it) | Content::Audio(it) => it.data.len() + 64,
        _ => 256,
    };
    let of_result = |it: &ToolResult| {
        let structured = it.structured.as_ref().map_or(0, |json| json.get().len());
        structured + it.content.iter().map(of_content).sum::<usize>()
    };
    match reply {
        Reply::Tool(it) => of_result(it),
        Reply::Task(task) => match &task.state {
            TaskState::Completed(it) => 256 + of_result(it),
            _ => 256,
        },
        _ => 256,
    }
}
