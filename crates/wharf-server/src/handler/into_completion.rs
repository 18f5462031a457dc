//! Return types of completion functions.

use std::sync::Arc;

use wharf_model::{Completion, Error, Outcome, Reply};

use crate::handler::{
    AsyncEndpoint, Endpoint, Handler, InlineEndpoint, PlainHandler, ReturnConverter,
    extract::{Declaration, Extract, Incoming},
    tool_error::IntoToolError,
};
use crate::router::complete::{cut_values, max_values};

/// Type that a completion function can return.
#[diagnostic::on_unimplemented(
    message = "a completion cannot return `{Self}`",
    label = "not a completion",
    note = "return a list of strings, `Completion`, or a `Result` of these whose error is a `ToolError` or any `std::error::Error`"
)]
pub trait IntoCompletion {
    /// Converts to the values, best first.
    fn into_completion(self) -> Result<Completion, Error>;
}

impl IntoCompletion for Completion {
    fn into_completion(self) -> Result<Completion, Error> {
        Ok(self)
    }
}

impl IntoCompletion for Vec<String> {
    fn into_completion(self) -> Result<Completion, Error> {
        Ok(Completion::new(self))
    }
}

impl IntoCompletion for Vec<&'static str> {
    fn into_completion(self) -> Result<Completion, Error> {
        Ok(Completion::new(self))
    }
}

impl<const N: usize> IntoCompletion for [&'static str; N] {
    fn into_completion(self) -> Result<Completion, Error> {
        Ok(Completion::new(self))
    }
}

impl<T: IntoCompletion, E: IntoToolError> IntoCompletion for Result<T, E> {
    fn into_completion(self) -> Result<Completion, Error> {
        self.map_err(|error| Error::from(error.into_tool_error()))?.into_completion()
    }
}

/// Function that completes an argument: plain and fast, or async. `M` distinguishes the two and is
/// inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not complete an argument",
    label = "not a function of extractors that returns a completion",
    note = "take `CompletionRequest` (and `State<T>`, `Principal` … if needed) and return a list of \
            strings or a `Completion`, from a plain or an async function"
)]
pub trait Completer<M>: Sized {
    #[doc(hidden)]
    fn into_completer(self) -> CompleterParts;
}

/// Type-erased completer.
#[doc(hidden)]
pub struct CompleterParts {
    pub(crate) endpoint: Arc<dyn Endpoint>,
    pub(crate) declaration: Declaration,
}

impl CompleterParts {
    fn new<A: Extract>(endpoint: Arc<dyn Endpoint>) -> Self {
        let mut declaration = Declaration::default();
        A::declare(&mut declaration);
        CompleterParts { endpoint, declaration }
    }
}

/// Marks async completers.
#[doc(hidden)]
pub enum ViaAsync {}

/// Marks plain completers.
#[doc(hidden)]
pub enum ViaPlain {}

impl<F, A> Completer<(ViaAsync, A)> for F
where
    F: Handler<A>,
    F::Output: IntoCompletion,
    A: Extract + 'static,
{
    fn into_completer(self) -> CompleterParts {
        CompleterParts::new::<A>(AsyncEndpoint::<F, A, CompletionConverter>::endpoint(self))
    }
}

impl<F, A> Completer<(ViaPlain, A)> for F
where
    F: PlainHandler<A>,
    F::Output: IntoCompletion,
    A: Extract + Send + 'static,
{
    fn into_completer(self) -> CompleterParts {
        CompleterParts::new::<A>(InlineEndpoint::<F, A, CompletionConverter>::endpoint(self))
    }
}

pub(crate) struct CompletionConverter {
    max_values: usize,
}

impl<R: IntoCompletion> ReturnConverter<R> for CompletionConverter {
    fn for_call(incoming: &Incoming<'_>) -> Self {
        CompletionConverter { max_values: max_values(incoming.server) }
    }

    fn convert(self, returned: R) -> Outcome {
        match returned.into_completion() {
            Ok(mut completion) => {
                cut_values(&mut completion, self.max_values);
                Reply::Completion(completion).into()
            }
            Err(error) => error.into(),
        }
    }
}
