//! What a handler can do besides returning.

pub(crate) mod client_requests;
pub(crate) mod elicitation_form;
pub(crate) mod progress;
pub(crate) mod step;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
};

use serde::Serialize;
use serde_json::value::to_raw_value;
use wharf_model::{
    ClientCapability, Error, InputMode, LogLevel, Meta, Notification, Outbox, Peer, Principal,
    Rate, Request,
};

use crate::{
    Registry,
    context::progress::ProgressUpdate,
    handler::{block_on, suspend::HandlerRun},
    lenient_json,
    router::state::ServerState,
    tasks::{promotion::TaskPromotion, runtime::TaskRunApi},
};

/// The context of one call: progress, logs, questions to the client, remembered effects.
///
/// A handler takes it as a parameter. Clones are the same context.
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
    run: Mutex<HandlerRun>,
}

impl Ctx {
    pub(crate) fn new(outbox: Outbox, server: Arc<ServerState>) -> Ctx {
        let limits = &server.limits;
        let rate =
            Rate { per_second: limits.progress_rate.into(), burst: limits.progress_burst.into() };
        let run = Mutex::new(HandlerRun::new(rate));
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

    pub(crate) fn asks(&self) -> InputMode {
        match self.promotion() {
            Some(promotion) if promotion.is_task() => InputMode::Park,
            _ => self.request().map_or(InputMode::Deliver, |request| request.asks),
        }
    }

    /// What ties this call to a task, if it is one or may become one.
    pub(crate) fn promotion(&self) -> Option<&TaskPromotion> {
        self.request()?.scope.get()
    }

    /// The task that this call is.
    pub(crate) fn task_run(&self) -> Option<Arc<dyn TaskRunApi>> {
        self.promotion()?.task_run()
    }

    pub(crate) fn downgrade(&self) -> WeakCtx {
        WeakCtx(Arc::downgrade(&self.inner))
    }

    /// The run, locked: never across an await or anybody else's code.
    pub(crate) fn run(&self) -> MutexGuard<'_, HandlerRun> {
        self.inner.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells this call from all others that are under way.
    pub(crate) fn id(&self) -> usize {
        Arc::as_ptr(&self.inner).addr()
    }
}

/// A context, as long as its call is there.
pub(crate) struct WeakCtx(Weak<CtxInner>);

impl WeakCtx {
    pub(crate) fn upgrade(&self) -> Option<Ctx> {
        Some(Ctx { inner: self.0.upgrade()?, logger: None })
    }
}

/// # Tasks
impl Ctx {
    /// Lets the call go on as a task from here, if its caller follows tasks and the tool may be
    /// one. For everybody else nothing changes. Once it returns, the task is in the server's store,
    /// its caller has its id, and what the handler does from now on no longer needs a connection.
    ///
    /// What is asked before it is asked during the call; what is asked after it waits for the
    /// task's owner.
    ///
    /// ```
    /// # mod wharf { pub use {wharf_model::*, wharf_server::*}; }
    /// use wharf::{Ctx, TaskMode, Tool, ToolError};
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
    /// If a task should be made and cannot: there are too many, or their store does not answer.
    pub async fn detach(&self) -> Result<(), Error> {
        match self.promotion() {
            Some(promotion) => promotion.detach().await,
            None => Ok(()),
        }
    }

    /// The id of the task that this call is, if it is one.
    #[must_use]
    pub fn task_id(&self) -> Option<String> {
        Some(self.task_run()?.id().to_owned())
    }
}

/// # Signs of life
impl Ctx {
    /// Reports progress, if the client wants it. Of a task it is written down in any case, and is
    /// what its owner reads while it is at work.
    ///
    /// A value that is not above the last one is dropped. After a burst, updates go out at a
    /// limited rate, and of those in between the last one wins; the final one always goes out.
    pub async fn progress(&self, progress: f64) {
        self.report(ProgressUpdate { progress, total: None, message: None }).await;
    }

    /// Reports progress towards a known total.
    pub async fn progress_of(&self, progress: f64, total: f64) {
        self.report(ProgressUpdate { progress, total: Some(total), message: None }).await;
    }

    /// Reports progress with a text for people.
    pub async fn progress_message(
        &self,
        progress: f64,
        total: impl Into<Option<f64>>,
        message: impl Into<String>,
    ) {
        let (total, message) = (total.into(), Some(message.into()));
        self.report(ProgressUpdate { progress, total, message }).await;
    }

    async fn report(&self, update: ProgressUpdate) {
        let outbox = self.outbox();
        let wanted = self.request().is_some_and(|request| request.progress);
        if !wanted && !self.promotion().is_some_and(TaskPromotion::is_task) {
            return outbox.touch();
        }
        let now = outbox.timer().now();
        let (sent, held) = {
            let mut run = self.run();
            (run.throttle.offer(update, now), run.throttle.due().is_some())
        };
        match sent {
            Some(update) => {
                // Before, or a handler that reports from many futures at once would never be held back.
                outbox.room().await;
                outbox.notify(update.into());
                outbox.room().await;
            }
            None => outbox.touch(),
        }
        if held {
            // Whoever drives the call must set its alarm.
            self.wake_driver();
        }
    }

