//! A client as a service for others: a proxy.

pub(crate) mod progress_tokens;
pub(crate) mod subscription;
pub(crate) mod suspended_calls;
pub(crate) mod tasks;

use std::sync::Arc;

use wharf_model::{
    ActiveCall, BoxFuture, Deadlines, Error, ErrorKind, InputMode, InputRequired, LogLevel, Method,
    Outbox, Outcome, Page, PageBody, Peer, Reply, Request, RequestExtensions, Service, TaskRequest,
    ToolInfo,
};

use crate::{
    ClientHandle,
    call::{
        deadline,
        request::{RetryParams, CallSpec},
        run,
    },
    proxy::{
        progress_tokens::ProgressTokens, subscription::ProxySubscription, suspended_calls::SuspendedCalls, tasks::TaskProxy,
    },
    server_requests::dispatch,
};

/// A client as a service. What its back asks goes to its front, in the way of the front.
pub(crate) struct ProxyService {
    caller: ClientHandle,
    /// The back, as a front sees it that may not take tasks.
    through: Arc<TaskProxy>,
    parking: Arc<SuspendedCalls>,
    tokens: Arc<ProgressTokens>,
}

impl ProxyService {
    pub(crate) fn new(caller: ClientHandle) -> Self {
        let through = Arc::new(TaskProxy::new(caller.clone()));
        ProxyService { caller, through, parking: Arc::default(), tokens: Arc::default() }
    }
}

impl Service for ProxyService {
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let token = progress_tokens::wanted(&request);
        let call = self.pass_on(request, outbox);
        let Some(token) = token else { return call };
        let tokens = self.tokens.clone();
        Box::pin(async move {
            let outcome = call.await;
            tokens.note(&outcome, token);
            outcome
        })
    }
}

impl ProxyService {
    fn pass_on(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let link = self.caller.link();
        let asks_here = request.asks == InputMode::Deliver && request.method.info().may_suspend;
        match request.method {
            Method::ListTools if link.mirrors() => {
                let (caller, state) =
                    (self.caller.clone(), self.caller.memory().generation(Method::ListTools));
                let call = link.call(request, outbox);
                Box::pin(async move { usable(call.await, &caller, state) })
            }
            Method::CallTool if link.mirrors() => self.carry(request, outbox),
            Method::Listen => match request.filter.clone() {
                Some(live) => {
                    let tokens = self.tokens.clone();
                    Box::pin(ProxySubscription::new(link, &request, live, outbox, tokens).run())
                }
                None => link.call(request, outbox),
            },
            Method::TaskResult => {
                // How long it takes is up to the task.
                outbox.set_deadlines(Deadlines { idle: None, total: None });
                link.call(request, outbox)
            }
            _ if asks_here => self.carry(request, outbox),
            _ if request.method.info().may_suspend => self.park(request, outbox),
            _ => link.call(request, outbox),
        }
    }

    /// For a front that ends its call to be asked.
    fn park(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let through = self.through.clone();
        let (timer, deadlines) = (outbox.timer().clone(), outbox.deadlines());
        // The call keeps its own time, which it may change.
        outbox.set_deadlines(Deadlines { idle: None, total: None });
        let begin = move |request| ActiveCall::start(&*through, request, timer, deadlines);
        Box::pin(suspended_calls::run(self.parking.clone(), begin, request, outbox))
    }

    fn carry(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let again = RepeatableRequest::of(&request);
        let (caller, through) = (self.caller.clone(), self.through.clone());
        let mut carried = ProxiedCall { caller, through, outbox, rounds: 0, listed: false };
        Box::pin(async move {
            let asks_here = request.asks == InputMode::Deliver;
            let mut outcome = carried.send(request).await;
            loop {
                let retry = match outcome {
                    Outcome::InputRequired(required) if asks_here => carried.ask(*required).await,
                    Outcome::Failed(error) if carried.may_list_again(&error) => {
                        carried.list_again(again.as_ref()).await
                    }
                    other => return other,
                };
                outcome = match (retry, &again) {
                    (Ok(retry), Ok(again)) => carried.send(again.build(retry.as_ref())).await,
                    (Err(error), _) => return error.into(),
                    (_, Err(error)) => return error.clone().into(),
                };
            }
        })
    }
}

/// One call on its way through.
struct ProxiedCall {
    caller: ClientHandle,
    through: Arc<TaskProxy>,
    outbox: Outbox,
    rounds: usize,
    listed: bool,
}

impl ProxiedCall {
    async fn send(&self, mut request: Request) -> Outcome {
        let link = self.caller.link();
        if request.method == Method::CallTool && link.mirrors() {
            let (tool, arguments) = (request.target(), request.arguments());
            match self.caller.memory().mirrored(&tool, arguments, true) {
                Ok(mirrored) => request.mirrored = mirrored,
                Err(error) => return error.into(),
            }
        }
        self.through.call(request, self.outbox.clone()).await
    }

    /// Puts the back's questions to the front.
    async fn ask(&mut self, required: InputRequired) -> Result<Option<RetryParams>, Error> {
        let InputRequired { requests, state } = required;
        let most = self.caller.options().rounds;
        if self.rounds >= most {
            return Err(run::endless(&format!("asked for input more than {most} times")));
        }
        if requests.len() > dispatch::MOST {
            let what = format!("asks more than {} questions at once", dispatch::MOST);
            return Err(run::broken(&what));
        }
        self.rounds += 1;
        if requests.is_empty() {
            deadline::sleep(self.outbox.timer(), run::put_off(self.rounds - 1)).await;
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
        let mirrors = self.caller.link().mirrors();
        mirrors && !self.listed && error.kind == ErrorKind::HeaderMismatch
    }

    async fn list_again(&mut self, again: Result<&RepeatableRequest, &Error>) -> Result<Option<RetryParams>, Error> {
        self.listed = true;
        let again = again.map_err(Error::clone)?;
        run::look_up(&self.caller, again.spec.target.as_deref().unwrap_or_default()).await?;
        Ok(again.first.clone())
    }
}

/// A page without the tools that cannot be called over this link.
fn usable(outcome: Outcome, caller: &ClientHandle, state: u64) -> Outcome {
    let Outcome::Complete(Reply::Tools(page)) = outcome else { return outcome };
    let kept: Vec<Arc<ToolInfo>> = caller.memory().learn(page.items().to_vec(), true, state);
    if kept.len() == page.items().len() {
        return Reply::Tools(page).into();
    }
    Reply::Tools(Page { body: Arc::new(PageBody::new(kept)), ..page }).into()
}

/// All of a request that a retry of it needs.
pub(crate) struct RepeatableRequest {
    pub(crate) spec: CallSpec,
    /// What the front itself sent along of an earlier round.
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
            first: (responses.is_some() || state.is_some()).then_some(RetryParams { responses, state }),
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
