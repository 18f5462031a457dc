//! Extractors: parameters of handlers, read from the call before the handler runs.

use std::{
    any::{Any, TypeId, type_name},
    borrow::Cow,
    cell::OnceCell,
    collections::BTreeMap,
    fmt,
    sync::Arc,
};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use wharf_model::{Completion, CompletionRequest, Error, ErrorKind, Outbox, Principal, Request};
use wharf_schema::problems;

use crate::{
    context::Ctx,
    handler::{string_args, string_args::StringArg},
    lenient_json,
    middleware::printable,
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
    label = "not an extractor",
    note = "take arguments as `Args<T>`, shared state as `State<T>`, values from middleware as \
            `Extension<T>`, and `Ctx`, `Principal`, `Uri`, `RawArgs` or `Completing` as they are"
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
    pub(crate) takes_completing: bool,
}

impl Declaration {
    /// Declares that the handler takes arguments that deserialize as `T`.
    pub fn arguments<T: JsonSchema>(&mut self) {
        self.arguments.push(schema::input::<T>());
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
}

impl CallInput<'_> {
    /// Returns the kind of the error for invalid arguments.
    fn invalid(self) -> ErrorKind {
        match self {
            CallInput::Json => ErrorKind::InvalidToolArguments,
            CallInput::Prompt(_) => ErrorKind::InvalidPromptArguments,
            CallInput::Resource(..) | CallInput::Completion(_) => ErrorKind::InvalidParams,
        }
    }
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

    /// Extracts a handler's parameters, and validates its arguments against their schema.
    pub(crate) fn read<A: Extract>(&self) -> Result<A, Error> {
        let parameters = A::extract(self).map_err(|error| self.explain(error))?;
        let Some(validator) = self.validator else { return Ok(parameters) };
        let checked = match self.input {
            CallInput::Json => validator.check_json(self.request.arguments(), self.max_values()),
            CallInput::Prompt(pairs) | CallInput::Resource(pairs, _) => {
                validator.check_strings(pairs)
            }
            CallInput::Completion(_) => Ok(()),
        };
        checked.map(|()| parameters).map_err(|problems| self.invalid(&problems))
    }

    /// Adds details to the error for tool arguments that could not be deserialized: serde does not
    /// name the fields.
    fn explain(&self, error: Error) -> Error {
        let Some(validator) = self.validator.filter(|_| error.kind.is_invalid_tool_arguments())
        else {
            return error;
        };
        match validator.explain_json(self.request.arguments(), self.max_values()) {
            Some(problems) => self.invalid(&problems),
            None => self.invalid(&format!("- {}", error.message)),
        }
    }

    /// Logs a mistake in the configuration of the server. The client receives only an internal
    /// error.
    fn configuration_error(&self, problem: impl fmt::Display) -> Error {
        let (method, target) = (self.request.method.name(), self.request.target());
        tracing::error!(method, handler = printable(&target), "cannot run handler: it {problem}");
        Error::new(ErrorKind::InternalError)
    }

    fn wrong_extractor(&self, extractor: &str) -> Error {
        self.configuration_error(format_args!(
            "takes `{extractor}`, which its kind of call does not have"
        ))
    }

    /// Maximum number of values in an argument tree.
    fn max_values(&self) -> usize {
        self.server.limits.argument_values
    }

    fn invalid(&self, problems: &str) -> Error {
        let (target, kind) = (self.request.target(), self.input.invalid());
        let signature = self.validator.map(SchemaValidator::signature).unwrap_or_default();
        Error::new(kind).with_message(format!(
            "Invalid arguments for `{target}`:\n{problems}\nIt takes: {signature}"
        ))
    }

    /// Ends extraction: moves the request into the context, if a parameter created one.
    pub(crate) fn into_ctx(self) -> Option<Ctx> {
        let ctx = self.ctx.into_inner()?;
        ctx.fill(self.request);
        Some(ctx)
    }
}

/// Arguments of the call, as a type of the user.
///
/// The arguments of a tool are deserialized from JSON. Those of a prompt or a resource template are
/// strings, parsed as the types of the fields.
#[derive(Clone, Copy, Debug, Default)]
pub struct Args<T>(pub T);

impl<T: DeserializeOwned + JsonSchema> Extract for Args<T> {
    fn declare(declaration: &mut Declaration) {
        declaration.arguments::<T>();
    }

    fn extract(call: &Incoming<'_>) -> Result<Self, Error> {
        let read = match call.input {
            CallInput::Json => lenient_json::from_json(call.request.arguments(), call.max_values())
                .map_err(|error| error.to_string()),
            CallInput::Prompt(pairs) | CallInput::Resource(pairs, _) => {
                string_args::from_strings(pairs)
            }
            CallInput::Completion(_) => return Err(call.wrong_extractor("Args")),
        };
        // The message may quote the caller's input, which may be long.
        let invalid = |text| Error::new(call.input.invalid()).with_message(problems::shorten(text));
        read.map(Args).map_err(invalid)
    }
}

