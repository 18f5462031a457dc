//! Tools.

use std::{fmt, sync::Arc, time::Duration};

use serde_json::Value;
use wharf_model::{Execution, ToolAnnotations, ToolInfo};

use crate::{
    handler::{
        AsyncEndpoint, BlockingEndpoint, Endpoint, Handler, InlineEndpoint, PlainHandler,
        extract::{Declaration, Extract},
        into_tool::{IntoToolOutcome, ToolConverter},
    },
    primitives::{common_setters::described, extension::ProtocolExtension},
    schema::ArgumentSchema,
    tasks::{
        TaskMode,
        runtime::{TASK_RUNTIME, TaskRuntime},
    },
};

/// Tool: a function that models can call.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; }
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use wharf::{Args, Tool};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Add { a: i64, b: i64 }
///
/// async fn add(Args(Add { a, b }): Args<Add>) -> i64 {
///     a + b
/// }
///
/// let tool = Tool::new("add", add).description("Adds two numbers.").read_only();
/// assert_eq!(tool.info().input_schema["required"], serde_json::json!(["a", "b"]));
/// ```
#[must_use]
pub struct Tool {
    pub(crate) info: ToolInfo,
    pub(crate) endpoint: Arc<dyn Endpoint>,
    pub(crate) declaration: Declaration,
    pub(crate) stricter_than_type: bool,
    pub(crate) has_content: bool,
    /// True if the schema is hand-written: then it is validated when the server is built.
    pub(crate) own_input: bool,
    pub(crate) own_output: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) scopes: Vec<String>,
    pub(crate) extensions: Vec<fn() -> ProtocolExtension>,
    pub(crate) task: Option<TaskMode>,
    /// Set together with `task`, so that only servers with tasks link the runtime.
    pub(crate) task_runtime: Option<&'static dyn TaskRuntime>,
}

impl Tool {
    /// Creates a tool from an async function.
    pub fn new<A, F>(name: impl Into<String>, handler: F) -> Self
    where
        F: Handler<A>,
        F::Output: IntoToolOutcome,
        A: Extract + 'static,
    {
        let endpoint = AsyncEndpoint::<F, A, ToolConverter>::endpoint(handler);
        Tool::make::<A, F::Output>(name.into(), endpoint)
    }

    /// Creates a tool from a plain function that may block; it runs on its own thread.
    pub fn blocking<A, F>(name: impl Into<String>, handler: F) -> Self
    where
        F: PlainHandler<A>,
        F::Output: IntoToolOutcome,
        A: Extract + Send + 'static,
    {
        let endpoint = BlockingEndpoint::<F, A, ToolConverter>::endpoint(handler);
        Tool::make::<A, F::Output>(name.into(), endpoint)
    }

    /// Creates a tool from a plain function that runs in place: it must be fast and must not block.
    pub fn inline<A, F>(name: impl Into<String>, handler: F) -> Self
    where
        F: PlainHandler<A>,
        F::Output: IntoToolOutcome,
        A: Extract + Send + 'static,
    {
        let endpoint = InlineEndpoint::<F, A, ToolConverter>::endpoint(handler);
        Tool::make::<A, F::Output>(name.into(), endpoint)
    }

    /// Creates a tool whose arguments are described at run time by a JSON Schema. They are
    /// validated against the schema before the handler runs.
    ///
    /// ```
    /// # mod wharf { pub use {wharf_model::*, wharf_server::*}; }
    /// use serde_json::json;
    /// use wharf::{RawArgs, Tool};
    ///
    /// let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}}});
    /// let tool = Tool::dynamic("echo", schema, async |RawArgs(json): RawArgs| json.get().to_owned());
    /// # let _ = tool;
    /// ```
    pub fn dynamic<A, F>(name: impl Into<String>, schema: Value, handler: F) -> Self
    where
        F: Handler<A>,
        F::Output: IntoToolOutcome,
        A: Extract + 'static,
    {
        Tool::new(name, handler).input_schema(schema)
    }

    fn make<A: Extract, R: IntoToolOutcome>(name: String, endpoint: Arc<dyn Endpoint>) -> Self {
        let mut declaration = Declaration::default();
        A::declare(&mut declaration);
        let typed = match declaration.arguments.first() {
            Some(typed) => typed.clone(),
            None if declaration.takes_raw => ArgumentSchema::anything(),
            None => ArgumentSchema::nothing(),
        };
        let mut info = ToolInfo::new(name, typed.schema);
        info.output_schema = R::output_schema().map(Into::into);
        Tool {
            info,
            endpoint,
            declaration,
            stricter_than_type: typed.stricter_than_type,
            has_content: R::has_content(),
            own_input: false,
            own_output: false,
            timeout: None,
            scopes: Vec::new(),
            extensions: Vec::new(),
            task: None,
            task_runtime: None,
        }
    }

    /// Returns the tool as clients receive it.
    #[must_use]
    pub fn info(&self) -> &ToolInfo {
        &self.info
    }

    /// Returns whether its results can have content for the model: false for a function that returns `()`.
    #[must_use]
    pub fn has_content(&self) -> bool {
        self.has_content
    }

    /// Hints that the tool changes nothing.
    pub fn read_only(self) -> Self {
        self.hint(|hints| hints.read_only_hint = Some(true))
    }

    /// Hints that the tool may destroy something.
    pub fn destructive(self) -> Self {
        self.hint(|hints| hints.destructive_hint = Some(true))
    }

    /// Hints that calling the tool twice does no more than calling it once.
    pub fn idempotent(self) -> Self {
        self.hint(|hints| hints.idempotent_hint = Some(true))
    }

    /// Hints whether the tool interacts with external systems.
    pub fn open_world(self, open: bool) -> Self {
        self.hint(|hints| hints.open_world_hint = Some(open))
    }

    /// Hints that the tool does not interact with external systems.
    pub fn closed_world(self) -> Self {
        self.open_world(false)
    }

    /// Replaces the schema of the arguments. Every call is validated against it.
    pub fn input_schema(mut self, schema: Value) -> Self {
        self.info.input_schema = schema.into();
        (self.own_input, self.stricter_than_type) = (true, true);
        self
    }

    /// Replaces the schema of the structured content. Every result is validated against it.
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.info.output_schema = Some(schema.into());
        self.own_output = true;
        self
    }

    /// Sets whether and when its calls become tasks. Without it they do so only if the server has a
    /// [threshold](crate::TaskOptions::threshold).
    ///
    /// ```
    /// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod tasks { pub use super::*; } }
    /// use wharf::{Ctx, Tool, tasks::TaskMode};
    ///
    /// async fn render(ctx: Ctx) -> String {
    ///     let frames = ctx.step("frames", async { 24 }).await;
    ///     format!("rendered {frames} frames")
    /// }
    ///
    /// let tool = Tool::new("render", render).task(TaskMode::optional());
    /// # let _ = tool;
    /// ```
    pub fn task(mut self, mode: TaskMode) -> Self {
        let execution = Execution::default().task_support(mode.support.clone());
        self.info.execution = Some(execution);
        (self.task, self.task_runtime) = (Some(mode), Some(TASK_RUNTIME));
        self
    }

    fn hint(mut self, set: impl FnOnce(&mut ToolAnnotations)) -> Self {
        set(self.info.annotations.get_or_insert_default());
        self
    }
}

described!(Tool, "tool");

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("info", &self.info).finish_non_exhaustive()
    }
}
