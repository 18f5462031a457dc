//! A fake transport that plays back scripted steps.

pub(crate) mod scripted_tasks;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, Weak},
    time::{Duration, Instant},
};

use serde_json::{Value, json, value::RawValue};
use wharf_client::{
    CallOptions, ClientHandle, ClientHandler, ClientHandlerBuilder, ClientTransport,
    ControlRequest, NotificationListener, ServerInfo,
};
use wharf_model::{
    BoxFuture, CacheHint, Discovery, Error, HeaderParams, Implementation, InputMode, InputRequired,
    LogLevel, Method, Notification, Outbox, Outcome, Page, PageBody, Reply, Request, Service,
    TaskRequest, ToolInfo,
};
use wharf_testbed::TokioTimer;

/// A request that the transport received.
#[derive(Clone, Debug)]
pub(crate) struct SentRequest {
    pub(crate) method: Method,
    pub(crate) params: Value,
    pub(crate) asks: InputMode,
    pub(crate) progress: bool,
    pub(crate) log_level: Option<LogLevel>,
    pub(crate) mirrored: Option<HeaderParams>,
    pub(crate) tasking: TaskRequest,
    pub(crate) at: Instant,
}

type CallStep = Box<dyn FnOnce(Request, Outbox) -> BoxFuture<Outcome> + Send>;
type DefaultStep = Box<dyn Fn(Request, Outbox) -> BoxFuture<Outcome> + Send + Sync>;

/// A fake transport that plays back steps in order, and then its default step.
pub(crate) struct FakeTransport {
    pub(crate) about: ServerInfo,
    pub(crate) sends_param_headers: bool,
    steps: Mutex<VecDeque<CallStep>>,
    always: Mutex<Option<DefaultStep>>,
    sent: Mutex<Vec<SentRequest>>,
    listeners: Mutex<Vec<Weak<dyn NotificationListener>>>,
    control_requests: Mutex<Vec<ControlRequest>>,
    /// Number of calls dropped before their end.
    pub(crate) dropped: Arc<Mutex<usize>>,
    /// The script of a task, if there is one.
    pub(crate) script: Option<Arc<Mutex<scripted_tasks::TaskScript>>>,
}

impl Default for FakeTransport {
    fn default() -> Self {
        FakeTransport::with(json!({"tools": {}, "prompts": {}, "resources": {"subscribe": true},
            "completions": {}, "logging": {}}))
    }
}

impl FakeTransport {
    /// A server with these capabilities.
    pub(crate) fn with(capabilities: Value) -> Self {
        let capabilities = serde_json::from_value(capabilities).unwrap();
        let discovery = Discovery::default().capabilities(capabilities);
        FakeTransport {
            about: ServerInfo::new(Implementation::new("fake", "1"), discovery),
            sends_param_headers: false,
            steps: Mutex::default(),
            always: Mutex::default(),
            sent: Mutex::default(),
            listeners: Mutex::default(),
            control_requests: Mutex::default(),
            dropped: Arc::default(),
            script: None,
        }
    }

    pub(crate) fn with_param_headers(mut self) -> Self {
        self.sends_param_headers = true;
        self
    }

    /// The next call ends immediately with this outcome.
    pub(crate) fn then(self, outcome: impl Into<Outcome>) -> Self {
        let outcome = outcome.into();
        self.play(async move |_, _| outcome)
    }

    /// The next call runs this step.
    pub(crate) fn play<Fut>(
        self,
        step: impl FnOnce(Request, Outbox) -> Fut + Send + 'static,
    ) -> Self
    where
        Fut: Future<Output = Outcome> + Send + 'static,
    {
        let dropped = self.dropped.clone();
        self.steps.lock().unwrap().push_back(Box::new(move |request, outbox| {
            let call = step(request, outbox);
            Box::pin(async move {
                let mut guard = DropCounter(Some(dropped));
                let outcome = call.await;
                guard.0 = None;
                outcome
            })
        }));
        self
    }

    /// Every call after the steps ends with this outcome.
    pub(crate) fn always(
        self,
        outcome: impl Fn(Request) -> Outcome + Send + Sync + 'static,
    ) -> Self {
        self.always_does(move |request, _| Box::pin(std::future::ready(outcome(request))))
    }

    /// Every call after the steps runs this.
    pub(crate) fn always_does(
        self,
        does: impl Fn(Request, Outbox) -> BoxFuture<Outcome> + Send + Sync + 'static,
    ) -> Self {
        *self.always.lock().unwrap() = Some(Box::new(does));
        self
    }

    pub(crate) fn transport(self) -> Arc<Self> {
        Arc::new(self)
    }

    pub(crate) fn sent(&self) -> Vec<SentRequest> {
        self.sent.lock().unwrap().clone()
    }

    pub(crate) fn params(&self) -> Vec<Value> {
        self.sent().into_iter().map(|it| it.params).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.sent.lock().unwrap().len()
    }

    pub(crate) fn control_requests(&self) -> Vec<ControlRequest> {
        self.control_requests.lock().unwrap().clone()
    }

