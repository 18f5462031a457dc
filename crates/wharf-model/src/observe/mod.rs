//! Observability: the `Observer` to which servers, clients, transports, stores and tasks report.
//!
//! `calls.rs` has the start and the end of a call, `events.rs` everything else, `span.rs` and `trace_context.rs` what
//! traces need, `active.rs` the part of an [`ActiveCall`](crate::ActiveCall) that reports it.

pub(crate) mod active;
pub(crate) mod calls;
pub(crate) mod events;
pub(crate) mod refusal;
pub(crate) mod span;
pub(crate) mod trace_context;

use std::{fmt, sync::Arc};

use crate::{CallEnd, CallStart, CallState, ObservedEvent};

/// Receives what happens in a server or a client: logs, metrics, traces and recordings are observers.
///
/// Methods are called on the path of each call: they must not block. An observer receives nothing that it does not
/// implement. The start of a call is reported within the [scopes](crate::CallScope) of the observers before it.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod observe { pub use super::*; } }
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use wharf::observe::{CallEnd, CallStart, CallState, Observer};
///
/// #[derive(Default)]
/// struct CallCounter {
///     failed: AtomicU64,
/// }
///
/// impl Observer for CallCounter {
///     fn call_started(&self, _: &CallStart<'_>) -> CallState {
///         CallState::Token(0)
///     }
///
///     fn call_ended(&self, _: u64, end: &CallEnd<'_>) {
///         if end.error_type().is_some() {
///             self.failed.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
/// ```
pub trait Observer: Send + Sync + 'static {
    /// Receives the start of a call. The state decides how the observer receives its end; the default is
    /// [`CallState::Ignored`].
    fn call_started(&self, call: &CallStart<'_>) -> CallState {
        let _ = call;
        CallState::Ignored
    }

    /// Receives the end of a call whose state is [`CallState::Token`], with the token.
    fn call_ended(&self, token: u64, end: &CallEnd<'_>) {
        let _ = (token, end);
    }

    /// Receives an event that is not the start or the end of a call.
    fn event(&self, event: &ObservedEvent<'_>) {
        let _ = event;
    }
}

impl<T: Observer + ?Sized> Observer for Arc<T> {
    fn call_started(&self, call: &CallStart<'_>) -> CallState {
        (**self).call_started(call)
    }

    fn call_ended(&self, token: u64, end: &CallEnd<'_>) {
        (**self).call_ended(token, end);
    }

    fn event(&self, event: &ObservedEvent<'_>) {
        (**self).event(event);
    }
}

/// Observers of a server or a client; none by default. Clones share them.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod observe { pub use super::*; } }
/// use wharf::observe::{ObservedEvent, Observer, Observers};
///
/// struct Nothing;
/// impl Observer for Nothing {}
///
/// let observers = Observers::default();
/// assert!(observers.is_empty());
/// // Without observers the event is not even created.
/// observers.emit(|| unreachable!());
///
/// let observers = observers.with(Nothing);
/// observers.emit(|| ObservedEvent::Queue { running: 1, waiting: 0 });
/// ```
#[derive(Clone, Default)]
pub struct Observers(Option<Arc<[Arc<dyn Observer>]>>);

/// The observers of everything that has none.
pub(crate) static NO_OBSERVERS: Observers = Observers(None);

impl Observers {
    /// Adds an observer.
    #[must_use]
    pub fn with(self, observer: impl Observer) -> Self {
        let added: Arc<dyn Observer> = Arc::new(observer);
        Observers(Some(self.as_slice().iter().cloned().chain([added]).collect()))
    }

    /// Returns whether there are no observers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Reports an event, which is created only if there is an observer.
    pub fn emit<'a>(&self, event: impl FnOnce() -> ObservedEvent<'a>) {
        if let Some(observers) = &self.0 {
            let event = event();
            observers.iter().for_each(|observer| observer.event(&event));
        }
    }

    pub(crate) fn as_slice(&self) -> &[Arc<dyn Observer>] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observers").field("count", &self.as_slice().len()).finish()
    }
}
