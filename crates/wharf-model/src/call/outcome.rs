//! Outcome of a call.

use std::{
    io,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    CacheHint, ClientRequest, Completion, Error, JsonText, LazyJson, Meta, PromptInfo,
    PromptResult, ReadResult, ResourceInfo, ServerCapabilities, Task, TemplateInfo, ToolInfo,
    ToolResult,
};

/// Outcome of a call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// Result.
    Complete(Reply),
    /// The call needs input from the client, which calls again with it.
    InputRequired(Box<InputRequired>),
    /// The call continues as a task; its owner requests the result later.
    Task(Box<Task>),
    /// Error.
    Failed(Box<Error>),
}

impl From<Error> for Outcome {
    fn from(error: Error) -> Self {
        Outcome::Failed(Box::new(error))
    }
}

impl From<Reply> for Outcome {
    fn from(reply: Reply) -> Self {
        Outcome::Complete(reply)
    }
}

impl From<ToolResult> for Outcome {
    fn from(result: ToolResult) -> Self {
        Outcome::Complete(Reply::Tool(result))
    }
}

/// Complete result, with one variant for each method.
///
/// A new method of the protocol is a new variant, in a new minor version of this crate.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Of `server/discover`.
    Discover(Box<Discovery>),
    /// Of `tools/list`.
    Tools(Page<ToolInfo>),
    /// Of `tools/call`.
    Tool(ToolResult),
    /// Of `resources/list`.
    Resources(Page<ResourceInfo>),
    /// Of `resources/templates/list`.
    Templates(Page<TemplateInfo>),
    /// Of `resources/read`.
    Read(ReadResult),
    /// Of `prompts/list`.
    Prompts(Page<PromptInfo>),
    /// Of `prompts/get`.
    Prompt(PromptResult),
    /// Of `completion/complete`.
    Completion(Completion),
    /// Of `subscriptions/listen`: the server ended it in good order.
    Listened,
    /// Of `tasks/get`.
    Task(Box<Task>),
    /// Of `tasks/update`: the input was accepted.
    TaskUpdated,
    /// Of `tasks/cancel`.
    TaskCancelled {
        /// Current state of the task.
        task: Box<Task>,
        /// True if the task had ended before, so that nothing was cancelled.
        too_late: bool,
    },
    /// Of `tasks/list`.
    TaskList {
        /// Tasks of the caller, in the order of creation.
        tasks: Vec<Task>,
        /// Cursor of the next page; none on the last page.
        next: Option<String>,
    },
    /// Of a custom method: the text of a JSON object. The protocol's own members (`resultType`, `_meta`) are added
    /// where the revision has them.
    Custom(JsonText),
}

impl Reply {
    /// Returns the cache hint of the result; `None` if it must not be cached.
    #[must_use]
    pub fn cache_hint(&self) -> Option<CacheHint> {
        match self {
            Reply::Tools(page) => Some(page.cache),
            Reply::Resources(page) => Some(page.cache),
            Reply::Templates(page) => Some(page.cache),
            Reply::Prompts(page) => Some(page.cache),
            Reply::Read(result) => result.cache,
            Reply::Discover(_)
            | Reply::Tool(_)
            | Reply::Prompt(_)
            | Reply::Completion(_)
            | Reply::Listened
            | Reply::Task(_)
            | Reply::TaskUpdated
            | Reply::TaskCancelled { .. }
            | Reply::TaskList { .. }
            | Reply::Custom(_) => None,
        }
    }

    /// Writes the items of a page, or any other result, as JSON, to measure it. Discovery and tasks are not written.
    ///
    /// # Errors
    /// If a value cannot be serialized, or `to` has no room.
    pub fn write_content(&self, to: &mut impl io::Write) -> Result<(), serde_json::Error> {
        fn items<T: Serialize>(
            page: &Page<T>,
            to: &mut impl io::Write,
        ) -> Result<(), serde_json::Error> {
            page.items().iter().try_for_each(|item| serde_json::to_writer(&mut *to, &**item))
        }
        match self {
            Reply::Tools(page) => items(page, to),
            Reply::Resources(page) => items(page, to),
            Reply::Templates(page) => items(page, to),
            Reply::Prompts(page) => items(page, to),
            Reply::Tool(it) => serde_json::to_writer(to, it),
            Reply::Read(it) => serde_json::to_writer(to, it),
            Reply::Prompt(it) => serde_json::to_writer(to, it),
            Reply::Completion(it) => serde_json::to_writer(to, it),
            Reply::Custom(it) => serde_json::to_writer(to, it),
            Reply::Discover(_)
            | Reply::Listened
            | Reply::Task(_)
            | Reply::TaskUpdated
            | Reply::TaskCancelled { .. }
            | Reply::TaskList { .. } => Ok(()),
        }
    }

