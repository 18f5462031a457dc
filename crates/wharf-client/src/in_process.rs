//! Transport to a server in the same process, without serialization.

use std::{
    collections::BTreeMap,
    future::{pending, ready},
    sync::{Arc, Weak},
    time::Instant,
};

use serde_json::{Value, json, value::RawValue};
use wharf_model::{
    ActiveCall, BoxFuture, Deadlines, Direction, Error, FailureOrigin, Implementation,
    InputRequired, Method, ObservedTransport, Observers, Outbox, Outcome, Reply, Request,
    RequestBuilder, RequestExtensions, Service, Task, TaskRequest, Timer, ToolResult, Trusted,
};

use crate::{
    ClientTransport, ControlRequest, NotificationListener, ServerInfo,
    call::result::unexpected,
    task::{asks_json, task_json},
};

/// Creates a transport to a server in the same process: no bytes, no revision. The server treats
/// the client as part of its own process: see [`Trusted`].
///
/// # Errors
/// If the service does not answer `server/discover`.
///
/// ```
/// # mod wharf { pub use {wharf_client::*, wharf_model::*, wharf_server::{Router, Tool}}; pub mod model { pub use super::*; } pub mod server { pub use super::*; } }
/// use std::sync::Arc;
/// use wharf::{Tool, local, model::Implementation, server::Router};
///
/// # async fn example() -> Result<(), wharf::Error> {
/// let router = Router::builder().add(Tool::new("hello", async || "hello")).build().unwrap();
/// let transport = local(Arc::new(router), Implementation::new("harbour", "1.0.0")).await?;
/// assert!(transport.about().discovery.capabilities.tools.is_some());
/// # Ok(())
/// # }
/// ```
pub async fn local(
    service: Arc<dyn Service>,
    info: Implementation,
) -> Result<Arc<dyn ClientTransport>, Error> {
    let mut scope = RequestExtensions::new();
    scope.insert(Trusted);
    local_with(service, info, scope).await
}

/// Creates the same transport for a client whose requests carry `scope`, for example a
/// [`Principal`](wharf_model::Principal).
///
/// # Errors
/// If the service does not answer `server/discover`.
pub async fn local_with(
    service: Arc<dyn Service>,
    info: Implementation,
    scope: RequestExtensions,
) -> Result<Arc<dyn ClientTransport>, Error> {
    let mut scope = scope;
    scope.insert(ObservedTransport::InMemory);
    let scope = scope.shared();
    let mut request = RequestBuilder::new(Method::Discover).build();
    request.scope = scope.clone();
    match start(&*service, request).run_alone().await {
        Outcome::Complete(Reply::Discover(discovery)) => Ok(Arc::new(InProcessTransport {
            about: Arc::new(ServerInfo::new(info, *discovery)),
            service,
            scope,
        })),
        Outcome::Failed(error) => Err(*error),
        _ => Err(unexpected()),
    }
}

struct InProcessTransport {
    service: Arc<dyn Service>,
    about: Arc<ServerInfo>,
    /// Extensions of the requests that this client makes.
    scope: RequestExtensions,
}

impl Service for InProcessTransport {
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let method = request.method;
        let call = self.service.call(request, outbox);
        match method {
            Method::CallTool => Box::pin(async move { as_result(call.await) }),
            _ => Box::pin(async move { without_origin(call.await) }),
        }
    }

    fn observers(&self) -> &Observers {
        self.service.observers()
    }

    fn has_target(&self, request: &Request) -> bool {
        self.service.has_target(request)
    }
}

/// The failure of a client that the service uses, such as that of a proxy, is one of the service.
fn without_origin(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Failed(error) if error.origin().is_some() => error.without_origin().into(),
        other => other,
    }
}

/// Turns errors that a model can correct into tool results, as other transports do.
fn as_result(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Failed(error)
            if error.kind.is_tool_result() || error.kind.is_invalid_tool_arguments() =>
        {
            ToolResult::error(error.message.into_owned()).into()
        }
        other => without_origin(other),
    }
}

impl ClientTransport for InProcessTransport {
    fn about(&self) -> Arc<ServerInfo> {
        self.about.clone()
    }

