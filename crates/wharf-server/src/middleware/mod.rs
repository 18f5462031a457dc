//! Middleware around the router.

mod concurrency;
mod panic_guard;
mod rate_limit;
mod timeout;
#[cfg(feature = "tower")]
mod tower;
mod trace;

use std::{fmt, sync::Arc};

use wharf_model::{BoxFuture, ChangeVersion, Outbox, Outcome, Request, Service};

#[cfg(feature = "tower")]
pub use self::tower::{TowerLayer, TowerNext};
pub use self::{
    concurrency::Concurrency,
    panic_guard::PanicGuard,
    rate_limit::{RateKey, RateLimit},
    timeout::Timeout,
    trace::Tracing,
};

pub(crate) use self::trace::printable;

/// Middleware around the router: it receives each call before its handler, and each outcome after
/// it.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod middleware { pub use super::*; } pub mod model { pub use super::*; } pub mod server { pub use super::*; } }
/// use wharf::{Error, ErrorKind};
/// use wharf::middleware::{Middleware, Next};
/// use wharf::model::{BoxFuture, Method, Outbox};
/// use wharf::{model::{Outcome, Request}, server::Router};
///
/// struct ReadOnly;
///
/// impl Middleware for ReadOnly {
///     fn call(&self, request: Request, outbox: Outbox, next: Next) -> BoxFuture<Outcome> {
///         match request.method {
///             Method::CallTool => Box::pin(async { Error::new(ErrorKind::ToolDisabled).into() }),
///             _ => next.run(request, outbox),
///         }
///     }
/// }
///
/// let router = Router::builder().layer(ReadOnly).build()?;
/// # let _ = router;
/// # Ok::<(), wharf::server::BuildError>(())
/// ```
pub trait Middleware: Send + Sync + 'static {
    /// Handles the call, or forwards it with `next`.
    fn call(&self, request: Request, outbox: Outbox, next: Next) -> BoxFuture<Outcome>;
}

/// The rest of the chain behind a middleware.
#[derive(Clone)]
pub struct Next(ChainLink);

#[derive(Clone)]
enum ChainLink {
    ChainLayer(Arc<ChainLayer>),
    Service(Arc<dyn Service>),
}

struct ChainLayer {
    middleware: Box<dyn Middleware>,
    next: Next,
}

impl Next {
    /// Forwards the call.
    #[must_use]
    pub fn run(self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        self.call(request, outbox)
    }

    /// Builds the chain of `layers`, the outermost first, around `service`.
    pub(crate) fn chain(layers: Vec<Box<dyn Middleware>>, service: Arc<dyn Service>) -> Self {
        let around = |next, middleware| {
            Next(ChainLink::ChainLayer(Arc::new(ChainLayer { middleware, next })))
        };
        layers.into_iter().rev().fold(Next(ChainLink::Service(service)), around)
    }
}

impl Service for Next {
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        match &self.0 {
            ChainLink::ChainLayer(layer) => {
                layer.middleware.call(request, outbox, layer.next.clone())
            }
            ChainLink::Service(service) => service.call(request, outbox),
        }
    }

    fn moment(&self) -> Option<ChangeVersion> {
        match &self.0 {
            ChainLink::ChainLayer(layer) => layer.next.moment(),
            ChainLink::Service(service) => service.moment(),
        }
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
    Arc::new(Next::chain(vec![Box::new(layer)], Arc::new(service)))
}
