//! Decodes the result of a call, according to its method.

use std::sync::Arc;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use wharf_model::{
    CacheHint, ClientRequest, Completion, Discovery, Error, ErrorKind, FailureOrigin,
    InputRequired, JsonText, LazyJson, MAX_PAGE_VALUES, Meta, Method, Outcome, Page, PageBody,
    ServerCapabilities, Task, ToolResult, UnknownFields, count_values, has_at_most, weight_of_page,
};

use super::{ClientCodec, read_object};
use crate::client::decode_server_request::read_client_request;
use crate::{
    json::{field_spans::unquote, scanner, writer, writer::ObjectWriter},
    server::{
        codec::SUBSCRIPTION_ID,
        encode::{PROTOCOL_FIELD_FEATURES, PROTOCOL_FIELDS, SERVER_INFO},
        encode_task::RELATED_TASK,
    },
    versions::revision::Feature,
};

/// Maximum number of items on a page, and of input requests in a result.
pub(super) const MAX_PAGE_ITEMS: usize = 100_000;
const MAX_INPUT_REQUESTS: usize = 1_000;
/// Maximum number of values in a result, like [`MAX_PAGE_VALUES`] on a page of a list.
const MAX_RESULT_VALUES: usize = 250_000;
/// Fields of results and of list items that are parsed into trees.
const PARSED_FIELDS: [&str; 8] = [
    "content",
    "contents",
    "messages",
    "completion",
    "capabilities",
    "arguments",
    "annotations",
    "execution",
];

impl ClientCodec {
    /// Reads the result of a call of `method`. Only the method determines the type, never the content.
    ///
    /// ```
    /// use wharf_model::{Method, Outcome, Reply};
    /// use wharf_wire::{ClientIdentity, Revision, ClientCodec};
    ///
    /// let codec = ClientCodec::new(Revision::NEWEST, ClientIdentity::default().into());
    /// let text = r#"{"resultType":"complete","content":[{"type":"hologram","x":1}]}"#;
    /// let Ok(Outcome::Complete(Reply::Tool(it))) = codec.result(Method::CallTool, text) else { panic!() };
    /// assert_eq!(serde_json::to_value(&it.content[0]).unwrap()["x"], 1);
    /// assert!(codec.result(Method::CallTool, r#"{"resultType":"someday"}"#).is_err());
    /// ```
    ///
    /// # Errors
    /// `ValidationFailed` if the text is not a result of this method or has an unknown type; `ContentTooLarge`
    /// if it exceeds the limits.
    pub fn result(&self, method: Method, result: &str) -> Result<Outcome, Error> {
        let text = ResultReader { codec: self, method, json: result };
        match text.result_type()?.as_deref() {
            None | Some("complete") => text.complete(),
            Some("task") if method == Method::CallTool => text.handle(result).map(task_outcome),
            // Some servers write this for every task.
            Some("task") if method == Method::GetTask => text.complete(),
            Some("input_required") if method.info().may_suspend => {
                text.input_required().map(|it| Outcome::InputRequired(Box::new(it)))
            }
            Some(kind) => Err(text.invalid(format!("unknown resultType {kind:?}"))),
        }
    }
}

fn task_outcome(task: Task) -> Outcome {
    Outcome::Task(Box::new(task))
}

/// Reader for the text of a result.
pub(crate) struct ResultReader<'a> {
    pub(super) codec: &'a ClientCodec,
    pub(crate) method: Method,
    pub(crate) json: &'a str,
}

impl<'a> ResultReader<'a> {
    fn result_type(&self) -> Result<Option<String>, Error> {
        if !self.codec.revision.has(Feature::ResultTypes) {
            return Ok(None);
        }
        let [kind] = self.members(["resultType"])?;
        kind.map(|json| self.parse(json, "resultType")).transpose()
    }

    fn complete(&self) -> Result<Outcome, Error> {
        if self.method == Method::CallTool
            && let Some(task) = self.created_task()?
        {
            return Ok(task_outcome(task));
        }
        self.reply().map(Outcome::Complete)
    }