    fn request(
        &self,
        method: String,
        params: Option<Box<RawValue>>,
        outbox: Outbox,
    ) -> BoxFuture<Result<Box<RawValue>, Error>> {
        let known = Method::from_name(&method).filter(|it| it.info().direction == Direction::Call);
        let request = match (known, &*method) {
            (Some(method), _) => request(RequestBuilder::new(method), method, params.as_deref()),
            (None, "ping") => return Box::pin(ready(text(json!({})))),
            (None, name) if Method::is_defined(name) => Err(Error::method_not_found(name)),
            (None, name) => {
                request(RequestBuilder::custom(name), Method::Custom, params.as_deref())
            }
        };
        let about = self.about.clone();
        let call = request.map(|mut request| {
            request.scope = self.scope.clone();
            self.service.call(request, outbox)
        });
        Box::pin(async move {
            match call?.await {
                Outcome::Complete(reply) => text(result(reply, &about)?),
                Outcome::InputRequired(required) => text(input_required(*required)),
                Outcome::Task(task) => text(task_created(&task)),
                Outcome::Failed(error) => Err(error.without_origin()),
                _ => Err(unexpected()),
            }
        })
    }

    fn scope(&self) -> RequestExtensions {
        self.scope.clone()
    }

    /// A service in the same process always responds, and learns of changed roots through its peer.
    fn run(&self, control: ControlRequest) -> BoxFuture<Result<(), Error>> {
        let ControlRequest::Notify(notification) = control else { return Box::pin(ready(Ok(()))) };
        let params = RawValue::from_string(notification.params.get().to_owned());
        let call = params.map_err(Error::from).and_then(|params| {
            let builder = RequestBuilder::custom(&notification.method);
            let mut request = request(builder, Method::Custom, Some(&params))?;
            request.notification = true;
            request.scope = self.scope.clone();
            Ok(start(&*self.service, request))
        });
        // Like over a connection, the sender does not learn how the handler ended.
        Box::pin(async move {
            call?.run_alone().await;
            Ok(())
        })
    }

    /// There are no notifications outside of calls and subscriptions.
    fn add_listener(&self, _: Weak<dyn NotificationListener>) {}

    fn has_listeners(&self) -> bool {
        false
    }

    fn close(&self) -> BoxFuture<()> {
        Box::pin(ready(()))
    }
}

/// Starts a call without deadlines: the caller waits as long as it likes.
fn start(service: &dyn Service, request: Request) -> ActiveCall {
    ActiveCall::start(service, request, Arc::new(NoTimer), Deadlines::NONE)
}

/// Builds a request for `method` with these parameters.
fn request(
    mut request: RequestBuilder,
    method: Method,
    params: Option<&RawValue>,
) -> Result<Request, Error> {
    let params = params.map_or("{}", RawValue::get);
    let members: BTreeMap<String, &RawValue> =
        serde_json::from_str(params).map_err(invalid_params)?;
    let text = |json| serde_json::from_str::<String>(json).map_err(invalid_params);
    for (name, value) in &members {
        let json = value.get();
        request = match &**name {
            name if Some(name) == method.info().mirrored => request.target(&text(json)?),
            "arguments" => request.arguments(json),
            "cursor" if method != Method::Custom => request.cursor(&text(json)?),
            "inputResponses" => request.input_responses(json),
            "requestState" => request.request_state(&text(json)?),
            "_meta" => request.meta(json),
            name => request.param(name, json),
        };
    }
    let mut request = request.build();
    // A caller of raw methods handles task results itself.
    request.tasking = TaskRequest::Welcome;
    Ok(request)
}

fn invalid_params(error: serde_json::Error) -> Error {
    Error::invalid_params(error).from_client(FailureOrigin::Usage)
}

fn text(value: Value) -> Result<Box<RawValue>, Error> {
    Ok(RawValue::from_string(value.to_string())?)
}

/// A result in the format of the canonical protocol.
fn result(reply: Reply, about: &ServerInfo) -> Result<Value, Error> {
    Ok(match reply {
        Reply::Discover(it) => json!({"serverInfo": about.info, "capabilities": it.capabilities,
            "instructions": it.instructions}),
        Reply::Task(it) => task_json(&it),
        Reply::TaskList { tasks, next } => {
            json!({"tasks": tasks.iter().map(task_json).collect::<Vec<_>>(), "nextCursor": next})
        }
        other => other.to_json()?.unwrap_or_default(),
    })
}

fn input_required(required: InputRequired) -> Value {
    let requests = asks_json(&required.requests);
    let mut result = json!({"resultType": "input_required", "inputRequests": requests});
    if let Some(state) = required.state {
        result["requestState"] = json!(state);
    }
    result
}

fn task_created(task: &Task) -> Value {
    let mut result = task_json(task);
    result["resultType"] = json!("task");
    result
}

/// Timer of calls without deadlines.
struct NoTimer;

impl Timer for NoTimer {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep_until(&self, _: Instant) -> BoxFuture<()> {
        Box::pin(pending())
    }
}
