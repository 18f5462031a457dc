//! Outcome of a call.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

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

/// Discovery result of a server. The transport adds name and version.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Discovery {
    /// Capabilities of the server.
    pub capabilities: ServerCapabilities,
    /// Instructions for models that use the server.
    pub instructions: Option<String>,
    /// Cache hint.
    pub cache: CacheHint,
}

/// Input that a call needs from the client.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InputRequired {
    /// Client requests, each under its key, in order.
    pub requests: Vec<(String, ClientRequest)>,
    /// State that the client returns unchanged.
    pub state: Option<String>,
}

/// Page of a list.
#[derive(Clone, Debug)]
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
