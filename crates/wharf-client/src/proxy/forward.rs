//! Forwards the requests of downstream clients to the upstream server, and its requests back to them.

use std::sync::Arc;

use serde_json::{Map, value::RawValue};

use wharf_model::{
    ActiveCall, BoxFuture, Deadlines, Error, ErrorKind, InputMode, InputRequired, JsonText,
    LogLevel, Method, Observers, Outbox, Outcome, PageBody, Peer, Reply, Request,
    RequestExtensions, Service, TaskRequest, ToolInfo,
};

use crate::{
    ClientHandle,
    call::{
        backoff,
        find_tool::find_tool,
        protocol_violation::{limit_exceeded, protocol_violation},
        request::{CallSpec, RetryParams},
        retry,
    },
    proxy::{
        known_targets::KnownTargets, progress_tokens, progress_tokens::ProgressTokens,
        subscription::ProxySubscription, suspended_calls, suspended_calls::SuspendedCalls,
        tasks::TaskProxy,
    },
    server_requests::dispatch,
};

/// Forwards requests to the upstream server, and the server's requests to the downstream client in
/// the input mode of that client.
pub(crate) struct ProxyService {
    caller: ClientHandle,
    /// The upstream server, for downstream clients without its task dialect.
    task_proxy: Arc<TaskProxy>,
    suspended: Arc<SuspendedCalls>,
    tokens: Arc<ProgressTokens>,
    targets: Arc<KnownTargets>,
}

impl ProxyService {
    pub(crate) fn new(caller: ClientHandle) -> Self {
        let targets = Arc::<KnownTargets>::default();
        let task_proxy = Arc::new(TaskProxy::new(caller.clone(), targets.clone()));
        let (suspended, tokens) = Default::default();
        ProxyService { caller, task_proxy, suspended, tokens, targets }
    }
}

impl Service for ProxyService {
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let token = progress_tokens::requested_token(&request);
        let recorded = self.targets.recorded_key(&request);
        let call = self.forward(request, outbox);
        if token.is_none() && recorded.is_none() {
            return call;
        }
        let (tokens, targets) = (self.tokens.clone(), self.targets.clone());
        Box::pin(async move {
            let outcome = call.await;
            if let Some(token) = token {
                tokens.record(&outcome, token);
            }
            if let Some(key) = recorded {
                targets.record(key, &outcome);
            }
            outcome
        })
    }

    fn observe_upstream(&self, observers: &Observers) {
        self.caller.transport().observe_upstream(observers);
    }

    fn has_target(&self, request: &Request) -> bool {
        self.targets.contains(request)
    }
}

impl ProxyService {
    fn forward(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let transport = self.caller.transport();
        let send = |request, outbox| self.caller.forward(&self.targets, request, outbox);
        let asks_here = request.asks == InputMode::Deliver && request.method.info().may_suspend;
        match request.method {
            Method::Custom if request.notification => self.forward_notification(&request),
            Method::ListTools if transport.sends_param_headers() => {
                let (caller, state) =
                    (self.caller.clone(), self.caller.server_state().generation(Method::ListTools));
                let call = send(request, outbox);
                Box::pin(async move { usable(call.await, &caller, state) })
            }
            Method::CallTool if transport.sends_param_headers() => {
                self.forward_with_retry(request, outbox)
            }
            Method::Listen => match request.filter.clone() {
                Some(live) => {
                    let tokens = self.tokens.clone();
                    let caller = self.caller.clone();
                    Box::pin(ProxySubscription::new(caller, &request, live, outbox, tokens).run())
                }
                None => send(request, outbox),
            },
            Method::TaskResult => {
                // The task decides how long this takes.
                outbox.set_deadlines(Deadlines::NONE);
                send(request, outbox)
            }
            _ if asks_here => self.forward_with_retry(request, outbox),
            _ if request.method.info().may_suspend => self.forward_suspended(request, outbox),
            _ => send(request, outbox),
        }
    }

    /// Forwards a notification of a downstream client, if the proxy's own client declares it and the server its
    /// extension.
    fn forward_notification(&self, request: &Request) -> BoxFuture<Outcome> {
        let caller = self.caller.clone();
        let method = request.method_name().into_owned();
        let params = RawValue::from_string(request.custom_params().into_owned());
        Box::pin(async move {
            let sent = match params {
                Ok(params) => caller.send_notification(method, params).await,
                Err(error) => Err(error.into()),
            };
            match sent.and_then(|()| Ok(JsonText::of(&Map::new())?)) {
                Ok(empty) => Reply::Custom(empty).into(),
                Err(error) => error.into(),
            }
        })
    }

    /// Forwards a call for a downstream client that must end its call to receive requests.
    fn forward_suspended(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let task_proxy = self.task_proxy.clone();
        let (timer, deadlines) = (outbox.timer().clone(), outbox.deadlines());
        // The suspended call has its own deadlines, which it may change.
        outbox.set_deadlines(Deadlines::NONE);
        let begin = move |request| ActiveCall::start(&*task_proxy, request, timer, deadlines);
        Box::pin(suspended_calls::run(self.suspended.clone(), begin, request, outbox))
    }

