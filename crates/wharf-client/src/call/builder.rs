//! [`CallBuilder`]: options and hooks of one call.

use std::{collections::BTreeMap, fmt, future::IntoFuture, time::Duration};

use serde_json::{json, value::RawValue};
use wharf_model::{BoxFuture, Completion, Error, FailureOrigin, LogLevel, Meta, Reply, Task};

use crate::{
    CallError, TaskHandle,
    call::{request::CallSpec, run},
    client_handle::ClientHandle,
};

/// A progress notification.
///
/// ```
/// # mod wharf { pub use wharf_client::*; pub use wharf_client::ClientHandle as Client; pub mod client { pub use super::*; } }
/// use wharf::{Client, client::Progress};
///
/// fn show(it: Progress) {
///     match it.total {
///         Some(total) => println!("{:.0} %", 100.0 * it.progress / total),
///         None => println!("{} {}", it.progress, it.message.unwrap_or_default()),
///     }
/// }
///
/// # async fn example(client: Client) -> Result<(), wharf_model::Error> {
/// client.call("deploy", ()).on_progress(show).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// Increases with each notification.
    pub progress: f64,
    /// The value of `progress` at the end, if known.
    pub total: Option<f64>,
    /// A description for users.
    pub message: Option<String>,
}

/// A log message of a call.
///
/// ```
/// # mod wharf { pub use wharf_client::*; pub use wharf_client::ClientHandle as Client; pub mod client { pub use super::*; } }
/// use wharf::{Client, client::LogMessage};
///
/// fn show(it: LogMessage) {
///     println!("{:?} {}: {}", it.level, it.logger.unwrap_or_default(), it.data);
/// }
///
/// # async fn example(client: Client) -> Result<(), wharf_model::Error> {
/// client.call("deploy", ()).on_log(show).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LogMessage {
    /// The severity.
    pub level: LogLevel,
    /// The name of the logger.
    pub logger: Option<String>,
    /// The message, as any JSON.
    pub data: Box<RawValue>,
}

type TaskHook = Box<dyn FnMut(&Task) + Send>;

/// Callbacks for events during a call.
#[derive(Default)]
pub(crate) struct CallHooks {
    pub(crate) progress: Option<Box<dyn FnMut(Progress) + Send>>,
    pub(crate) log: Option<Box<dyn FnMut(LogMessage) + Send>>,
    pub(crate) task: Option<TaskHook>,
}

/// The request to send: a method of the protocol, or any method by its name.
#[derive(Clone, Debug)]
pub(crate) enum CallKind {
    Call(CallSpec),
    /// A tool call as a task if the server supports that, kept for this many milliseconds.
    Start(CallSpec, Option<u64>),
    /// Waits for the end of a task.
    Wait(TaskHandle),
    Raw {
        method: String,
        params: Option<String>,
    },
}

/// The result of a successful call.
pub(crate) enum CallResult {
    Reply(Reply),
    Task(TaskHandle),
    Raw(Box<RawValue>),
}

/// A call that can be configured: `.await` sends it, and dropping the future cancels it.
///
/// ```
/// # mod wharf { pub use wharf_client::*; pub use wharf_client::ClientHandle as Client; pub mod client { pub use super::*; } }
/// use std::time::Duration;
/// use wharf::{Client, args};
///
/// # async fn example(client: Client) -> Result<(), wharf_model::Error> {
/// let result = client
///     .call("deploy", args! { build: "1.2.3" })
///     .timeout(Duration::from_secs(300))
///     .on_progress(|it| println!("{}", it.progress))
///     .await?;
/// # drop(result);
/// # Ok(())
/// # }
/// ```
#[must_use = "a call does nothing unless awaited"]
pub struct CallBuilder<T> {
    pub(crate) caller: ClientHandle,
    pub(crate) what: Result<CallKind, Error>,
    pub(crate) read: fn(CallResult) -> Result<T, Error>,
    pub(crate) hooks: CallHooks,
    pub(crate) idle: Duration,
    pub(crate) total: Duration,
    pub(crate) cached: bool,
    context: BTreeMap<String, String>,
}