    /// Returns the result as JSON, without the members that a revision adds; `None` for discovery and tasks, which
    /// have a different form in each.
    ///
    /// ```
    /// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
    /// use wharf::model::{Reply, ToolResult};
    ///
    /// let reply = Reply::Tool(ToolResult::text("hello"));
    /// assert_eq!(reply.to_json()?.unwrap()["content"][0]["text"], "hello");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    ///
    /// # Errors
    /// If a value of the application cannot be serialized.
    pub fn to_json(&self) -> Result<Option<Value>, serde_json::Error> {
        fn page<T: Serialize>(name: &str, page: &Page<T>) -> Result<Value, serde_json::Error> {
            let items: Vec<&T> = page.items().iter().map(|item| &**item).collect();
            let mut list = json!({name: serde_json::to_value(items)?});
            if let Some(next) = &page.next {
                list["nextCursor"] = json!(next);
            }
            Ok(list)
        }
        Ok(Some(match self {
            Reply::Tools(it) => page("tools", it)?,
            Reply::Resources(it) => page("resources", it)?,
            Reply::Templates(it) => page("resourceTemplates", it)?,
            Reply::Prompts(it) => page("prompts", it)?,
            Reply::Tool(it) => serde_json::to_value(it)?,
            Reply::Read(it) => serde_json::to_value(it)?,
            Reply::Prompt(it) => serde_json::to_value(it)?,
            Reply::Completion(it) => json!({"completion": it}),
            Reply::Custom(it) => serde_json::to_value(it)?,
            Reply::Listened | Reply::TaskUpdated | Reply::TaskCancelled { .. } => json!({}),
            Reply::Discover(_) | Reply::Task(_) | Reply::TaskList { .. } => return Ok(None),
        }))
    }
}

/// Discovery result of a server. The transport adds name and version.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Discovery {
    /// Capabilities of the server.
    pub capabilities: ServerCapabilities,
    /// Instructions for models that use the server.
    pub instructions: Option<String>,
    /// Cache hint.
    pub cache: CacheHint,
}

crate::setters!(Discovery {
    capabilities: ServerCapabilities,
    instructions: impl Into<Option<String>>,
    cache: CacheHint,
});

/// Input that a call needs from the client.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct InputRequired {
    /// Client requests, each under its key, in order.
    pub requests: Vec<(String, ClientRequest)>,
    /// State that the client returns unchanged.
    pub state: Option<String>,
}

impl InputRequired {
    /// Creates the input from client requests, each under its key, and the state that the client returns.
    #[must_use]
    pub fn new(requests: Vec<(String, ClientRequest)>, state: Option<String>) -> Self {
        InputRequired { requests, state }
    }
}

/// Page of a list.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Page<T> {
    /// Items, shared by all callers that see the same page.
    pub body: Arc<PageBody<T>>,
    /// Cursor of the next page; none on the last page.
    pub next: Option<String>,
    /// Cache hint.
    pub cache: CacheHint,
    /// User-defined `_meta`.
    pub meta: Option<Box<LazyJson<Meta>>>,
}

impl<T> Page<T> {
    /// Creates the last page of a list, without a cache hint.
    #[must_use]
    pub fn new(body: Arc<PageBody<T>>) -> Self {
        Page { body, next: None, cache: CacheHint::default(), meta: None }
    }

    /// Sets the cursor of the next page.
    #[must_use]
    pub fn next(self, next: Option<String>) -> Self {
        Page { next, ..self }
    }

    /// Sets the cache hint.
    #[must_use]
    pub fn cache(self, cache: CacheHint) -> Self {
        Page { cache, ..self }
    }

    /// Sets the user-defined `_meta`.
    #[must_use]
    pub fn meta(self, meta: Option<Box<LazyJson<Meta>>>) -> Self {
        Page { meta, ..self }
    }

    /// Returns the items of the page.
    #[must_use]
    pub fn items(&self) -> &[Arc<T>] {
        &self.body.items
    }
}

/// Items of a page, and their encoded forms.
#[derive(Debug)]
pub struct PageBody<T> {
    /// The items.
    pub items: Vec<Arc<T>>,
    /// Approximate memory of the items: the bytes of their JSON text, and 32 for each value. 0 if they were not
    /// read from text.
    pub weight: usize,
    /// Cache of their encoded forms.
    pub memo: EncodedForms,
}

impl<T> PageBody<T> {
    /// Creates a page body without encoded forms.
    #[must_use]
    pub fn new(items: Vec<Arc<T>>) -> Self {
        PageBody { items, weight: 0, memo: EncodedForms::default() }
    }
}

/// Maximum number of values on a page of a list: a tree takes many times the memory of its text. Parts that stay text do not
/// count.
pub const MAX_PAGE_VALUES: usize = 1_000_000;

/// Returns the approximate memory of the items of a page with this number of bytes of JSON text and of values.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// assert_eq!(wharf::weight_of_page(1000, 10), 1320);
/// ```
#[must_use]
pub const fn weight_of_page(bytes: usize, values: usize) -> usize {
    /// Memory of a value beside its text, in bytes.
    const VALUE_OVERHEAD_BYTES: usize = 32;
    bytes.saturating_add(values.saturating_mul(VALUE_OVERHEAD_BYTES))
}

/// Cache of the encoded forms of an immutable value, with one slot for each form.
#[derive(Debug, Default)]
pub struct EncodedForms([OnceLock<Bytes>; EncodedForms::SLOTS]);

impl EncodedForms {
    /// Number of slots.
    pub const SLOTS: usize = 8;

    /// Returns the bytes in `slot`; encodes them on the first call. A slot beyond the last is not cached.
    pub fn get(&self, slot: usize, encode: impl FnOnce() -> Bytes) -> Bytes {
        match self.0.get(slot) {
            Some(cell) => cell.get_or_init(encode).clone(),
            None => encode(),
        }
    }
}
