//! Layers around the router.

mod concurrency;
mod panic_guard;
mod rate_limit;
mod timeout;
#[cfg(feature = "tower")]
mod tower;
mod trace;

use std::{fmt, sync::Arc};

use wharf_model::{BoxFuture, Outbox, Outcome, Request, Service};

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

/// A layer around the router: it sees each call before its handler, and each outcome after it.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; }
/// use wharf::{BoxFuture, Error, ErrorKind, Method, Middleware, Next, Outbox};
/// use wharf::{Outcome, Request, Router};
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
/// # Ok::<(), wharf::BuildError>(())
/// ```
pub trait Middleware: Send + Sync + 'static {
    /// Handles the call, or passes it on with `next`.
    fn call(&self, request: Request, outbox: Outbox, next: Next) -> BoxFuture<Outcome>;
}

/// What lies behind a middleware.
#[derive(Clone)]
pub struct Next {
    chain: Arc<Chain>,
    index: usize,
}

impl Next {
    /// Passes the call on.
    #[must_use]
    pub fn run(mut self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let chain = self.chain.clone();
        match chain.layers.get(self.index) {
            Some(layer) => {
                self.index += 1;
                layer.call(request, outbox, self)
            }
            None => chain.inner.call(request, outbox),
        }
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").field("index", &self.index).finish_non_exhaustive()
    }
}

/// All layers, built once.
pub(crate) struct Chain {
    layers: Vec<Box<dyn Middleware>>,
    inner: Arc<dyn Service>,
}

impl Chain {
    pub(crate) fn new(layers: Vec<Box<dyn Middleware>>, inner: Arc<dyn Service>) -> Self {
        Chain { layers, inner }
    }

    pub(crate) fn call(self: &Arc<Self>, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        Next { chain: self.clone(), index: 0 }.run(request, outbox)
    }
}

/// Puts a layer around any service, the way [`RouterBuilder::layer`](crate::RouterBuilder::layer)
/// puts one around a router.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; }
/// use std::sync::Arc;
/// use wharf::{RateLimit, Rates, Router, Service, layered};
///
/// let router = Router::builder().build()?;
/// let limited: Arc<dyn Service> = layered(Arc::new(router), RateLimit::new(Rates::default()));
/// # let _ = limited;
/// # Ok::<(), wharf::BuildError>(())
/// ```
#[must_use]
pub fn layered(service: Arc<dyn Service>, layer: impl Middleware) -> Arc<dyn Service> {
    Arc::new(Layered(Arc::new(Chain::new(vec![Box::new(layer)], service))))
}

struct Layered(Arc<Chain>);

impl Service for Layered {
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        self.0.call(request, outbox)
    }
}
