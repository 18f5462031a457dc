//! The seam: everything that answers calls is a [`Service`].

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    time::{Instant, SystemTime},
};

use crate::{ChangeVersion, Outbox, Outcome, Request};

/// An owned future on the heap.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send + 'static>>;

/// Takes a request and an outbox for what happens on the way; ends with one outcome.
///
/// A router, a connected client, a gateway and a middleware are all services. The trait is
/// dyn-compatible, and a router returns its handler's own box, so a call is boxed once.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// use wharf::{BoxFuture, Outbox, Outcome, Reply, Request, Service, ToolResult};
///
/// struct Hello;
///
/// impl Service for Hello {
///     fn call(&self, request: Request, _outbox: Outbox) -> BoxFuture<Outcome> {
///         let name = request.target().into_owned();
///         Box::pin(async move { ToolResult::text(format!("hello from {name}")).into() })
///     }
/// }
/// ```
pub trait Service: Send + Sync + 'static {
    /// Begins the call. Dropping the future cancels it.
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome>;

    /// What time it is for listeners: a listen that begins later [since](crate::Envelope::since)
    /// this moment hears all that it would have heard of lists and elicitations, and is
    /// [acknowledged](crate::Notification::Acknowledged) when it hears of updates too. None, as by
    /// default, if the service cannot look back.
    fn moment(&self) -> Option<ChangeVersion> {
        None
    }
}

impl<S: Service + ?Sized> Service for Arc<S> {
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        (**self).call(request, outbox)
    }

    fn moment(&self) -> Option<ChangeVersion> {
        (**self).moment()
    }
}

/// The clock of whatever runtime drives the calls.
pub trait Timer: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Instant;
    /// The time of day, by which what outlives this process expires.
    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }
    /// Completes at `deadline`.
    fn sleep_until(&self, deadline: Instant) -> BoxFuture<()>;
}

/// Something to give back when a call is over, however it ends.
pub trait OnCallEnd: Send + Sync + 'static {
    /// Called once, when the call is over.
    fn release(&self);
}
