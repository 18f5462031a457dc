//! Prompts.

use std::{fmt, sync::Arc, time::Duration};

use serde_json::Value;
use wharf_model::{PromptArgument, PromptInfo, ResourceInfo};

use crate::{
    handler::{
        AsyncEndpoint, BlockingEndpoint, Endpoint, Handler, InlineEndpoint, PlainHandler,
        extract::{Declaration, Extract},
        into_completion::Completer,
        into_prompt::{IntoPrompt, PromptConverter},
    },
    primitives::{
        common_setters::described, completion::CompleterTable, extension::ProtocolExtension,
    },
    schema,
    schema::ArgumentSchema,
};

/// Prompt: messages that a user can select, made by a function.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; }
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use wharf::{Args, Prompt};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Review { code: String, language: Option<String> }
///
/// async fn review(Args(it): Args<Review>) -> String {
///     format!("Review this {} code:\n{}", it.language.unwrap_or_default(), it.code)
/// }
///
/// let prompt = Prompt::new("review", review).complete_from("language", ["python", "rust"]);
/// assert!(prompt.info().arguments[0].required && !prompt.info().arguments[1].required);
/// ```
#[must_use]
pub struct Prompt {
    pub(crate) info: PromptInfo,
    pub(crate) endpoint: Arc<dyn Endpoint>,
    pub(crate) declaration: Declaration,
    pub(crate) typed: ArgumentSchema,
    pub(crate) completions: CompleterTable,
    /// Titles that were set for arguments that do not exist.
    pub(crate) unknown_titles: Vec<String>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) scopes: Vec<String>,
    pub(crate) shown_with: Option<ResourceInfo>,
    pub(crate) extensions: Vec<fn() -> ProtocolExtension>,
}

impl Prompt {
    /// Creates a prompt from an async function.
    pub fn new<A, F>(name: impl Into<String>, handler: F) -> Self
    where
        F: Handler<A>,
        F::Output: IntoPrompt,
        A: Extract + 'static,
    {
        Prompt::make::<A>(name.into(), AsyncEndpoint::<F, A, PromptConverter>::endpoint(handler))
    }

    /// Creates a prompt from a plain function that may block; it runs on its own thread.
    pub fn blocking<A, F>(name: impl Into<String>, handler: F) -> Self
    where
        F: PlainHandler<A>,
        F::Output: IntoPrompt,
        A: Extract + Send + 'static,
    {
        Prompt::make::<A>(name.into(), BlockingEndpoint::<F, A, PromptConverter>::endpoint(handler))
    }

    /// Creates a prompt from a plain function that runs in place: it must be fast and must not
    /// block.
    pub fn inline<A, F>(name: impl Into<String>, handler: F) -> Self
    where
        F: PlainHandler<A>,
        F::Output: IntoPrompt,
        A: Extract + Send + 'static,
    {
        Prompt::make::<A>(name.into(), InlineEndpoint::<F, A, PromptConverter>::endpoint(handler))
    }

    fn make<A: Extract>(name: String, endpoint: Arc<dyn Endpoint>) -> Self {
        let mut declaration = Declaration::default();
        A::declare(&mut declaration);
        let typed = declaration.arguments.first().cloned().unwrap_or_else(ArgumentSchema::anything);
        let mut info = PromptInfo::new(name);
        info.arguments = schema::properties(&typed.schema)
            .map(|(name, property)| {
                let text = |key| property.get(key).and_then(Value::as_str).map(str::to_owned);
                let mut argument = PromptArgument::new(name);
                argument.title = text("title");
                argument.description = text("description");
                argument.required = schema::requires(&typed.schema, name);
                argument
            })
            .collect();
        let (completions, unknown_titles) = (CompleterTable::default(), Vec::new());
        Prompt {
            info,
            endpoint,
            declaration,
            typed,
            completions,
            unknown_titles,
            timeout: None,
            scopes: Vec::new(),
            shown_with: None,
            extensions: Vec::new(),
        }
    }

    /// Returns the prompt as clients receive it.
    #[must_use]
    pub fn info(&self) -> &PromptInfo {
        &self.info
    }

    /// Sets an argument's display name. Building the server fails if there is no such argument.
    pub fn argument_title(mut self, argument: &str, title: impl Into<String>) -> Self {
        match self.info.arguments.iter_mut().find(|it| it.name == argument) {
            Some(it) => it.title = Some(title.into()),
            None => self.unknown_titles.push(argument.into()),
        }
        self
    }

    /// Hides the prompt from callers from whom the [access hook](crate::Access) hides this resource, which need not be
    /// registered: for a prompt that tells what is in it.
    pub fn shown_with(mut self, resource: ResourceInfo) -> Self {
        self.shown_with = Some(resource);
        self
    }

    /// Completes an argument with a plain or an async function.
    pub fn complete<M>(
        mut self,
        argument: impl Into<String>,
        completer: impl Completer<M>,
    ) -> Self {
        self.completions.add(argument.into(), completer.into_completer());
        self
    }

    /// Completes an argument from these values.
    pub fn complete_from(
        mut self,
        argument: impl Into<String>,
        values: impl IntoIterator<Item: Into<String>>,
    ) -> Self {
        self.completions.add_values(argument.into(), values);
        self
    }
}

described!(Prompt, "prompt");

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt").field("info", &self.info).finish_non_exhaustive()
    }
}