    /// Lets the client's connection close while the call goes on, where the client can come back
    /// for the rest. Elsewhere it has no effect.
    ///
    /// A call that takes minutes should not need a connection that lasts as long. What the call
    /// sends from now on, and its result, wait for the client.
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

    /// The same context, whose log messages say that they come from `name`.
    #[must_use]
    pub fn logger(&self, name: impl Into<Arc<str>>) -> Ctx {
        Ctx { inner: self.inner.clone(), logger: Some(name.into()) }
    }

    /// Sends a log message to the client, if it wants messages of this level.
    ///
    /// The client reads it: no secrets, and nothing about how the server is built.
    pub async fn log(&self, level: LogLevel, data: impl Serialize) {
        let outbox = self.outbox();
        let wanted = self.request().and_then(|request| request.log_level);
        let declared = || self.server().catalog.load().discovery.capabilities.logging;
        if wanted.is_none_or(|least| level < least) || !declared() {
            return outbox.touch();
        }
        // Before the message is made, however many futures of the handler log at once.
        outbox.room().await;
        let logger = self.logger.as_deref().map(str::to_owned);
        match to_raw_value(&data) {
            Ok(data) => outbox.notify(Notification::Log { level, logger, data }),
            Err(error) => tracing::warn!(%error, "a log message could not be written as JSON"),
        }
        outbox.room().await;
    }

    /// Logs what only somebody who looks for a fault wants to know.
    pub async fn debug(&self, data: impl Serialize) {
        self.log(LogLevel::Debug, data).await;
    }

    /// Logs what happens.
    pub async fn info(&self, data: impl Serialize) {
        self.log(LogLevel::Info, data).await;
    }

    /// Logs what is normal but worth a look.
    pub async fn notice(&self, data: impl Serialize) {
        self.log(LogLevel::Notice, data).await;
    }

    /// Logs what may become a fault.
    pub async fn warning(&self, data: impl Serialize) {
        self.log(LogLevel::Warning, data).await;
    }

    /// Logs a fault.
    pub async fn error(&self, data: impl Serialize) {
        self.log(LogLevel::Error, data).await;
    }
}

/// # Plain functions
impl Ctx {
    /// Waits for what this context does, in a plain function that runs on a thread where it may
    /// block: one of `Tool::blocking`, or a `#[tool]` that is no `async fn` and not `cheap`.
    ///
    /// ```
    /// # mod wharf { pub use {wharf_model::*, wharf_server::*}; }
    /// use wharf::{ClientRequestError, Ctx, Tool};
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
    /// Where the client brings its answers with another call, an ask that has no answer yet ends
    /// with [`ClientRequestError::Suspended`](crate::AskError::Suspended): return then, as `?` does. What
    /// the function returns is not used, and it runs again, from the top, with the answer. The
    /// same is the end of an ask whose call was cancelled.
    ///
    /// # Panics
    /// In an async handler and in one that runs in place (`Tool::inline`, `cheap`): whoever could
    /// bring what it waits for would wait for it.
    pub fn block_on<F: IntoFuture>(&self, future: F) -> F::Output {
        block_on::block_on(future.into_future())
    }
}

/// # The call and its caller
impl Ctx {
    /// Whether the call is over: cancelled, out of time, or done.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.outbox().is_closed()
    }

    /// Completes when the call is over. An async handler is dropped then; this is for what it
    /// spawned, and for handlers that run on a thread of their own.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + use<> {
        self.outbox().closed()
    }

    /// Who is calling, if anybody authenticated the caller.
    #[must_use]
    pub fn principal(&self) -> Option<&Principal> {
        self.request()?.principal()
    }

    /// The client at the other end: its name, unverified, and what it can do.
    #[must_use]
    pub fn client(&self) -> Arc<Peer> {
        let peer = || self.request().map(Request::peer).unwrap_or_default();
        self.inner.peer.get_or_init(peer).clone()
    }

    /// Whether the client has declared that it can do this.
    #[must_use]
    pub fn can(&self, capability: ClientCapability) -> bool {
        self.client().capabilities.has(&capability)
    }

    /// The metadata of the request; none if it has more values than
    /// [`Limits::argument_values`](crate::Limits::argument_values).
    #[must_use]
    pub fn meta(&self) -> Option<Meta> {
        let json = self.request()?.meta()?;
        let most = self.server().limits.argument_values;
        if lenient_json::is_within(json, most) { serde_json::from_str(json).ok() } else { None }
    }

    /// The W3C trace context of the request: its `traceparent`.
    #[must_use]
    pub fn trace_parent(&self) -> Option<String> {
        self.meta_text("traceparent")
    }

    /// The W3C trace context of the request: its `tracestate`.
    #[must_use]
    pub fn trace_state(&self) -> Option<String> {
        self.meta_text("tracestate")
    }

    fn meta_text(&self, key: &str) -> Option<String> {
        self.meta()?.get(key)?.as_str().map(str::to_owned)
    }

    /// What an outer layer put beside the message.
    #[must_use]
    pub fn extension<T: Clone + Send + Sync + 'static>(&self) -> Option<T> {
        self.request()?.scope.get().cloned()
    }

    /// The server's tools, resources and prompts, to change them and to tell listeners.
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