    pub(crate) fn page<T: DeserializeOwned>(&self, key: &str) -> Result<Page<T>, Error> {
        let [items, next, meta] = self.members([key, "nextCursor", "_meta"])?;
        let items = items.ok_or_else(|| self.invalid(format!("missing `{key}`")))?;
        let Ok(spans) = scanner::elements(items, u32::MAX, MAX_PAGE_ITEMS) else {
            return Err(self.invalid(format!("`{key}` must be an array")));
        };
        if spans.len() > MAX_PAGE_ITEMS {
            return Err(self.too_many(MAX_PAGE_ITEMS, "items on one page"));
        }
        let values: usize = spans.iter().filter_map(|span| span.of(items)).map(values_of).sum();
        if values > MAX_PAGE_VALUES {
            return Err(self.too_many(MAX_PAGE_VALUES, "values on one page"));
        }
        let weight = weight_of_page(items.len(), values);
        let texts = spans.iter().filter_map(|span| span.of(items)).enumerate();
        let read = |(index, json)| self.parse(json, format_args!("{key}[{index}]")).map(Arc::new);
        let items: Vec<Arc<T>> = texts.map(read).collect::<Result<_, _>>()?;
        Ok(Page::new(Arc::new(PageBody { weight, ..PageBody::new(items) }))
            .next(next.map(|json| self.parse(json, "nextCursor")).transpose()?)
            .cache(self.cache_hint()?.unwrap_or_default())
            .meta(self.user_meta(meta.and_then(|json| serde_json::from_str(json).ok()))))
    }

    /// Reads the result of a custom method: the whole object, without the protocol's own members.
    pub(crate) fn custom(&self) -> Result<JsonText, Error> {
        let mut out = Vec::new();
        let mut object = ObjectWriter::open(&mut out);
        let mut meta = None;
        let walked = scanner::each_member(self.json, |key, value| {
            match &*unquote(key).unwrap_or_default() {
                "_meta" => meta = serde_json::from_str(value).ok(),
                "resultType" if self.codec.revision.has(Feature::ResultTypes) => {}
                key => writer::raw(object.any_key(key), value),
            }
        });
        walked.map_err(|_| self.invalid("it must be a JSON object"))?;
        if let Some(meta) = self.user_meta(meta) {
            object.json("_meta", &meta);
        }
        object.close();
        let text = String::from_utf8(out).map_err(|problem| self.invalid(problem))?;
        RawValue::from_string(text).map(JsonText::from).map_err(|problem| self.invalid(problem))
    }

    pub(crate) fn completion(&self) -> Result<Completion, Error> {
        #[derive(Deserialize)]
        struct Fields {
            completion: Completion,
            #[serde(rename = "_meta")]
            meta: Option<Box<LazyJson<Meta>>>,
        }
        let Fields { mut completion, meta } = self.whole()?;
        completion.meta = self.user_meta(meta);
        Ok(completion)
    }

    pub(crate) fn discovery(&self) -> Result<Discovery, Error> {
        #[derive(Deserialize)]
        struct Fields {
            #[serde(default)]
            capabilities: ServerCapabilities,
            instructions: Option<String>,
        }
        let Fields { mut capabilities, instructions } = self.whole()?;
        if !self.codec.revision.has(Feature::CompletionCapability) {
            // In the first revision servers could not announce completions.
            capabilities.completions = true;
        }
        let cache = self.cache_hint()?.unwrap_or_default();
        Ok(Discovery::default().capabilities(capabilities).instructions(instructions).cache(cache))
    }

    /// Reads the cache hint. An invalid hint counts as none, so the result is not cached.
    pub(crate) fn cache_hint(&self) -> Result<Option<CacheHint>, Error> {
        if !self.codec.revision.has(Feature::CacheHints) {
            return Ok(None);
        }
        let [ttl, scope] = self.members(["ttlMs", "cacheScope"])?;
        let hint = match scope {
            Some("\"public\"") => CacheHint::public,
            _ => CacheHint::private,
        };
        Ok(ttl.and_then(|json| json.parse().ok()).map(hint))
    }

    /// Removes the protocol's fields from a tool result.
    pub(crate) fn strip_protocol_fields(&self, mut it: ToolResult) -> ToolResult {
        it.meta = self.user_meta(it.meta);
        self.strip_protocol_extra(&mut it.extra);
        it
    }

    /// Removes the protocol's members from the `_meta` of a result.
    pub(crate) fn user_meta(
        &self,
        meta: Option<Box<LazyJson<Meta>>>,
    ) -> Option<Box<LazyJson<Meta>>> {
        let mut meta = meta?;
        let ours: &[&str] = match self.method {
            _ if self.codec.revision.has(Feature::ServerInfo) => &[SERVER_INFO, SUBSCRIPTION_ID],
            Method::TaskResult => &[RELATED_TASK],
            _ => &[],
        };
        meta.remove_all(ours);
        (!meta.is_empty_object() || ours.is_empty()).then_some(meta)
    }

    /// Removes the protocol's fields from unknown fields.
    pub(crate) fn strip_protocol_extra(&self, extra: &mut UnknownFields) {
        for (name, feature) in PROTOCOL_FIELDS.into_iter().zip(PROTOCOL_FIELD_FEATURES) {
            if self.codec.revision.has(feature) {
                extra.remove(name);
            }
        }
    }