    pub(crate) fn dropped(&self) -> usize {
        *self.dropped.lock().unwrap()
    }

    /// Sends a notification outside of any call.
    pub(crate) fn notify(&self, notification: Notification) {
        for listener in &*self.listeners.lock().unwrap() {
            listener.upgrade().unwrap().on_notification(&notification);
        }
    }
}

struct DropCounter(Option<Arc<Mutex<usize>>>);

impl Drop for DropCounter {
    fn drop(&mut self) {
        if let Some(dropped) = self.0.take() {
            *dropped.lock().unwrap() += 1;
        }
    }
}

impl Service for FakeTransport {
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        self.sent.lock().unwrap().push(SentRequest {
            method: request.method,
            params: serde_json::from_str(request.params()).unwrap(),
            asks: request.asks,
            progress: request.progress,
            log_level: request.log_level,
            mirrored: request.mirrored.clone(),
            tasking: request.tasking,
            at: tokio::time::Instant::now().into_std(),
        });
        let changes = self.script.as_ref().is_some_and(|it| it.lock().unwrap().changes());
        if changes && request.method == Method::ListTools {
            self.notify(Notification::ToolsChanged);
        }
        let step = self.steps.lock().unwrap().pop_front();
        match (step, &*self.always.lock().unwrap()) {
            (Some(step), _) => step(request, outbox),
            (None, Some(always)) => always(request, outbox),
            (None, None) => panic!("the script has no step for {request:?}"),
        }
    }
}

impl ClientTransport for FakeTransport {
    fn about(&self) -> Arc<ServerInfo> {
        Arc::new(self.about.clone())
    }

    fn request(
        &self,
        method: String,
        params: Option<Box<RawValue>>,
        outbox: Outbox,
    ) -> BoxFuture<Result<Box<RawValue>, Error>> {
        Box::pin(async move {
            match &*method {
                "ask" => {
                    let answer = outbox.ask(wharf_model::ClientRequest::Roots).await?;
                    Ok(RawValue::from_string(answer).unwrap())
                }
                "silence" => std::future::pending().await,
                "echo" => {
                    Ok(params.unwrap_or_else(|| RawValue::from_string("1.50".into()).unwrap()))
                }
                _ => Err(Error::method_not_found(&method)),
            }
        })
    }

    fn run(&self, control: ControlRequest) -> BoxFuture<Result<(), Error>> {
        let silent = control == ControlRequest::Ping && self.about.info.name == "silent";
        self.control_requests.lock().unwrap().push(control);
        Box::pin(async move { if silent { std::future::pending().await } else { Ok(()) } })
    }

    fn add_listener(&self, listener: Weak<dyn NotificationListener>) {
        self.listeners.lock().unwrap().push(listener);
    }

    fn sends_param_headers(&self) -> bool {
        self.sends_param_headers
    }

    fn close(&self) -> BoxFuture<()> {
        Box::pin(async {})
    }
}

pub(crate) fn caller(transport: &Arc<FakeTransport>) -> ClientHandle {
    caller_with(transport, ClientHandlerBuilder::new(), CallOptions::default())
}

pub(crate) fn answering(
    transport: &Arc<FakeTransport>,
    answers: impl ClientHandler,
) -> ClientHandle {
    caller_with(transport, answers, CallOptions::default())
}

pub(crate) fn caller_with(
    transport: &Arc<FakeTransport>,
    answers: impl ClientHandler,
    options: CallOptions,
) -> ClientHandle {
    ClientHandle::new(transport.clone(), Arc::new(TokioTimer), options, Arc::new(answers))
}

pub(crate) fn page<T>(items: impl IntoIterator<Item = T>, next: Option<&str>, ttl: u64) -> Page<T> {
    let items = items.into_iter().map(Arc::new).collect();
    Page::new(Arc::new(PageBody::new(items)))
        .next(next.map(str::to_owned))
        .cache(CacheHint::private(ttl))
}

pub(crate) fn tools(names: &[&str], next: Option<&str>) -> Outcome {
    let infos = names.iter().map(|name| ToolInfo::without_parameters(*name));
    Reply::Tools(page(infos, next, 0)).into()
}

/// One page with one tool.
pub(crate) fn tool(info: ToolInfo) -> Outcome {
    Reply::Tools(page([info], None, 0)).into()
}

pub(crate) fn required(
    requests: Vec<(&str, wharf_model::ClientRequest)>,
    state: Option<&str>,
) -> Outcome {
    let requests = requests.into_iter().map(|(key, ask)| (key.to_owned(), ask)).collect();
    Outcome::InputRequired(Box::new(InputRequired::new(requests, state.map(str::to_owned))))
}

pub(crate) fn names(tools: &[Arc<ToolInfo>]) -> Vec<&str> {
    tools.iter().map(|tool| &*tool.name).collect()
}

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn poll_once<T>(future: &mut BoxFuture<T>) -> std::task::Poll<T> {
    future.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
}
