//! Middleware from a function.

use std::future::Future;

use wharf_model::{BoxFuture, Outcome, Request};

use crate::middleware::{Middleware, Next};

/// Creates middleware from an async function, or from a closure that returns a future.
///
/// `next.run(request)` forwards the call to the next middleware, and in the end to the handler. A
/// function that returns without it answers the call itself.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod middleware { pub use super::*; } pub mod model { pub use super::*; } pub mod server { pub use super::*; } }
/// use wharf::{Error, ErrorKind, Extension, Tool};
/// use wharf::middleware::{Next, from_fn};
/// use wharf::model::{Outcome, Request};
/// use wharf::server::Router;
///
/// #[derive(Clone)]
/// struct Tenant(String);
///
/// /// Adds the caller's tenant for handlers; rejects unauthenticated calls.
/// async fn tenant(mut request: Request, next: Next) -> Outcome {
///     let Some(principal) = request.principal() else {
///         return Error::new(ErrorKind::Unauthenticated).into();
///     };
///     let tenant = Tenant(principal.id().to_owned());
///     request.scope.insert(tenant);
///     next.run(request).await
/// }
///
/// let router = Router::builder()
///     .layer(from_fn(tenant))
///     .layer(from_fn(|request, next| async move {
///         let method = request.method;
///         let outcome = next.run(request).await;
///         println!("{}: {outcome:?}", method.name());
///         outcome
///     }))
///     .add(Tool::new("whose", async |Extension(Tenant(id)): Extension<Tenant>| id))
///     .build()?;
/// # let _ = router;
/// # Ok::<(), wharf::server::BuildError>(())
/// ```
///
/// A closure that captures a value clones it for each call:
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod middleware { pub use super::*; } pub mod server { pub use super::*; } }
/// use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
/// use wharf::{middleware::from_fn, server::Router};
///
/// let calls = Arc::new(AtomicU64::new(0));
/// let counter = calls.clone();
/// let router = Router::builder()
///     .layer(from_fn(move |request, next| {
///         let counter = counter.clone();
///         async move {
///             counter.fetch_add(1, Ordering::Relaxed);
///             next.run(request).await
///         }
///     }))
///     .build()?;
/// # let _ = router;
/// # Ok::<(), wharf::server::BuildError>(())
/// ```
pub fn from_fn<F, Fut>(function: F) -> impl Middleware
where
    F: Fn(Request, Next) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Outcome> + Send + 'static,
{
    FnMiddleware(function)
}

struct FnMiddleware<F>(F);

impl<F, Fut> Middleware for FnMiddleware<F>
where
    F: Fn(Request, Next) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Outcome> + Send + 'static,
{
    fn call(&self, request: Request, next: Next) -> BoxFuture<Outcome> {
        Box::pin((self.0)(request, next))
    }
}