    fn forward_with_retry(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let repeatable = RepeatableRequest::of(&request);
        let (caller, task_proxy) = (self.caller.clone(), self.task_proxy.clone());
        let mut call = ProxiedCall { caller, task_proxy, outbox, rounds: 0, listed: false };
        Box::pin(async move {
            let asks_here = request.asks == InputMode::Deliver;
            let is_tool = request.method == Method::CallTool;
            let mut outcome = call.send(request).await;
            loop {
                let retry = match outcome {
                    Outcome::InputRequired(required) if asks_here => call.ask(*required).await,
                    Outcome::Failed(error) if is_tool && call.may_list_again(&error) => {
                        call.list_again(repeatable.as_ref()).await
                    }
                    other => return other,
                };
                outcome = match (retry, &repeatable) {
                    (Ok(retry), Ok(repeatable)) => {
                        call.send(repeatable.build(retry.as_ref())).await
                    }
                    (Err(error), _) => return error.into(),
                    (_, Err(error)) => return error.clone().into(),
                };
            }
        })
    }
}

/// One forwarded call that may be sent more than once.
struct ProxiedCall {
    caller: ClientHandle,
    task_proxy: Arc<TaskProxy>,
    outbox: Outbox,
    rounds: usize,
    listed: bool,
}

impl ProxiedCall {
    async fn send(&self, mut request: Request) -> Outcome {
        let transport = self.caller.transport();
        if request.method == Method::CallTool && transport.sends_param_headers() {
            let (tool, arguments) = (request.target(), request.arguments());
            match self.caller.server_state().mirrored(&tool, arguments, true) {
                Ok(mirrored) => request.mirrored = mirrored,
                Err(error) => return error.into(),
            }
        }
        self.task_proxy.call(request, self.outbox.clone()).await
    }

    /// Forwards the requests of an `input_required` result to the downstream client.
    async fn ask(&mut self, required: InputRequired) -> Result<Option<RetryParams>, Error> {
        let InputRequired { requests, state, .. } = required;
        let most = self.caller.options().rounds;
        if self.rounds >= most {
            return Err(limit_exceeded(&format!("requested input more than {most} times")));
        }
        if requests.len() > dispatch::MAX_OPEN_REQUESTS {
            let what =
                format!("sent more than {} input requests at once", dispatch::MAX_OPEN_REQUESTS);
            return Err(protocol_violation(&what));
        }
        self.rounds += 1;
        if requests.is_empty() {
            backoff::sleep(self.outbox.timer(), retry::overload_delay(self.rounds - 1)).await;
            return Ok(Some(RetryParams { responses: None, state }));
        }
        let asked = requests.into_iter().map(|(key, ask)| {
            let answering: BoxFuture<Result<String, Error>> = Box::pin(self.outbox.ask(ask));
            (key, answering)
        });
        let responses = Some(dispatch::all(asked.collect()).await?);
        Ok(Some(RetryParams { responses, state }))
    }

    fn may_list_again(&self, error: &Error) -> bool {
        let sends_param_headers = self.caller.transport().sends_param_headers();
        sends_param_headers && !self.listed && error.kind == ErrorKind::HeaderMismatch
    }

    async fn list_again(
        &mut self,
        repeatable: Result<&RepeatableRequest, &Error>,
    ) -> Result<Option<RetryParams>, Error> {
        self.listed = true;
        let repeatable = repeatable.map_err(Error::clone)?;
        find_tool(&self.caller, repeatable.spec.target.as_deref().unwrap_or_default()).await?;
        Ok(repeatable.first.clone())
    }
}

/// Removes tools from a page that cannot be called over this transport.
fn usable(outcome: Outcome, caller: &ClientHandle, state: u64) -> Outcome {
    let Outcome::Complete(Reply::Tools(mut page)) = outcome else { return outcome };
    let kept: Vec<Arc<ToolInfo>> =
        caller.server_state().add_tools(page.items().to_vec(), true, state);
    if kept.len() == page.items().len() {
        return Reply::Tools(page).into();
    }
    page.body = Arc::new(PageBody::new(kept));
    Reply::Tools(page).into()
}

/// The parts of a request that are needed to send it again.
pub(crate) struct RepeatableRequest {
    pub(crate) spec: CallSpec,
    /// Input responses and request state that the downstream client sent.
    pub(crate) first: Option<RetryParams>,
    asks: InputMode,
    log_level: Option<LogLevel>,
    progress: bool,
    tasking: TaskRequest,
    scope: RequestExtensions,
    peer: Arc<Peer>,
}

impl RepeatableRequest {
    pub(crate) fn of(request: &Request) -> Result<Self, Error> {
        let responses = request.input_responses().map(str::to_owned);
        let state = request.request_state().map(Into::into);
        Ok(RepeatableRequest {
            spec: CallSpec::of(request)?,
            first: (responses.is_some() || state.is_some())
                .then_some(RetryParams { responses, state }),
            asks: request.asks,
            log_level: request.log_level,
            progress: request.progress,
            tasking: request.tasking,
            scope: request.scope.clone(),
            peer: request.peer(),
        })
    }

    pub(crate) fn build(&self, retry: Option<&RetryParams>) -> Request {
        let mut request = self.spec.build(retry).from_peer(self.peer.clone());
        request.asks = self.asks;
        request.log_level = self.log_level;
        request.progress = self.progress;
        request.tasking = self.tasking;
        request.scope = self.scope.clone();
        request
    }
}
