//! Context of a call: progress, logs, client requests, steps and tasks.

pub(crate) mod client_requests;
pub(crate) mod elicitation_form;
mod finite_numbers;
mod logging;
pub(crate) mod notify;
pub(crate) mod progress;
pub(crate) mod step;

use std::{
    fmt,
    sync::{Arc, MutexGuard, OnceLock, Weak},
};

use wharf_model::{
    ClientCapability, Error, InputMode, Lock, Meta, Outbox, Peer, Principal, Rate, Request,
    TraceContext,
};

use crate::{
    Registry,
    handler::{block_on, suspend::HandlerRun},
    lenient_json,
    router::state::ServerState,
    tasks::{promotion_state::TaskPromotion, runtime::TaskRunApi},
};

/// Context of one call: progress, logs, requests to the client, recorded steps.
///
/// A handler takes it as a parameter. Clones share one context.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; }
/// use wharf::{Ctx, Tool};
///
/// async fn count(ctx: Ctx) -> &'static str {
///     for n in 1..=3 {
///         ctx.progress_of(f64::from(n), 3.0).await;
///     }
///     ctx.info("counted to three").await;
///     "done"
/// }
///
/// let tool = Tool::new("count", count);
/// ```
#[derive(Clone)]
pub struct Ctx {
    inner: Arc<CtxInner>,
    logger: Option<Arc<str>>,
}

struct CtxInner {
    outbox: Outbox,
    server: Arc<ServerState>,
    request: OnceLock<Request>,
    peer: OnceLock<Arc<Peer>>,
    run: Lock<HandlerRun>,
}

impl Ctx {
    pub(crate) fn new(outbox: Outbox, server: Arc<ServerState>) -> Ctx {
        let limits = &server.limits;
        let rate =
            Rate { per_second: limits.progress_rate.into(), burst: limits.progress_burst.into() };
        let run = Lock::new(HandlerRun::new(rate));
        let (request, peer) = (OnceLock::new(), OnceLock::new());
        Ctx { inner: Arc::new(CtxInner { outbox, server, request, peer, run }), logger: None }
    }

    pub(crate) fn fill(&self, request: Request) {
        let _ = self.inner.request.set(request);
    }

    pub(crate) fn request(&self) -> Option<&Request> {
        self.inner.request.get()
    }

    pub(crate) fn outbox(&self) -> &Outbox {
        &self.inner.outbox
    }

    pub(crate) fn server(&self) -> &Arc<ServerState> {
        &self.inner.server
    }

    pub(crate) fn input_mode(&self) -> InputMode {
        match self.promotion() {
            Some(promotion) if promotion.is_task() => InputMode::Park,
            _ => self.request().map_or(InputMode::Deliver, |request| request.asks),
        }
    }

    /// Returns the task promotion, if the call is a task or may become one.
    pub(crate) fn promotion(&self) -> Option<&TaskPromotion> {
        self.request()?.scope.get()
    }

    /// Returns the task of this call.
    pub(crate) fn task_run(&self) -> Option<Arc<dyn TaskRunApi>> {
        self.promotion()?.task_run()
    }

    pub(crate) fn downgrade(&self) -> WeakCtx {
        WeakCtx(Arc::downgrade(&self.inner))
    }

    /// Locks the run. Never hold the lock across an await or while foreign code runs.
    pub(crate) fn run(&self) -> MutexGuard<'_, HandlerRun> {
        self.inner.run.lock()
    }

    /// Returns an id that differs from those of all other calls in flight.
    pub(crate) fn id(&self) -> usize {
        Arc::as_ptr(&self.inner).addr()
    }
}

/// Weak reference to the context of a call.
pub(crate) struct WeakCtx(Weak<CtxInner>);

impl WeakCtx {
    pub(crate) fn upgrade(&self) -> Option<Ctx> {
        Some(Ctx { inner: self.0.upgrade()?, logger: None })
    }
}

/// # Tasks
impl Ctx {
    /// Continues the call as a task, if its caller supports tasks and the tool may be one;
    /// otherwise it has no effect. When it returns, the task is in the server's store, its caller
    /// has its id, and the handler no longer needs a connection.
    ///
    /// Client requests before it are sent during the call; those after it wait for the task's
    /// owner.
    ///
    /// ```
    /// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod tasks { pub use super::*; } }
    /// use wharf::{Ctx, Tool, ToolError, tasks::TaskMode};
    ///
    /// async fn render(ctx: Ctx) -> Result<&'static str, ToolError> {
    ///     // Checks that take no time, and questions …
    ///     ctx.detach().await?;
    ///     // … and then minutes of work.
    ///     Ok("rendered")
    /// }
    ///
    /// let tool = Tool::new("render", render).task(TaskMode::optional().on_detach());
    /// ```
    ///
    /// # Errors
    /// If a task should be created and cannot: there are too many, or their store is unavailable.
    pub async fn detach(&self) -> Result<(), Error> {
        match self.promotion() {
            Some(promotion) => promotion.detach().await,
            None => Ok(()),
        }
    }

