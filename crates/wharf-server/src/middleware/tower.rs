//! Adapter from tower layers to middleware.

use std::{
    convert::Infallible,
    fmt,
    future::{Future, poll_fn},
    task::{Context, Poll},
};

use tower_layer::Layer;
use tower_service::Service;
use wharf_model::{BoxFuture, Error, ErrorKind, Lock, Outcome, Request};

use crate::middleware::{Middleware, Next};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Adapter from a tower layer to a [`Middleware`].
///
/// The layer wraps a service of `Request` that returns an `Outcome`. It is applied once,
/// so layers that count or limit do so across calls; its service is cloned for each call. An error
/// of the layer itself becomes an internal error.
pub struct TowerLayer<S> {
    // Tower services need not be `Sync`.
    service: Lock<S>,
}

impl<S> TowerLayer<S> {
    /// Applies `layer`.
    pub fn new<L: Layer<TowerNext, Service = S>>(layer: L) -> Self {
        TowerLayer { service: Lock::new(layer.layer(TowerNext(()))) }
    }
}

impl<S> Middleware for TowerLayer<S>
where
    S: Service<Request, Response = Outcome> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    fn call(&self, mut request: Request, next: Next) -> BoxFuture<Outcome> {
        let mut service = self.service.lock().clone();
        // The rest of the chain differs between uses of the layer, so it travels as a request
        // extension.
        request.scope.insert(next);
        Box::pin(async move {
            let answered = async {
                poll_fn(|cx| service.poll_ready(cx)).await?;
                service.call(request).await
            };
            match answered.await {
                Ok(outcome) => outcome,
                Err(error) => {
                    let error: BoxError = error.into();
                    tracing::error!(%error, "ended a call: its tower layer failed");
                    Error::new(ErrorKind::InternalError).into()
                }
            }
        })
    }
}

impl<S> fmt::Debug for TowerLayer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TowerLayer").finish_non_exhaustive()
    }
}

/// Innermost service of a [`TowerLayer`]: the rest of the chain.
#[derive(Clone, Debug)]
pub struct TowerNext(());

impl Service<Request> for TowerNext {
    type Response = Outcome;
    type Error = Infallible;
    type Future = TowerFuture;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request) -> TowerFuture {
        TowerFuture(match request.scope.remove::<Next>() {
            Some(next) => next.run(request),
            // A layer replaced the request extensions.
            None => Box::pin(async { Error::new(ErrorKind::InternalError).into() }),
        })
    }
}

/// Future of a [`TowerNext`].
pub struct TowerFuture(BoxFuture<Outcome>);

impl Future for TowerFuture {
    type Output = Result<Outcome, Infallible>;

    fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx).map(Ok)
    }
}

impl fmt::Debug for TowerFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TowerFuture").finish_non_exhaustive()
    }
}
