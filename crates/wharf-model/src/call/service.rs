//! `Service`, the interface of everything that handles calls.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    time::{Instant, SystemTime},
};

use crate::{ChangeVersion, Observers, Outbox, Outcome, Request, observe::NO_OBSERVERS};

/// Owned future on the heap.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send + 'static>>;

/// Handles a request: sends events through the outbox and returns one outcome.
///
/// A router, a connected client, a gateway and a middleware are all services. The trait is
/// dyn-compatible, and a router returns its handler's own box, so a call is boxed once.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
/// use wharf::{ToolResult, model::{BoxFuture, Outbox, Outcome, Reply, Request, Service}};
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
    /// Starts the call. Dropping the future cancels it.
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome>;

    /// Returns the current change version. A subscription that starts later, [since](crate::Envelope::since)
    /// this version, reports all changes of lists and elicitations in between, and is
    /// [acknowledged](crate::Notification::Acknowledged) once it reports resource updates too. The default is
    /// `None`: the service keeps no history.
    fn change_version(&self) -> Option<ChangeVersion> {
        None
    }

    /// Returns the observers of the service's calls; none by default. A service around another one returns those
    /// of the inner service.
    fn observers(&self) -> &Observers {
        &NO_OBSERVERS
    }

    /// Adds observers of the service's connection to an upstream server, if it has one. They receive its present
    /// state, and every change.
    fn observe_upstream(&self, observers: &Observers) {
        let _ = observers;
    }

    /// Returns whether the service has the target of the request: its tool, prompt, resource or custom method.
    /// Observers use it, so that names which callers invent do not become metrics.
    fn has_target(&self, request: &Request) -> bool {
        let _ = request;
        false
    }
}

impl<S: Service + ?Sized> Service for Arc<S> {
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        (**self).call(request, outbox)
    }

    fn change_version(&self) -> Option<ChangeVersion> {
        (**self).change_version()
    }

    fn observers(&self) -> &Observers {
        (**self).observers()
    }

    fn observe_upstream(&self, observers: &Observers) {
        (**self).observe_upstream(observers);
    }

    fn has_target(&self, request: &Request) -> bool {
        (**self).has_target(request)
    }
}

/// Clock of the runtime that drives the calls.
pub trait Timer: Send + Sync + 'static {
    /// Returns the current time.
    fn now(&self) -> Instant;
    /// Returns the time of day, for expiry times that outlive this process.
    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }
    /// Completes at `deadline`.
    fn sleep_until(&self, deadline: Instant) -> BoxFuture<()>;
}

/// Resource to release when a call ends, whatever its outcome.
pub trait OnCallEnd: Send + Sync + 'static {
    /// Releases the resource; called once at the end of the call.
    fn release(&self);
}
