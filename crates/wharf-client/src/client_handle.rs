//! [`ClientHandle`]: typed calls to one server.

use std::{
    borrow::Cow,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{json, value::RawValue};
use wharf_model::{
    ActiveCall, BoxFuture, CallRole, ClientObservation, Completion, CompletionRef,
    CustomNotification, Deadlines, Error, ErrorKind, FailureOrigin, Lock, LogLevel, Method,
    ObservedEvent, ObservedServer, Observers, Outbox, Outcome, Peer, PromptInfo, PromptResult,
    ReadResult, Request, ResourceInfo, ServerCapabilities, Service, SessionEnd, SubscriptionFilter,
    TASKS_EXTENSION, Task, TemplateInfo, Timer, ToolInfo, ToolResult, forward_for_client,
};

use crate::{
    CallBuilder, CallError, CallOptions, ClientHandler, ClientTransport, ControlRequest, PagedList,
    RequestList, ServerInfo, Subscription, TaskHandle,
    cache::server_state::ServerState,
    call::{builder::CallKind, request, request::CallSpec, result, total_timeout},
    proxy::{forward::ProxyService, known_targets::KnownTargets},
    task::{PendingCancels, TaskDialect, list},
};

/// Time that pending `tasks/cancel` requests get before the connection is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Typed calls to one server, of any revision, over any transport. Clones share all state. The
/// `Client` of the crate `wharf` is a handle with a transport that it opened.
///
/// ```
/// use wharf_client::{ClientHandle, args};
///
/// # async fn example(client: ClientHandle) -> Result<(), wharf_model::Error> {
/// for tool in client.tools().all().await? {
///     println!("{}", tool.name);
/// }
/// let sum: i64 = client.call_as("add", args! { a: 1, b: 2 }).await?;
/// # drop(sum);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ClientHandle(Arc<ClientState>);

struct ClientState {
    transport: Arc<dyn ClientTransport>,
    timer: Arc<dyn Timer>,
    options: CallOptions,
    handler: Arc<dyn ClientHandler>,
    /// The client's identity and capabilities, for services in the same process.
    peer: Arc<Peer>,
    log_level: Lock<Option<LogLevel>>,
    server_state: Arc<ServerState>,
    pending_cancels: PendingCancels,
    observers: Observers,
    /// The server, for observers.
    server: ObservedServer,
    connected: Instant,
}

impl ClientState {
    /// What observers receive with each call.
    fn observation<'a>(&'a self, about: &'a ServerInfo) -> ClientObservation<'a> {
        let protocol_version = Some(&*about.revision).filter(|date| !date.is_empty());
        let (observers, server) = (&self.observers, &self.server);
        let forwards_baggage = self.options.forward_baggage;
        ClientObservation {
            observers,
            server,
            protocol_version,
            has_target: None,
            forwards_baggage,
        }
    }
}

/// The connection ends with the last handle.
impl Drop for ClientState {
    fn drop(&mut self) {
        let Some(transport) = self.server.transport.filter(|_| !self.observers.is_empty()) else {
            return;
        };
        let about = self.transport.about();
        let elapsed = self.timer.now().saturating_duration_since(self.connected);
        let end = SessionEnd::new(transport, elapsed).role(CallRole::Client);
        let revision = Some(&*about.revision).filter(|date| !date.is_empty());
        let end = end.protocol_version(revision);
        self.observers.emit(|| ObservedEvent::SessionEnded(end));
    }
}

impl ClientHandle {
    /// Creates a handle over `transport`. Requests of the server are answered by `handler`.
    #[must_use]
    pub fn new(
        transport: Arc<dyn ClientTransport>,
        timer: Arc<dyn Timer>,
        options: CallOptions,
        handler: Arc<dyn ClientHandler>,
    ) -> ClientHandle {
        let (observers, server) = (Observers::default(), ObservedServer::default());
        ClientHandle::observed(transport, timer, options, handler, observers, server)
    }

    /// Creates a handle whose requests are reported to `observers`, with what they need to know about the server.
    #[must_use]
    pub fn observed(
        transport: Arc<dyn ClientTransport>,
        timer: Arc<dyn Timer>,
        options: CallOptions,
        handler: Arc<dyn ClientHandler>,
        observers: Observers,
        server: ObservedServer,
    ) -> ClientHandle {
        let server_state = ServerState::new(options.cache, handler.clone());
        let listener: Arc<dyn crate::NotificationListener> = server_state.clone();
        transport.add_listener(Arc::downgrade(&listener));
        let mut capabilities = handler.capabilities();
        if options.tasks {
            capabilities.extensions.insert(TASKS_EXTENSION.into(), json!({}));
        }
        let peer = Arc::new(Peer::new(None, capabilities));
        let log_level = Lock::new(options.log_level);
        let pending_cancels = PendingCancels::default();
        let connected = timer.now();
        ClientHandle(Arc::new(ClientState {
            transport,
            timer,
            options,
            handler,
            peer,
            log_level,
            server_state,
            pending_cancels,
            observers,
            server,
            connected,
        }))
    }

    /// Starts a request on `service`, and reports it to the observers.
    pub(crate) fn start_request(
        &self,
        service: &dyn Service,
        mut request: Request,
        deadlines: Deadlines,
    ) -> ActiveCall {
        let timer = self.timer().clone();
        if self.0.observers.is_empty() {
            request.continue_trace_upstream(self.0.options.forward_baggage);
            return ActiveCall::start(service, request, timer, deadlines);
        }
        let about = self.about();
        let client = self.0.observation(&about);
        ActiveCall::start_for_client(service, request, timer, deadlines, client)
    }

    /// Forwards a request of a proxy to the server within the call that it serves, and reports it to the observers.
    pub(crate) fn forward(
        &self,
        targets: &KnownTargets,
        mut request: Request,
        outbox: Outbox,
    ) -> BoxFuture<Outcome> {
        let transport = self.transport();
        let forwards_baggage = self.0.options.forward_baggage;
        if !forwards_baggage {
            request.remove_baggage();
        }
        if self.0.observers.is_empty() && transport.observers().is_empty() {
            request.continue_trace_upstream(forwards_baggage);
            return transport.call(request, outbox);
        }
        let about = self.about();
        let has_target = |request: &Request| targets.contains(request);
        let client =
            ClientObservation { has_target: Some(&has_target), ..self.0.observation(&about) };
        forward_for_client(&*transport, request, outbox, client)
    }

    /// The server's name, version, capabilities and protocol revision.
    #[must_use]
    pub fn about(&self) -> Arc<ServerInfo> {
        self.0.transport.about()
    }

    /// The server's capabilities.
    #[must_use]
    pub fn capabilities(&self) -> ServerCapabilities {
        self.about().discovery.capabilities.clone()
    }

    /// The server's tools.
    pub fn tools(&self) -> PagedList<ToolInfo> {
        PagedList::new(self)
    }

    /// The server's resources.
    pub fn resources(&self) -> PagedList<ResourceInfo> {
        PagedList::new(self)
    }

    /// The server's resource templates.
    pub fn templates(&self) -> PagedList<TemplateInfo> {
        PagedList::new(self)
    }

    /// The server's prompts.
    pub fn prompts(&self) -> PagedList<PromptInfo> {
        PagedList::new(self)
    }

    /// Calls a tool. A failure of the tool itself is a result as well: see
    /// [`ToolResult::is_error`].
    pub fn call(
        &self,
        tool: impl Into<String>,
        arguments: impl Serialize,
    ) -> CallBuilder<ToolResult> {
        let spec = CallSpec::named(Method::CallTool, tool).arguments(&arguments);
        CallBuilder::new(self, spec.map(CallKind::Call), result::tool)
    }

    /// Calls a tool and deserializes its result: the structured content, or else the only text
    /// content, as JSON if that fits and as a string otherwise. A value that the server wrapped as
    /// `{"result": …}`, because it is not an object, is unwrapped. A failure of the tool is an
    /// error.
    pub fn call_as<T: DeserializeOwned>(
        &self,
        tool: impl Into<String>,
        arguments: impl Serialize,
    ) -> CallBuilder<T> {
        let spec = CallSpec::named(Method::CallTool, tool).arguments(&arguments);
        CallBuilder::new(self, spec.map(CallKind::Call), result::tool_as)
    }

    /// Calls a tool as a task, if the server supports that, and returns its handle immediately. If
    /// the server returns the result instead of creating a task, the handle holds the result.
    pub fn call_task(
        &self,
        tool: impl Into<String>,
        arguments: impl Serialize,
    ) -> CallBuilder<TaskHandle> {
        let spec = CallSpec::named(Method::CallTool, tool).arguments(&arguments);
        CallBuilder::new(self, spec.map(|spec| CallKind::Start(spec, None)), result::task)
    }

    /// The task with this id, which [`call_task`](ClientHandle::call_task) returned in this or
    /// another process. Sends nothing.
    #[must_use]
    pub fn task(&self, id: impl Into<String>) -> TaskHandle {
        TaskHandle::new(self, id.into())
    }

    /// All tasks of this client (`tasks/list`), on servers that support listing them.
    ///
    /// # Errors
    /// If the server does not list tasks. No server of the newest revision does.
    pub async fn tasks(&self) -> Result<Vec<Task>, CallError> {
        list::all(self).await.map_err(CallError::of_outcome)
    }

    /// Reads a resource.
    pub fn read(&self, uri: impl Into<String>) -> CallBuilder<ReadResult> {
        let spec = CallSpec::named(Method::ReadResource, uri);
        CallBuilder::new(self, Ok(CallKind::Call(spec)), result::resource)
    }

    /// Gets a prompt's messages. Its arguments are strings.
    pub fn prompt(
        &self,
        name: impl Into<String>,
        arguments: impl Serialize,
    ) -> CallBuilder<PromptResult> {
        let spec = CallSpec::named(Method::GetPrompt, name).arguments(&arguments);
        CallBuilder::new(self, spec.map(CallKind::Call), result::prompt)
    }

    /// Requests completions of `value`, an argument of a prompt or a resource template.
    pub fn complete(
        &self,
        of: CompletionRef,
        argument: &str,
        value: &str,
    ) -> CallBuilder<Completion> {
        let argument = json!({"name": argument, "value": value});
        let spec =
            CallSpec::new(Method::Complete).param("ref", &json!(of)).param("argument", &argument);
        CallBuilder::new(self, Ok(CallKind::Call(spec)), result::completion)
    }

    /// Subscribes to change notifications, and returns when the server has acknowledged the
    /// subscription.
    ///
    /// # Errors
    /// If the server rejects the subscription, or does not acknowledge it in time.
    pub async fn listen(&self, filter: SubscriptionFilter) -> Result<Subscription, CallError> {
        Subscription::begin(self, filter).await.map_err(CallError::of_outcome)
    }

    /// Subscribes to updates of one resource.
    ///
    /// # Errors
    /// If the server does not support resource subscriptions, rejects this one, or does not
    /// acknowledge it in time.
    pub async fn subscribe(&self, uri: impl Into<String>) -> Result<Subscription, CallError> {
        if !self.capabilities().resources.is_some_and(|it| it.subscribe) {
            return Err(CallError::of_outcome(not_offered("resource subscriptions")));
        }
        self.listen(SubscriptionFilter::default().uris([uri])).await
    }

    /// Requests log messages of this severity and above, with every call from now on. On servers of
    /// the legacy era this includes messages outside of calls.
    ///
    /// # Errors
    /// If the server sends no log messages, or cannot be reached.
    pub async fn set_log_level(&self, level: LogLevel) -> Result<(), CallError> {
        if !self.about().discovery.capabilities.logging {
            return Err(CallError::of_outcome(not_offered("log messages")));
        }
        *self.0.log_level.lock() = Some(level);
        self.run(ControlRequest::LogLevel(level)).await
    }

    /// Checks that the server responds.
    ///
    /// # Errors
    /// If it does not respond in time.
    pub async fn ping(&self) -> Result<(), CallError> {
        self.run(ControlRequest::Ping).await
    }

    /// Notifies the server that the list of roots has changed.
    ///
    /// # Errors
    /// If the handler lists no roots, or the server cannot be reached.
    pub async fn roots_changed(&self) -> Result<(), CallError> {
        if self.0.peer.capabilities.roots.is_none() {
            let problem = "This client has not declared the roots capability: set a handler with `ClientHandlerBuilder::roots` first";
            return Err(CallError::of_outcome(unsupported(problem)));
        }
        self.0.peer.roots_changed();
        self.run(ControlRequest::RootsChanged).await
    }

    /// Sends any request by its method name and returns the result unchanged. `null` params send
    /// none.
    pub fn request(
        &self,
        method: impl Into<String>,
        params: impl Serialize,
    ) -> CallBuilder<Box<RawValue>> {
        let method = method.into();
        let what = self.check_method(&method).and_then(|()| {
            let params = request::object("Params", &params)?;
            Ok(CallKind::Raw { method, params })
        });
        CallBuilder::new(self, what, result::raw)
    }

    /// Sends a request of any method and deserializes its result. `null` params send none.
    ///
    /// A method that the protocol does not define is a call like that of a tool: the
    /// [`ClientHandler`] answers the requests of its handler. It is not sent again after a lost connection. One
    /// that a `ClientExtension` declares is sent only to servers that declare the extension.
    pub fn request_as<T: DeserializeOwned>(
        &self,
        method: impl Into<String>,
        params: impl Serialize,
    ) -> CallBuilder<T> {
        let method = method.into();
        let what = self.check_method(&method).and_then(|()| {
            let params = request::object("Params", &params)?;
            if Method::is_defined(&method) {
                return Ok(CallKind::Raw { method, params });
            }
            let spec = CallSpec::named(Method::Custom, method);
            spec.all_params(params.as_deref().unwrap_or("{}")).map(CallKind::Call)
        });
        CallBuilder::new(self, what, result::value)
    }

    /// Reads the items of a paginated list from a method of an extension: those of the array `member` of each page.
    /// `params` are sent for each page, with its `cursor`; `null` params send none.
    pub fn request_list<T: DeserializeOwned>(
        &self,
        method: impl Into<String>,
        params: impl Serialize,
        member: impl Into<String>,
    ) -> RequestList<T> {
        RequestList::new(self, method.into(), params, member.into())
    }

    /// Fails if an extension that the server does not declare has this method.
    fn check_method(&self, method: &str) -> Result<(), Error> {
        match self.0.handler.method_extension(method) {
            Some(extension) => self.check_extension(&extension),
            None => Ok(()),
        }
    }

    /// Fails if the server does not declare this extension.
    fn check_extension(&self, extension: &str) -> Result<(), Error> {
        match self.capabilities().extensions.contains_key(extension) {
            true => Ok(()),
            false => Err(not_offered(&format!("the extension `{extension}`"))),
        }
    }

    /// The transport of this client.
    #[must_use]
    pub fn transport(&self) -> Arc<dyn ClientTransport> {
        self.0.transport.clone()
    }

    /// The server as a [`Service`], to build a proxy on this client.
    ///
    /// Requests are forwarded unchanged. If the server ends a call with `input_required` and the
    /// downstream client can answer requests during its call, the proxy forwards the requests to
    /// that client and sends the call to the server again. If the transport sends `Mcp-Param-*`
    /// headers, the proxy sets them.
    #[must_use]
    pub fn relay(&self) -> Arc<dyn Service> {
        Arc::new(ProxyService::new(self.clone()))
    }

    /// Closes the connection gracefully.
    pub async fn close(&self) {
        let all_sent = async {
            self.0.pending_cancels.all_sent().await;
            Ok(())
        };
        let _ =
            total_timeout::within(self.timer(), CLOSE_TIMEOUT, total_timeout::IDLE, all_sent).await;
        self.0.transport.close().await;
    }

    /// Sends a notification that an extension of this client's handler declares. In process, it returns when the
    /// server's handler has ended.
    ///
    /// # Errors
    /// If no extension of the client declares it, if the server does not declare the extension (nothing is sent in
    /// both cases), or if the server cannot be reached.
    pub async fn notify(
        &self,
        method: impl Into<String>,
        params: impl Serialize,
    ) -> Result<(), CallError> {
        self.send_notification(method.into(), params).await.map_err(CallError::of_outcome)
    }

    /// Sends a custom notification. The error is as it travels, for the proxy.
    pub(crate) async fn send_notification(
        &self,
        method: String,
        params: impl Serialize,
    ) -> Result<(), Error> {
        let Some(extension) = self.0.handler.sending_extension(&method) else {
            let problem =
                format!("No extension of this client declares the notification `{method}`");
            return Err(unsupported(problem));
        };
        self.check_extension(&extension)?;
        let params = request::object("Params", &params)?.unwrap_or_else(|| "{}".into());
        let params = RawValue::from_string(params)?;
        let notification = CustomNotification::new(extension, method, &params)?;
        self.send_control(ControlRequest::Notify(notification)).await
    }

    async fn run(&self, control: ControlRequest) -> Result<(), CallError> {
        self.send_control(control).await.map_err(CallError::of_outcome)
    }

    async fn send_control(&self, control: ControlRequest) -> Result<(), Error> {
        let run = self.0.transport.run(control);
        total_timeout::within(self.timer(), self.options().idle, total_timeout::IDLE, run).await
    }

    pub(crate) fn timer(&self) -> &Arc<dyn Timer> {
        &self.0.timer
    }

    pub(crate) fn options(&self) -> &CallOptions {
        &self.0.options
    }

    pub(crate) fn handler(&self) -> &Arc<dyn ClientHandler> {
        &self.0.handler
    }

    pub(crate) fn peer(&self) -> &Arc<Peer> {
        &self.0.peer
    }

    pub(crate) fn server_state(&self) -> &Arc<ServerState> {
        &self.0.server_state
    }

    pub(crate) fn pending_cancels(&self) -> &PendingCancels {
        &self.0.pending_cancels
    }

    /// The server's dialect of tasks; none if tasks are disabled in the options.
    pub(crate) fn task_dialect(&self) -> TaskDialect {
        match self.0.options.tasks {
            true => TaskDialect::of(&self.about().discovery.capabilities),
            false => TaskDialect::None,
        }
    }

    pub(crate) fn log_level(&self) -> Option<LogLevel> {
        *self.0.log_level.lock()
    }
}

impl fmt::Debug for ClientHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientHandle").field("about", &self.about()).finish_non_exhaustive()
    }
}

pub(crate) fn not_offered(what: &str) -> Error {
    let message = format!("The server does not support {what}: the request was not sent");
    unsupported(message)
}

/// Error for a call that is not sent, because the server or this client does not support it.
pub(crate) fn unsupported(problem: impl Into<Cow<'static, str>>) -> Error {
    let error = Error::new(ErrorKind::CapabilityNotSupported).with_message(problem);
    error.from_client(FailureOrigin::Usage)
}