/// Arguments of a tool call as received: the text of a JSON object.
#[derive(Clone, Debug)]
pub struct RawArgs(pub Box<RawValue>);

impl Extract for RawArgs {
    fn declare(declaration: &mut Declaration) {
        declaration.takes_raw = true;
    }

    fn extract(call: &Incoming<'_>) -> Result<Self, Error> {
        RawValue::from_string(call.request.arguments().to_owned()).map(RawArgs).map_err(Error::from)
    }
}

/// State shared by all handlers, set with [`RouterBuilder::state`](crate::RouterBuilder::state).
#[derive(Clone, Copy, Debug, Default)]
pub struct State<T>(pub T);

impl<T: Clone + Send + Sync + 'static> Extract for State<T> {
    fn declare(declaration: &mut Declaration) {
        declaration.state::<T>();
    }

    fn extract(call: &Incoming<'_>) -> Result<Self, Error> {
        // The builder checked that it exists.
        call.state::<T>().cloned().map(State).ok_or_else(|| Error::new(ErrorKind::InternalError))
    }
}

/// Request extension that outer middleware added. Take an `Option` of it if it may be missing.
///
/// Without the `Option`, a call that lacks the extension fails with an internal error, which is all
/// that the client receives. The missing type and the handler are logged with `tracing`, so a
/// `tracing` subscriber must be installed to see them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extension<T>(pub T);

impl<T: Clone + Send + Sync + 'static> Extract for Extension<T> {
    fn extract(call: &Incoming<'_>) -> Result<Self, Error> {
        call.extension::<T>().cloned().map(Extension).ok_or_else(|| {
            call.configuration_error(format_args!(
                "takes `Extension<{}>`, but no middleware added one",
                type_name::<T>()
            ))
        })
    }
}

impl<T: Clone + Send + Sync + 'static> Extract for Option<Extension<T>> {
    fn extract(call: &Incoming<'_>) -> Result<Self, Error> {
        Ok(call.extension::<T>().cloned().map(Extension))
    }
}

impl Extract for Principal {
    fn extract(call: &Incoming<'_>) -> Result<Self, Error> {
        call.principal().cloned().ok_or_else(|| Error::new(ErrorKind::Unauthenticated))
    }
}

impl Extract for Option<Principal> {
    fn extract(call: &Incoming<'_>) -> Result<Self, Error> {
        Ok(call.principal().cloned())
    }
}

impl Extract for Ctx {
    fn extract(call: &Incoming<'_>) -> Result<Self, Error> {
        Ok(call.ctx())
    }
}

/// URI that is being read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Uri(pub String);

impl Extract for Uri {
    fn declare(declaration: &mut Declaration) {
        declaration.takes_uri = true;
    }

    fn extract(call: &Incoming<'_>) -> Result<Self, Error> {
        match call.input {
            CallInput::Resource(..) => Ok(Uri(call.request.target().into_owned())),
            _ => Err(call.wrong_extractor("Uri")),
        }
    }
}

/// Argument to complete, for completion functions.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; }
/// use wharf::Completing;
///
/// let typing = Completing::default().value("Py");
/// assert_eq!(typing.matching(["perl", "python", "rust"]).values, ["python"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Completing {
    /// Value typed so far.
    pub value: String,
    /// Name of the argument.
    pub argument: String,
    /// Arguments that already have a value.
    pub context: BTreeMap<String, String>,
}

wharf_model::setters!(Completing {
    value: impl Into<String>,
    argument: impl Into<String>,
    context: BTreeMap<String, String>,
});

impl Completing {
    /// Returns the candidates that begin with the typed value, ignoring case, in their order.
    pub fn matching(&self, candidates: impl IntoIterator<Item: Into<String>>) -> Completion {
        let typed = self.value.to_lowercase();
        Completion::new(
            candidates
                .into_iter()
                .map(Into::into)
                .filter(|candidate: &String| candidate.to_lowercase().starts_with(&typed)),
        )
    }
}

impl Extract for Completing {
    fn declare(declaration: &mut Declaration) {
        declaration.takes_completing = true;
    }

    fn extract(call: &Incoming<'_>) -> Result<Self, Error> {
        let CallInput::Completion(asked) = call.input else {
            return Err(call.wrong_extractor("Completing"));
        };
        Ok(Completing {
            value: asked.value.clone(),
            argument: asked.argument.clone(),
            context: asked.context.clone(),
        })
    }
}
