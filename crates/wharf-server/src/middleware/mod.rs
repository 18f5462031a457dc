//! Middleware around the router.

mod concurrency;
mod from_fn;
mod panic_guard;
mod rate_limit;
mod timeout;
#[cfg(feature = "tower")]
mod tower;

use std::{fmt, sync::Arc};

use wharf_model::{BoxFuture, ChangeVersion, Observers, Outbox, Outcome, Request, Service};

#[cfg(feature = "tower")]
pub use self::tower::{TowerLayer, TowerNext};
pub use self::{
    concurrency::Concurrency,
    from_fn::from_fn,
    panic_guard::PanicGuard,
    rate_limit::{RateKey, RateLimit},
    timeout::Timeout,
};

/// Middleware around the router: it receives each call before its handler, and each outcome after
/// it. [`from_fn`] creates middleware from a function.
///
/// Implement the trait where a boxed future for each call is too much: `next.run(…)` can be
/// returned as it is.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod middleware { pub use super::*; } pub mod model { pub use super::*; } pub mod server { pub use super::*; } }
/// use wharf::{Error, ErrorKind};
/// use wharf::middleware::{Middleware, Next};
/// use wharf::model::{BoxFuture, Method, Outcome, Request};
/// use wharf::server::Router;
///
/// struct ReadOnly;
///
/// impl Middleware for ReadOnly {
///     fn call(&self, request: Request, next: Next) -> BoxFuture<Outcome> {
///         match request.method {
///             Method::CallTool => Box::pin(async { Error::new(ErrorKind::AccessDenied).into() }),
///             _ => next.run(request),
///         }
///     }
/// }
///
/// let router = Router::builder().layer(ReadOnly).build()?;
/// # let _ = router;
/// # Ok::<(), wharf::server::BuildError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not middleware",
    label = "does not implement `Middleware`",
    note = "middleware from a function: `wharf::middleware::from_fn(|request, next| async move {{ \
            next.run(request).await }})`",
    note = "middleware from a tower layer: `wharf::middleware::TowerLayer::new(layer)` (feature \
            `tower`)"
)]
pub trait Middleware: Send + Sync + 'static {
    /// Handles the call, or forwards it with `next`.
    fn call(&self, request: Request, next: Next) -> BoxFuture<Outcome>;
}

/// Rest of the chain behind a middleware, with the outbox of the call.
#[derive(Clone)]
pub struct Next {
    chain: Chain,
    outbox: Outbox,
}

impl Next {
    /// Forwards the call.
    #[must_use]
    pub fn run(self, request: Request) -> BoxFuture<Outcome> {
        self.chain.call(request, self.outbox)
    }

    /// Returns the outbox of the call, for its deadlines and for messages to the client.
    #[must_use]
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }
}

/// Middleware around a service.
#[derive(Clone)]
pub(crate) enum Chain {
    Layer(Arc<ChainLayer>),
    Service(Arc<dyn Service>),
}

pub(crate) struct ChainLayer {
    middleware: Box<dyn Middleware>,
    next: Chain,
}

impl Chain {
    /// Builds the chain of `layers`, the outermost first, around `service`.
    pub(crate) fn new(layers: Vec<Box<dyn Middleware>>, service: Arc<dyn Service>) -> Self {
        let around = |next, middleware| Chain::Layer(Arc::new(ChainLayer { middleware, next }));
        layers.into_iter().rev().fold(Chain::Service(service), around)
    }

    /// Returns the service inside the middleware.
    fn service(&self) -> &Arc<dyn Service> {
        match self {
            Chain::Layer(layer) => layer.next.service(),
            Chain::Service(service) => service,
        }
    }
}

impl Service for Chain {
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        match self {
            Chain::Layer(layer) => {
                layer.middleware.call(request, Next { chain: layer.next.clone(), outbox })
            }
            Chain::Service(service) => service.call(request, outbox),
        }
    }

    fn change_version(&self) -> Option<ChangeVersion> {
        self.service().change_version()
    }

    fn observers(&self) -> &Observers {
        self.service().observers()
    }

    fn has_target(&self, request: &Request) -> bool {
        self.service().has_target(request)
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").finish_non_exhaustive()
    }
}

/// Wraps any service in middleware, as [`RouterBuilder::layer`](crate::RouterBuilder::layer) does
/// for a router.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod middleware { pub use super::*; } pub mod model { pub use super::*; } pub mod server { pub use super::*; } }
/// use std::sync::Arc;
/// use wharf::{middleware::{RateLimit, layered}, model::Service, server::{Rates, Router}};
///
/// let router = Router::builder().build()?;
/// let limited: Arc<dyn Service> = layered(router, RateLimit::new(Rates::default()));
/// # let _ = limited;
/// # Ok::<(), wharf::server::BuildError>(())
/// ```
#[must_use]
pub fn layered(service: impl Service, layer: impl Middleware) -> Arc<dyn Service> {
    Arc::new(Chain::new(vec![Box::new(layer)], Arc::new(service)))
}
