//! Handlers: plain functions of extractors, implemented by one macro for all arities.

pub(crate) mod block_on;
pub(crate) mod blocking;
pub(crate) mod builtin_extractors;
pub(crate) mod extract;
pub(crate) mod into_completion;
pub(crate) mod into_contents;
pub(crate) mod into_method_result;
pub(crate) mod into_prompt;
pub(crate) mod into_tool;
mod masked_errors;
pub(crate) mod request_state;
pub(crate) mod string_args;
pub(crate) mod suspend;
pub(crate) mod tool_error;

use std::{future::Future, marker::PhantomData, sync::Arc};

use wharf_model::{BoxFuture, Error, Outcome};

use crate::{
    context::Ctx,
    handler::extract::{Declaration, Extract, Incoming},
};

/// Async function of up to twelve extractors. Implemented for every such function and closure.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an async handler",
    label = "not an async function of extractors",
    note = "a handler is an `async fn` of up to 12 parameters, each of which implements `Extract`, \
            and its future is `Send`; for a plain `fn` use `blocking` or `inline`",
    note = "a closure that captures something is written `move || {{ let it = it.clone(); async \
            move {{ … }} }}`, because each call needs a future of its own"
)]
pub trait Handler<A>: Send + Sync + 'static {
    /// Output of the function's future.
    type Output;
    /// Future of the function.
    type Future: Future<Output = Self::Output> + Send + 'static;

    /// Calls the function.
    fn call(&self, parameters: A) -> Self::Future;
}

/// Plain function of up to twelve extractors. Implemented for every such function and closure.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    label = "not a function of extractors",
    note = "a handler is a function of up to 12 parameters, each of which implements `Extract`"
)]
pub trait PlainHandler<A>: Send + Sync + 'static {
    /// Return type of the function.
    type Output;

    /// Calls the function.
    fn call(&self, parameters: A) -> Self::Output;
}

macro_rules! handlers {
    ($($T:ident)*) => {
        impl<Function, Fut, $($T,)*> Handler<($($T,)*)> for Function
        where
            Function: Fn($($T),*) -> Fut + Send + Sync + 'static,
            Fut: Future + Send + 'static,
        {
            type Output = Fut::Output;
            type Future = Fut;

            #[allow(non_snake_case)]
            fn call(&self, ($($T,)*): ($($T,)*)) -> Fut {
                self($($T),*)
            }
        }

        impl<Function, Output, $($T,)*> PlainHandler<($($T,)*)> for Function
        where
            Function: Fn($($T),*) -> Output + Send + Sync + 'static,
        {
            type Output = Output;

            #[allow(non_snake_case)]
            fn call(&self, ($($T,)*): ($($T,)*)) -> Output {
                self($($T),*)
            }
        }

        impl<$($T: Extract,)*> Extract for ($($T,)*) {
            fn declare(_declaration: &mut Declaration) {
                $($T::declare(_declaration);)*
            }

            #[allow(clippy::unused_unit)]
            fn extract(_call: &Incoming<'_>) -> Result<Self, Error> {
                Ok(($($T::extract(_call)?,)*))
            }
        }
    };
}

handlers!();
handlers!(A);
handlers!(A B);
handlers!(A B C);
handlers!(A B C D);
handlers!(A B C D E);
handlers!(A B C D E F);
handlers!(A B C D E F G);
handlers!(A B C D E F G H);
handlers!(A B C D E F G H I);
handlers!(A B C D E F G H I J);
handlers!(A B C D E F G H I J K);
handlers!(A B C D E F G H I J K L);

/// Type-erased handler.
pub(crate) trait Endpoint: Send + Sync + 'static {
    fn call(&self, incoming: Incoming<'_>) -> BoxFuture<Outcome>;
}

/// Converts the return value of a handler into the outcome of its kind of call.
pub(crate) trait ReturnConverter<R>: Send + 'static {
    /// Copies from the call what the outcome needs.
    fn for_call(incoming: &Incoming<'_>) -> Self;
    fn convert(self, returned: R) -> Outcome;
}

/// Endpoint of an async function.
pub(crate) struct AsyncEndpoint<F, A, E>(F, PhantomData<fn() -> (A, E)>);

