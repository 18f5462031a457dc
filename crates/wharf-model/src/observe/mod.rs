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
pub(crate) mod transport;

use std::{
    any::Any,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

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

    /// Returns whether the observer wants anything now. While no observer of a server does, its calls are not reported to
    /// them, and transports collect nothing for them.
    fn is_active(&self) -> bool {
        true
    }

    /// Returns whether the observer logs the panics of the calls that it follows. A panic that no observer logs is
    /// logged by the call itself.
    fn logs_panics(&self) -> bool {
        false
    }

    /// Returns whether the observer receives [`ObservedEvent::Received`] and [`ObservedEvent::Sent`], which every
    /// message causes. It is asked once, when the observer is added.
    fn counts_bytes(&self) -> bool {
        true
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

    fn is_active(&self) -> bool {
        (**self).is_active()
    }

    fn logs_panics(&self) -> bool {
        (**self).logs_panics()
    }

    fn counts_bytes(&self) -> bool {
        (**self).counts_bytes()
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
pub struct Observers {
    list: Option<Arc<[Arc<dyn Observer>]>>,
    counts_bytes: bool,
}

/// The observers of everything that has none.
pub(crate) static NO_OBSERVERS: Observers = Observers { list: None, counts_bytes: false };

impl Observers {
    /// Adds an observer.
    #[must_use]
    pub fn with(self, observer: impl Observer) -> Self {
        let counts_bytes = self.counts_bytes || observer.counts_bytes();
        let added: Arc<dyn Observer> = Arc::new(observer);
        let list = self.as_slice().iter().cloned().chain([added]).collect();
        Observers { list: Some(list), counts_bytes }
    }

    /// Returns a list of observers that others have already, whose bytes are counted there.
    pub(crate) fn of(list: Vec<Arc<dyn Observer>>) -> Self {
        Observers { list: Some(list.into()), counts_bytes: false }
    }

    /// Returns whether there are no observers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_none()
    }

    /// Returns whether an observer [counts](Observer::counts_bytes) the bytes of messages.
    #[must_use]
    pub fn count_bytes(&self) -> bool {
        self.counts_bytes
    }

    /// Returns whether an observer [wants anything now](Observer::is_active).
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.as_slice().iter().any(|observer| observer.is_active())
    }

    /// Reports an event, which is created only if there is an observer.
    pub fn emit<'a>(&self, event: impl FnOnce() -> ObservedEvent<'a>) {
        if let Some(observers) = &self.list {
            let event = event();
            observers.iter().for_each(|observer| guarded(|| observer.event(&event)));
        }
    }

    pub(crate) fn as_slice(&self) -> &[Arc<dyn Observer>] {
        self.list.as_deref().unwrap_or_default()
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observers").field("count", &self.as_slice().len()).finish()
    }
}

/// Runs code of an observer. Its panic is logged, and disturbs neither the call nor other observers.
pub(crate) fn guarded<T: Default>(observe: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(observe)).unwrap_or_else(|payload| {
        tracing::error!(panic = ?panic_text(&*payload), "caught a panic of an observer");
        drop_payload(payload);
        T::default()
    })
}

/// Returns the text of a panic.
pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("panic without a message")
}

/// Drops the payload of a panic, whose destructor may panic too.
pub(crate) fn drop_payload(payload: Box<dyn Any + Send>) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
}
