//! How a call ended.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::{
    CacheHint, ClientRequest, Completion, Error, LazyJson, Meta, PromptInfo, PromptResult,
    ReadResult, ResourceInfo, ServerCapabilities, Task, TemplateInfo, ToolInfo, ToolResult,
};

/// How a call ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// With a result.
    Complete(Reply),
    /// It needs answers from the client first; the client calls again with them.
    InputRequired(Box<InputRequired>),
    /// It goes on as a task, whose owner asks for the result later.
    Task(Box<Task>),
    /// With an error.
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

/// A complete result, one variant a method.
#[derive(Clone, Debug)]
#[non_exhaustive]
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
    /// Of `tasks/update`: the answers were taken.
    TaskUpdated,
    /// Of `tasks/cancel`.
    TaskCancelled {
        /// The task as it is now.
        task: Box<Task>,
        /// Whether it had ended before, so that there was nothing to cancel.
        too_late: bool,
    },
    /// Of `tasks/list`.
    TaskList {
        /// The caller's tasks, in the order they were created.
        tasks: Vec<Task>,
        /// Where the next page begins; none on the last.
        next: Option<String>,
    },
}

/// What a server says about itself. Its name and version are the transport's to add.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Discovery {
    /// What the server can do.
    pub capabilities: ServerCapabilities,
    /// How a model should use the server.
    pub instructions: Option<String>,
    /// How long this stays true.
    pub cache: CacheHint,
}

/// What the client must answer before the call can end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InputRequired {
    /// The questions, each under its key, in the order they were asked.
    pub requests: Vec<(String, ClientRequest)>,
    /// What the client sends back untouched.
    pub state: Option<String>,
}

/// One page of a list.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// The items, shared by every caller that sees the same page.
    pub body: Arc<PageBody<T>>,
    /// Where the next page begins; none on the last.
    pub next: Option<String>,
    /// How long this stays true, and for whom.
    pub cache: CacheHint,
    /// The user's own metadata.
    pub meta: Option<Box<LazyJson<Meta>>>,
}

impl<T> Page<T> {
    /// The items of the page.
    #[must_use]
    pub fn items(&self) -> &[Arc<T>] {
        &self.body.items
    }
}

/// The items of a page, and their encoded forms.
#[derive(Debug)]
pub struct PageBody<T> {
    /// The items.
    pub items: Vec<Arc<T>>,
    /// What they weigh: the bytes of their JSON text, and 32 for each value in it, for what is made
    /// of them takes more room than text. 0 if they never were text.
    pub weight: usize,
    /// Their encoded forms, filled in by whoever encodes.
    pub memo: Memo,
}

impl<T> PageBody<T> {
    /// A page body with nothing encoded yet.
    #[must_use]
    pub fn new(items: Vec<Arc<T>>) -> Self {
        PageBody { items, weight: 0, memo: Memo::default() }
    }
}

/// Encoded forms of something that does not change, one slot a form.
#[derive(Debug, Default)]
pub struct Memo([OnceLock<Bytes>; Memo::SLOTS]);

impl Memo {
    /// How many forms a memo holds.
    pub const SLOTS: usize = 8;

    /// The bytes in `slot`, made on the first call. A slot past the last is never kept.
    pub fn get(&self, slot: usize, encode: impl FnOnce() -> Bytes) -> Bytes {
        match self.0.get(slot) {
            Some(cell) => cell.get_or_init(encode).clone(),
            None => encode(),
        }
    }
}