impl<F, A, E> AsyncEndpoint<F, A, E> {
    pub(crate) fn endpoint(function: F) -> Arc<dyn Endpoint>
    where
        Self: Endpoint,
    {
        Arc::new(AsyncEndpoint(function, PhantomData::<fn() -> (A, E)>))
    }
}

impl<F, A, E> Endpoint for AsyncEndpoint<F, A, E>
where
    F: Handler<A>,
    A: Extract + 'static,
    E: ReturnConverter<F::Output>,
{
    fn call(&self, incoming: Incoming<'_>) -> BoxFuture<Outcome> {
        let (parameters, converter) = match begin::<A, E, _>(&incoming) {
            Ok(begun) => begun,
            Err(error) => return now(error.into()),
        };
        let ctx = incoming.into_ctx();
        let running = self.0.call(parameters);
        let call = async move { converter.convert(running.await) };
        finish(ctx, call)
    }
}

/// Endpoint of a plain, fast function that runs in place.
pub(crate) struct InlineEndpoint<F, A, E>(Arc<F>, PhantomData<fn() -> (A, E)>);

impl<F, A, E> InlineEndpoint<F, A, E> {
    pub(crate) fn endpoint(function: F) -> Arc<dyn Endpoint>
    where
        Self: Endpoint,
    {
        Arc::new(InlineEndpoint(Arc::new(function), PhantomData::<fn() -> (A, E)>))
    }
}

impl<F, A, E> Endpoint for InlineEndpoint<F, A, E>
where
    F: PlainHandler<A>,
    A: Extract + Send + 'static,
    E: ReturnConverter<F::Output>,
{
    fn call(&self, incoming: Incoming<'_>) -> BoxFuture<Outcome> {
        let (parameters, converter) = match begin::<A, E, _>(&incoming) {
            Ok(begun) => begun,
            Err(error) => return now(error.into()),
        };
        let ctx = incoming.into_ctx();
        match ctx {
            // The function runs only inside `drive`: if the request state cannot be decrypted, it
            // must not run at all.
            Some(ctx) => {
                let function = self.0.clone();
                suspend::drive(ctx, async move { converter.convert(function.call(parameters)) })
            }
            None => now(converter.convert(self.0.call(parameters))),
        }
    }
}

/// Endpoint of a plain function that may block; it runs on its own thread.
pub(crate) struct BlockingEndpoint<F, A, E>(Arc<F>, PhantomData<fn() -> (A, E)>);

impl<F, A, E> BlockingEndpoint<F, A, E> {
    pub(crate) fn endpoint(function: F) -> Arc<dyn Endpoint>
    where
        Self: Endpoint,
    {
        Arc::new(BlockingEndpoint(Arc::new(function), PhantomData::<fn() -> (A, E)>))
    }
}

impl<F, A, E> Endpoint for BlockingEndpoint<F, A, E>
where
    F: PlainHandler<A>,
    A: Extract + Send + 'static,
    E: ReturnConverter<F::Output>,
{
    fn call(&self, incoming: Incoming<'_>) -> BoxFuture<Outcome> {
        let (parameters, converter) = match begin::<A, E, _>(&incoming) {
            Ok(begun) => begun,
            Err(error) => return now(error.into()),
        };
        let outbox = incoming.outbox.clone();
        let Some(permit) = incoming.server.blocking.acquire(&incoming.request.scope) else {
            return now(blocking::overloaded());
        };
        let ctx = incoming.into_ctx();
        let function = self.0.clone();
        let call =
            blocking::run(permit, outbox, move || converter.convert(function.call(parameters)));
        finish(ctx, call)
    }
}

/// Extracts the parameters of a handler, and creates the converter of its return value.
fn begin<A: Extract, E: ReturnConverter<R>, R>(incoming: &Incoming<'_>) -> Result<(A, E), Error> {
    Ok((incoming.read()?, E::for_call(incoming)))
}

/// Drives the call if it has a context; a call without one cannot be suspended.
fn finish(
    ctx: Option<Ctx>,
    call: impl Future<Output = Outcome> + Send + 'static,
) -> BoxFuture<Outcome> {
    match ctx {
        Some(ctx) => suspend::drive(ctx, call),
        None => Box::pin(call),
    }
}

/// Returns a future that is ready.
pub(crate) fn now(outcome: Outcome) -> BoxFuture<Outcome> {
    Box::pin(std::future::ready(outcome))
}
