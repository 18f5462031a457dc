//! A call in the making.

use std::{collections::BTreeMap, fmt, future::IntoFuture, time::Duration};

use serde_json::{json, value::RawValue};
use wharf_model::{BoxFuture, Completion, Error, LogLevel, Meta, Reply, Task};

use crate::{
    TaskHandle,
    api::ClientHandle,
    call::{request::CallSpec, run},
};

/// How far a call has come.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// Rises with each message.
    pub progress: f64,
    /// What `progress` will be at the end, if known.
    pub total: Option<f64>,
    /// What is going on, for people.
    pub message: Option<String>,
}

/// A log message of a call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LogMessage {
    /// How grave it is.
    pub level: LogLevel,
    /// Where it comes from.
    pub logger: Option<String>,
    /// Any JSON.
    pub data: Box<RawValue>,
}

type TaskHook = Box<dyn FnMut(&Task) + Send>;

/// Who hears of what happens on the way.
#[derive(Default)]
pub(crate) struct CallHooks {
    pub(crate) progress: Option<Box<dyn FnMut(Progress) + Send>>,
    pub(crate) log: Option<Box<dyn FnMut(LogMessage) + Send>>,
    pub(crate) task: Option<TaskHook>,
}

/// What is called: a method of the protocol, or anything by its name.
#[derive(Clone, Debug)]
pub(crate) enum CallKind {
    Call(CallSpec),
    /// A tool, as a task if the server can, which is kept for so many milliseconds.
    Start(CallSpec, Option<u64>),
    /// The end of a task.
    Wait(TaskHandle),
    Raw {
        method: String,
        params: Option<String>,
    },
}

/// How a call ended well.
pub(crate) enum CallResult {
    Reply(Reply),
    Task(TaskHandle),
    Raw(Box<RawValue>),
}

/// A call in the making: `.await` sends it, and dropping it then cancels it.
///
/// ```
/// # mod wharf { pub use wharf_client::*; }
/// use std::time::Duration;
/// use wharf::{ClientHandle, args};
///
/// # async fn example(caller: ClientHandle) -> Result<(), wharf_model::Error> {
/// let result = caller
///     .call("deploy", args! { build: "1.2.3" })
///     .timeout(Duration::from_secs(300))
///     .on_progress(|it| println!("{}", it.progress))
///     .await?;
/// # drop(result);
/// # Ok(())
/// # }
/// ```
#[must_use = "a call is sent when it is awaited"]
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

    /// How long it may show no sign of life, such as progress.
    pub fn timeout(mut self, idle: Duration) -> Self {
        self.idle = idle;
        self
    }

    /// How long it may take in all.
    pub fn total(mut self, total: Duration) -> Self {
        self.total = total;
        self
    }

    /// Hears how far it has come.
    pub fn on_progress(mut self, callback: impl FnMut(Progress) + Send + 'static) -> Self {
        self.hooks.progress = Some(Box::new(callback));
        self
    }

    /// Hears its log messages, if [`ClientHandle::set_log_level`] asked for any.
    pub fn on_log(mut self, callback: impl FnMut(LogMessage) + Send + 'static) -> Self {
        self.hooks.log = Some(Box::new(callback));
        self
    }

    /// Sees where the task stands that the call has become, each time anything is known of it.
    pub fn on_task(mut self, callback: impl FnMut(&Task) + Send + 'static) -> Self {
        self.hooks.task = Some(Box::new(callback));
        self
    }

    /// Sends these members of `_meta` along. What the protocol itself puts there comes on top.
    pub fn meta(mut self, meta: Meta) -> Self {
        self.what = self.what.and_then(|what| with_meta(what, meta));
        self
    }

    /// Asks the server, even if an earlier result is still good.
    pub fn no_cache(mut self) -> Self {
        self.cached = false;
        self
    }
}

impl CallBuilder<TaskHandle> {
    /// Asks the server to keep the task, with its result, for so long after its creation. Not every
    /// server lets itself be told.
    pub fn keep_for(mut self, ttl: Duration) -> Self {
        if let Ok(CallKind::Start(_, kept)) = &mut self.what {
            *kept = Some(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
        }
        self
    }
}

impl CallBuilder<Completion> {
    /// Tells the arguments that are already settled.
    pub fn context<K: Into<String>, V: Into<String>>(
        mut self,
        settled: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.context.extend(settled.into_iter().map(|(name, value)| (name.into(), value.into())));
        self
    }
}

impl<T: 'static> IntoFuture for CallBuilder<T> {
    type Output = Result<T, Error>;
    type IntoFuture = BoxFuture<Result<T, Error>>;

    fn into_future(mut self) -> Self::IntoFuture {
        if let (Ok(CallKind::Call(spec)), false) = (&mut self.what, self.context.is_empty()) {
            let context = json!({"arguments": self.context});
            spec.params.push(("context".into(), context.to_string()));
        }
        let CallBuilder { caller, what, read, hooks, idle, total, cached, .. } = self;
        Box::pin(async move {
            let limits = run::CallLimits { idle, total, cached };
            run::run(&caller, what?, hooks, limits).await.and_then(read)
        })
    }
}

fn with_meta(what: CallKind, meta: Meta) -> Result<CallKind, Error> {
    Ok(match what {
        CallKind::Call(spec) => CallKind::Call(CallSpec { meta: Some(meta), ..spec }),
        CallKind::Start(spec, ttl) => CallKind::Start(CallSpec { meta: Some(meta), ..spec }, ttl),
        // Nothing of a caller's own goes with the looks at a task.
        CallKind::Wait(handle) => CallKind::Wait(handle),
        CallKind::Raw { method, params } => {
            let mut all: Meta = match params {
                Some(params) => serde_json::from_str(&params)?,
                None => Meta::new(),
            };
            all.insert("_meta".into(), meta.into());
            CallKind::Raw { method, params: Some(serde_json::to_string(&all)?) }
        }
    })
}

impl<T> fmt::Debug for CallBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calling").field("what", &self.what).finish_non_exhaustive()
    }
}
