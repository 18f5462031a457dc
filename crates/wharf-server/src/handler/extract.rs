//! Extraction: reads the parameters of a handler from the call before the handler runs.

use std::{
    any::{Any, TypeId, type_name},
    borrow::Cow,
    cell::OnceCell,
    fmt,
    sync::Arc,
};

use schemars::JsonSchema;
use wharf_model::{CompletionRequest, Error, ErrorKind, Outbox, Principal, Request, printable};

use crate::{
    call_tracing::method_name,
    context::Ctx,
    handler::string_args::StringArg,
    primitives::resource::ReadMetadata,
    router::state::ServerState,
    schema,
    schema::{ArgumentSchema, validator::SchemaValidator},
};

/// Type that a handler can take as a parameter.
///
/// Extraction is synchronous and runs before the handler's future exists.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod server { pub use super::*; } }
/// use wharf::{Error, Tool, server::{Extract, Incoming}};
///
/// struct Tenant(String);
///
/// impl Extract for Tenant {
///     fn extract(call: &Incoming<'_>) -> Result<Self, Error> {
///         Ok(Tenant(call.principal().map_or("public", |principal| principal.id()).to_owned()))
///     }
/// }
///
/// let tool = Tool::new("whoami", async |Tenant(name): Tenant| name);
/// # let _ = tool;
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a handler",
    label = "not an extractor of Wharf",
    note = "the extractors are `wharf::Args<T>`, `wharf::State<T>`, `wharf::Extension<T>`, \
            `wharf::Ctx`, `wharf::Principal`, `wharf::Uri`, `wharf::RawArgs`, \
            `wharf::CompletionRequest`, and types that implement `wharf::server::Extract`",
    note = "an import such as `use axum::extract::State` hides the type of the same name in \
            `wharf::prelude`: write `wharf::State<T>`"
)]
pub trait Extract: Sized {
    /// Declares the handler's requirements when the server is built.
    fn declare(_declaration: &mut Declaration) {}

    /// Extracts the value from the call.
    fn extract(call: &Incoming<'_>) -> Result<Self, Error>;
}

/// Requirements of a handler, as declared by its parameters.
#[derive(Debug, Default)]
pub struct Declaration {
    pub(crate) arguments: Vec<ArgumentSchema>,
    pub(crate) states: Vec<(TypeId, &'static str)>,
    pub(crate) takes_raw: bool,
    pub(crate) takes_uri: bool,
    pub(crate) takes_completion: bool,
}

impl Declaration {
    /// Declares that the handler takes arguments that deserialize as `T`.
    pub fn arguments<T: JsonSchema>(&mut self) {
        self.arguments.push(schema::derive::input::<T>());
    }

    /// Declares that the handler takes shared state of type `T`.
    pub fn state<T: 'static>(&mut self) {
        self.states.push((TypeId::of::<T>(), type_name::<T>()));
    }
}

/// Call that is dispatched to a handler.
pub struct Incoming<'a> {
    pub(crate) request: Request,
    pub(crate) outbox: Outbox,
    pub(crate) server: &'a Arc<ServerState>,
    pub(crate) input: CallInput<'a>,
    /// Validator of the arguments; `None` for a completion.
    pub(crate) validator: Option<&'a SchemaValidator>,
    ctx: OnceCell<Ctx>,
}

/// Source of a handler's arguments.
#[derive(Clone, Copy)]
pub(crate) enum CallInput<'a> {
    /// A tool: the request's own JSON.
    Json,
    /// A prompt: decoded strings.
    Prompt(&'a [(Cow<'a, str>, StringArg)]),
    /// A resource: strings decoded from its URI.
    Resource(&'a [(Cow<'a, str>, StringArg)], &'a ReadMetadata),
    /// A completion.
    Completion(&'a CompletionRequest),
    /// A custom method: the text of its parameters, a JSON object.
    Params(&'a str),
}

impl<'a> Incoming<'a> {
    pub(crate) fn new(
        request: Request,
        outbox: Outbox,
        server: &'a Arc<ServerState>,
        input: CallInput<'a>,
        validator: Option<&'a SchemaValidator>,
    ) -> Self {
        Incoming { request, outbox, server, input, validator, ctx: OnceCell::new() }
    }

    /// Returns the request.
    #[must_use]
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Returns the principal, if the caller was authenticated.
    #[must_use]
    pub fn principal(&self) -> Option<&Principal> {
        self.request.principal()
    }

    /// Returns a request extension that outer middleware added.
    #[must_use]
    pub fn extension<T: Clone + Send + Sync + 'static>(&self) -> Option<&T> {
        self.request.scope.get()
    }

    /// Returns the server's shared state of type `T`.
    #[must_use]
    pub fn state<T: Any>(&self) -> Option<&T> {
        self.server.states.get(&TypeId::of::<T>())?.downcast_ref()
    }

    /// Returns the context of the call, created on first use.
    #[must_use]
    pub fn ctx(&self) -> Ctx {
        self.ctx.get_or_init(|| Ctx::new(self.outbox.clone(), self.server.clone())).clone()
    }

    /// Logs a mistake in the configuration of the server. The client receives only an internal
    /// error.
    pub(crate) fn configuration_error(&self, problem: impl fmt::Display) -> Error {
        let (method, target) = (method_name(&self.request), self.request.target());
        tracing::error!(
            method = &*method,
            handler = printable(&target),
            "cannot run handler: it {problem}"
        );
        Error::new(ErrorKind::InternalError)
    }

    pub(crate) fn wrong_extractor(&self, extractor: &str) -> Error {
        self.configuration_error(format_args!(
            "takes `{extractor}`, which its kind of call does not have"
        ))
    }

    /// Maximum number of values in an argument tree.
    pub(crate) fn max_values(&self) -> usize {
        self.server.limits.argument_values
    }

    /// Ends extraction: moves the request into the context, if a parameter created one.
    pub(crate) fn into_ctx(self) -> Option<Ctx> {
        let ctx = self.ctx.into_inner()?;
        ctx.fill(self.request);
        Some(ctx)
    }
}

/// Functions of an extractor, for the macros.
#[doc(hidden)]
#[derive(Debug)]
pub struct Extractor<T> {
    pub declare: fn(&mut Declaration),
    pub extract: fn(&Incoming<'_>) -> Result<T, Error>,
}

/// Returns the functions of an extractor, for the macros.
#[doc(hidden)]
#[must_use]
pub const fn extractor<T: Extract>() -> Extractor<T> {
    Extractor { declare: T::declare, extract: T::extract }
}