impl<T> CallBuilder<T> {
    pub(crate) fn new(
        caller: &ClientHandle,
        what: Result<CallKind, Error>,
        read: fn(CallResult) -> Result<T, Error>,
    ) -> Self {
        let (idle, total) = (caller.options().idle, caller.options().total);
        let (caller, hooks) = (caller.clone(), CallHooks::default());
        CallBuilder {
            caller,
            what,
            read,
            hooks,
            idle,
            total,
            cached: true,
            context: BTreeMap::new(),
        }
    }

    /// Sets the idle timeout: the longest time without progress or another event.
    pub fn timeout(mut self, idle: Duration) -> Self {
        self.idle = idle;
        self
    }

    /// Sets the total timeout.
    pub fn total(mut self, total: Duration) -> Self {
        self.total = total;
        self
    }

    /// Sets the callback for progress notifications.
    pub fn on_progress(mut self, callback: impl FnMut(Progress) + Send + 'static) -> Self {
        self.hooks.progress = Some(Box::new(callback));
        self
    }

    /// Sets the callback for log messages. The server sends them if the client's `set_log_level`
    /// requested them.
    pub fn on_log(mut self, callback: impl FnMut(LogMessage) + Send + 'static) -> Self {
        self.hooks.log = Some(Box::new(callback));
        self
    }

    /// Sets the callback for the state of the task that the call became, on every update.
    pub fn on_task(mut self, callback: impl FnMut(&Task) + Send + 'static) -> Self {
        self.hooks.task = Some(Box::new(callback));
        self
    }

    /// Sends these members in `_meta`. Members that the protocol sets take precedence.
    pub fn meta(mut self, meta: Meta) -> Self {
        self.what = self.what.and_then(|what| with_meta(what, meta));
        self
    }

    /// Bypasses the cache.
    pub fn no_cache(mut self) -> Self {
        self.cached = false;
        self
    }
}

impl CallBuilder<TaskHandle> {
    /// Requests that the server keep the task and its result for this time after creation. Not
    /// every server honours it.
    pub fn keep_for(mut self, ttl: Duration) -> Self {
        if let Ok(CallKind::Start(_, kept)) = &mut self.what {
            *kept = Some(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
        }
        self
    }
}

impl CallBuilder<Completion> {
    /// Sets the arguments that are already resolved.
    pub fn context<K: Into<String>, V: Into<String>>(
        mut self,
        settled: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.context.extend(settled.into_iter().map(|(name, value)| (name.into(), value.into())));
        self
    }
}

impl<T: 'static> IntoFuture for CallBuilder<T> {
    type Output = Result<T, CallError>;
    type IntoFuture = BoxFuture<Result<T, CallError>>;

    fn into_future(mut self) -> Self::IntoFuture {
        if let (Ok(CallKind::Call(spec)), false) = (&mut self.what, self.context.is_empty()) {
            let context = json!({"arguments": self.context});
            spec.params.push(("context".into(), context.to_string()));
        }
        let CallBuilder { caller, what, read, hooks, idle, total, cached, .. } = self;
        Box::pin(async move {
            let limits = run::CallLimits { idle, total, cached };
            let what = what.map_err(CallError::of_outcome)?;
            let done = run::run(&caller, what, hooks, limits).await;
            done.and_then(read).map_err(CallError::of_outcome)
        })
    }
}

fn with_meta(what: CallKind, meta: Meta) -> Result<CallKind, Error> {
    Ok(match what {
        CallKind::Call(spec) => CallKind::Call(CallSpec { meta: Some(meta), ..spec }),
        CallKind::Start(spec, ttl) => CallKind::Start(CallSpec { meta: Some(meta), ..spec }, ttl),
        // The caller's `_meta` is not sent with `tasks/get` requests.
        CallKind::Wait(handle) => CallKind::Wait(handle),
        CallKind::Raw { method, params } => {
            let mut all: Meta = match params {
                Some(params) => serde_json::from_str(&params).map_err(|error| {
                    Error::invalid_params(error).from_client(FailureOrigin::Usage)
                })?,
                None => Meta::new(),
            };
            all.insert("_meta".into(), meta.into());
            CallKind::Raw { method, params: Some(serde_json::to_string(&all)?) }
        }
    })
}

impl<T> fmt::Debug for CallBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallBuilder").field("what", &self.what).finish_non_exhaustive()
    }
}
