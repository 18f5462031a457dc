//! Extractors of the framework: arguments, state, request extensions, principal, context.

use std::any::type_name;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use wharf_model::{CompletionRequest, Error, ErrorKind, Principal};
use wharf_schema::problem_report;

use crate::{
    context::Ctx,
    handler::{
        extract::{CallInput, Declaration, Extract, Incoming},
        string_args,
    },
    lenient_json,
};

/// Arguments of the call, as a type of the user.
///
/// The arguments of a tool are deserialized from JSON. Those of a prompt or a resource template are
/// strings, parsed as the types of the fields.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod server { pub use super::*; } pub mod middleware { pub use super::*; } }
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use wharf::{Args, Tool};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Search {
///     /// Text to look for.
///     query: String,
///     /// Maximum number of hits.
///     #[serde(default)]
///     limit: Option<u32>,
/// }
///
/// async fn search(Args(Search { query, limit }): Args<Search>) -> String {
///     format!("{} hits for {query}", limit.unwrap_or(10))
/// }
///
/// let tool = Tool::new("search", search);
/// assert_eq!(tool.info().input_schema["required"], serde_json::json!(["query"]));
/// ```
///
/// With `#[tool]`, `#[resource]` and `#[prompt]`, arguments can be parameters of their own instead.
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
            CallInput::Params(json) => {
                lenient_json::from_json(json, call.max_values()).map_err(|error| error.to_string())
            }
            CallInput::Completion(_) => return Err(call.wrong_extractor("Args")),
        };
        // The message may quote the caller's input, which may be long.
        let invalid =
            |text| Error::new(call.input.invalid()).with_message(problem_report::shorten(text));
        read.map(Args).map_err(invalid)
    }
}

/// Arguments of a tool call, or parameters of a custom method, as received: the text of a JSON
/// object.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod server { pub use super::*; } pub mod middleware { pub use super::*; } }
/// use wharf::{RawArgs, Tool};
///
/// async fn forward(RawArgs(arguments): RawArgs) -> String {
///     arguments.get().to_owned()
/// }
///
/// let schema = serde_json::json!({"type": "object"});
/// let tool = Tool::dynamic("forward", schema, forward);
/// # let _ = tool;
/// ```
#[derive(Clone, Debug)]
pub struct RawArgs(pub Box<RawValue>);

impl Extract for RawArgs {
    fn declare(declaration: &mut Declaration) {
        declaration.takes_raw = true;
    }

    fn extract(call: &Incoming<'_>) -> Result<Self, Error> {
        let json = match call.input {
            CallInput::Params(json) => json,
            _ => call.request.arguments(),
        };
        RawValue::from_string(json.to_owned()).map(RawArgs).map_err(Error::invalid_params)
    }
}

/// State shared by all handlers, set with [`RouterBuilder::state`](crate::RouterBuilder::state), or with
/// `Server::state`. Each call gets a clone, so put large or mutable state behind an `Arc`. A server
/// with a handler whose state is missing cannot be built.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod server { pub use super::*; } pub mod middleware { pub use super::*; } }
/// use std::sync::{Arc, Mutex};
/// use wharf::{State, Tool, server::Router};
///
/// #[derive(Clone, Default)]
/// struct Notes(Arc<Mutex<Vec<String>>>);
///
/// async fn count(State(notes): State<Notes>) -> u64 {
///     notes.0.lock().map_or(0, |notes| notes.len() as u64)
/// }
///
/// let tool = || Tool::new("count", count);
/// assert!(Router::builder().state(Notes::default()).add(tool()).build().is_ok());
/// assert!(Router::builder().add(tool()).build().unwrap_err().to_string().contains("Notes"));
/// ```
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
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod server { pub use super::*; } pub mod middleware { pub use super::*; } }
/// use wharf::{Extension, Tool, middleware::from_fn, server::Router};
///
/// #[derive(Clone)]
/// struct RequestId(u64);
///
/// async fn id(Extension(RequestId(id)): Extension<RequestId>) -> u64 {
///     id
/// }
///
/// let router = Router::builder()
///     .layer(from_fn(|mut request, next| async move {
///         request.scope.insert(RequestId(7));
///         next.run(request).await
///     }))
///     .add(Tool::new("id", id))
///     .build()?;
/// # let _ = router;
/// # Ok::<(), wharf::server::BuildError>(())
/// ```
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

/// URI that is being read, for resources.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod server { pub use super::*; } pub mod middleware { pub use super::*; } }
/// use wharf::{Resource, Uri};
///
/// async fn page(Uri(uri): Uri) -> String {
///     format!("This is {uri}.")
/// }
///
/// let pages = Resource::new("pages://{+path}", page);
/// # let _ = pages;
/// ```
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

impl Extract for CompletionRequest {
    fn declare(declaration: &mut Declaration) {
        declaration.takes_completion = true;
    }

    fn extract(call: &Incoming<'_>) -> Result<Self, Error> {
        match call.input {
            CallInput::Completion(request) => Ok(request.clone()),
            _ => Err(call.wrong_extractor("CompletionRequest")),
        }
    }
}