    /// Returns the id of the task, if the call is one.
    #[must_use]
    pub fn task_id(&self) -> Option<String> {
        Some(self.task_run()?.id().to_owned())
    }
}

/// # Connection
impl Ctx {
    /// Releases the client's connection while the call continues, if the client can reconnect and
    /// resume. Otherwise it has no effect.
    ///
    /// A call that takes minutes should not need a connection for as long. Its further messages and
    /// its result are kept for the client.
    ///
    /// ```
    /// # mod wharf { pub use {wharf_model::*, wharf_server::*}; }
    /// use wharf::{Ctx, Tool};
    ///
    /// async fn render(ctx: Ctx) -> &'static str {
    ///     ctx.release_connection();
    ///     // minutes of work …
    ///     "rendered"
    /// }
    ///
    /// let tool = Tool::new("render", render);
    /// ```
    pub fn release_connection(&self) {
        self.outbox().release_connection();
    }
}

/// # Plain functions
impl Ctx {
    /// Blocks on a future of this context, in a plain function that runs on its own thread: one of
    /// `Tool::blocking`, or a `#[tool]` that is neither an `async fn` nor `cheap`.
    ///
    /// ```
    /// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod server { pub use super::*; } }
    /// use wharf::{Ctx, Tool, server::ClientRequestError};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Confirm { sure: bool }
    ///
    /// fn clean(ctx: Ctx) -> Result<&'static str, ClientRequestError> {
    ///     ctx.block_on(ctx.info("looking around"));
    ///     let confirm: Confirm = ctx.block_on(ctx.ask("confirm", "Delete everything?"))?;
    ///     Ok(if confirm.sure { "deleted" } else { "kept" })
    /// }
    ///
    /// let tool = Tool::blocking("clean", clean);
    /// ```
    ///
    /// If the client sends responses with a retry, a request without a response ends with
    /// [`ClientRequestError::Suspended`](crate::ClientRequestError::Suspended): return it, as `?`
    /// does. The return value is ignored, and the function runs again from the top with the
    /// response. A request of a cancelled call ends with the same error.
    ///
    /// # Panics
    /// In an async handler and in one that runs in place (`Tool::inline`, `cheap`): it would block
    /// the thread that must complete the future (deadlock).
    pub fn block_on<F: IntoFuture>(&self, future: F) -> F::Output {
        block_on::block_on(future.into_future())
    }
}

/// # Call and caller
impl Ctx {
    /// Returns whether the call has ended: cancelled, timed out, or done.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.outbox().is_closed()
    }

    /// Completes when the call ends. An async handler is dropped then; this is for futures that it
    /// spawned, and for handlers on their own thread.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + use<> {
        self.outbox().closed()
    }

    /// Returns the principal, if the caller was authenticated.
    #[must_use]
    pub fn principal(&self) -> Option<&Principal> {
        self.request()?.principal()
    }

    /// Returns the client: its name, which is not verified, and its capabilities.
    #[must_use]
    pub fn client(&self) -> Arc<Peer> {
        let peer = || self.request().map(Request::peer).unwrap_or_default();
        self.inner.peer.get_or_init(peer).clone()
    }

    /// Returns whether the client has declared this capability.
    #[must_use]
    pub fn can(&self, capability: ClientCapability) -> bool {
        self.client().capabilities.has(&capability)
    }

    /// Returns the `_meta` of the request; `None` if it has more values than
    /// [`CallLimits::argument_values`](crate::CallLimits::argument_values).
    #[must_use]
    pub fn meta(&self) -> Option<Meta> {
        let json = self.request()?.meta()?;
        let most = self.server().limits.argument_values;
        if lenient_json::is_within(json, most) { serde_json::from_str(json).ok() } else { None }
    }

    /// Returns the trace context of this call: that of its span, or else that of the request. Requests of a client
    /// within the call carry it by themselves.
    #[must_use]
    pub fn trace_context(&self) -> Option<TraceContext> {
        TraceContext::current().or_else(|| TraceContext::from_meta(self.request()?.meta()?))
    }

    /// Returns a request extension that outer middleware added.
    #[must_use]
    pub fn extension<T: Clone + Send + Sync + 'static>(&self) -> Option<T> {
        self.request()?.scope.get().cloned()
    }

    /// Returns the registry, to change the server and to notify subscribers.
    #[must_use]
    pub fn registry(&self) -> Registry {
        self.server().registry()
    }
}

impl fmt::Debug for Ctx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx").field("request", &self.inner.request).finish_non_exhaustive()
    }
}