    fn input_required(&self) -> Result<InputRequired, Error> {
        let [requests, state] = self.members(["inputRequests", "requestState"])?;
        let requests = self.input_requests(requests.unwrap_or("{}"))?;
        let state = state.map(|json| self.parse(json, "requestState")).transpose()?;
        Ok(InputRequired::new(requests, state))
    }

    /// Reads the input requests of a server, each under its key.
    pub(super) fn input_requests(
        &self,
        requests: &'a str,
    ) -> Result<Vec<(String, ClientRequest)>, Error> {
        #[derive(Deserialize)]
        struct InputRequestJson<'a> {
            method: String,
            #[serde(borrow)]
            params: Option<&'a RawValue>,
        }
        if !has_at_most(requests, MAX_RESULT_VALUES) {
            return Err(self.too_many(MAX_RESULT_VALUES, "values in its input requests"));
        }
        let mut found = Vec::new();
        let walked = scanner::each_member(requests, |key, value| {
            if found.len() <= MAX_INPUT_REQUESTS {
                found.push((unquote(key).unwrap_or_default(), value));
            }
        });
        if walked.is_err() {
            return Err(self.invalid("`inputRequests` must be an object"));
        }
        if found.len() > MAX_INPUT_REQUESTS {
            return Err(self.too_many(MAX_INPUT_REQUESTS, "input requests"));
        }
        let read = |(key, value): (std::borrow::Cow<'_, str>, &'a str)| {
            let it: InputRequestJson<'_> =
                self.parse(value, format_args!("inputRequests.{key}"))?;
            let params = it.params.map_or("{}", RawValue::get);
            let request = read_client_request(&it.method, params, self.codec.revision);
            Ok((key.into_owned(), request.map_err(|error| self.invalid(error.message))?))
        };
        found.into_iter().map(read).collect()
    }

    /// Returns the JSON texts of these fields of the result; `null` counts as absent.
    pub(super) fn members<const N: usize>(
        &self,
        names: [&str; N],
    ) -> Result<[Option<&'a str>; N], Error> {
        self.fields(self.json, names)
    }

    /// Returns the JSON texts of these fields of an object within the result.
    pub(super) fn fields<const N: usize>(
        &self,
        json: &'a str,
        names: [&str; N],
    ) -> Result<[Option<&'a str>; N], Error> {
        let mut found = [None; N];
        let walked = scanner::each_member(json, |key, value| {
            let key = unquote(key).unwrap_or_default();
            if let Some(index) = names.iter().position(|name| *name == key) {
                found[index] = Some(value).filter(|json| *json != "null");
            }
        });
        walked.map_err(|_| self.invalid("it must be a JSON object"))?;
        Ok(found)
    }

    pub(crate) fn whole<T: DeserializeOwned>(&self) -> Result<T, Error> {
        self.within_bounds(self.json)?;
        read_object(self.json).map_err(|problem| self.invalid(problem))
    }

    /// Checks that a result does not have too many values to be parsed.
    pub(super) fn within_bounds(&self, json: &str) -> Result<(), Error> {
        match json.len() < MAX_RESULT_VALUES || values_of(json) <= MAX_RESULT_VALUES {
            true => Ok(()),
            false => Err(self.too_many(MAX_RESULT_VALUES, "values")),
        }
    }

    pub(super) fn parse<'b, T: Deserialize<'b>>(
        &self,
        json: &'b str,
        place: impl std::fmt::Display,
    ) -> Result<T, Error> {
        serde_json::from_str(json).map_err(|problem| {
            self.invalid(format_args!("{place}: {problem}")).with_source(problem)
        })
    }

    pub(crate) fn invalid(&self, problem: impl std::fmt::Display) -> Error {
        Error::new(ErrorKind::ValidationFailed)
            .with_message(format!("Invalid result of {}: {problem}", self.method.name()))
            .from_client(FailureOrigin::Protocol)
    }

    pub(super) fn too_many(&self, most: usize, what: &str) -> Error {
        let error = Error::new(ErrorKind::ContentTooLarge).with_message(format!(
            "The result of {} has more than {most} {what}: request less",
            self.method.name()
        ));
        error.from_client(FailureOrigin::Protocol)
    }
}

/// Counts the values of an object; a part that stays text counts as one.
fn values_of(json: &str) -> usize {
    let mut values = 1;
    let walked = scanner::each_member(json, |key, value| {
        let key = unquote(key).unwrap_or_default();
        values += if PARSED_FIELDS.contains(&&*key) { count_values(value) } else { 1 };
    });
    walked.map_or_else(|_| count_values(json), |()| values)
}
