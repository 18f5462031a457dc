//! Drives a router as a transport does.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Instant,
};

use wharf_model::{
    ActiveCall, BoxFuture, Completion, Deadlines, Error, ErrorKind, Event, Method, Notification,
    Outcome, Principal, PromptResult, ReadResult, Reply, Request, RequestBuilder, Service, Timer,
    ToolResult,
};
use wharf_server::{BuildError, Router};
use wharf_testbed::TokioTimer;

/// A clock whose timers never fire, for tests without a runtime.
pub(crate) struct NeverTimer;

impl Timer for NeverTimer {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep_until(&self, _deadline: Instant) -> BoxFuture<()> {
        Box::pin(std::future::pending())
    }
}

pub(crate) fn start(router: &Router, request: Request) -> ActiveCall {
    ActiveCall::start(router, request, Arc::new(TokioTimer), router.limits().deadlines())
}

/// Starts a call without a runtime.
pub(crate) fn start_without_runtime(service: &dyn Service, request: Request) -> ActiveCall {
    ActiveCall::start(service, request, Arc::new(NeverTimer), Deadlines::NONE)
}

pub(crate) fn poll(active_call: &mut ActiveCall) -> Poll<Event> {
    active_call.poll_event(&mut Context::from_waker(Waker::noop()))
}

/// The outcome of a call that ends in one poll.
pub(crate) fn now(router: &Router, request: Request) -> Outcome {
    match poll(&mut start_without_runtime(router, request)) {
        Poll::Ready(Event::Done(outcome)) => outcome,
        other => panic!("not done in one poll: {other:?}"),
    }
}

pub(crate) async fn next(active_call: &mut ActiveCall) -> Event {
    poll_fn(|cx| active_call.poll_event(cx)).await
}

pub(crate) async fn done(mut active_call: ActiveCall) -> Outcome {
    loop {
        if let Event::Done(outcome) = next(&mut active_call).await {
            return outcome;
        }
    }
}

pub(crate) async fn next_notification(active_call: &mut ActiveCall) -> Notification {
    match next(active_call).await {
        Event::Notify(notification) => notification,
        other => panic!("not a notification: {other:?}"),
    }
}

pub(crate) fn call(tool: &str, arguments: &str) -> Request {
    RequestBuilder::new(Method::CallTool).target(tool).arguments(arguments).build()
}

pub(crate) fn read(uri: &str) -> Request {
    RequestBuilder::new(Method::ReadResource).target(uri).build()
}

pub(crate) fn get(prompt: &str, arguments: &str) -> Request {
    RequestBuilder::new(Method::GetPrompt).target(prompt).arguments(arguments).build()
}

pub(crate) fn list(method: Method) -> Request {
    RequestBuilder::new(method).build()
}

pub(crate) fn complete(reference: &str, argument: &str, value: &str) -> Request {
    RequestBuilder::new(Method::Complete)
        .param("ref", reference)
        .param("argument", &serde_json::json!({"name": argument, "value": value}).to_string())
        .build()
}

pub(crate) fn by(mut request: Request, principal: &str) -> Request {
    request.scope.insert(Principal::new(principal));
    request
}

pub(crate) fn tool(outcome: Outcome) -> ToolResult {
    match outcome {
        Outcome::Complete(Reply::Tool(result)) => result,
        other => panic!("not a tool's result: {other:?}"),
    }
}

pub(crate) fn text(outcome: Outcome) -> String {
    let result = tool(outcome);
    assert!(!result.is_error, "{result:?}");
    result.content[0].as_text().unwrap().to_owned()
}

pub(crate) fn contents(outcome: Outcome) -> ReadResult {
    match outcome {
        Outcome::Complete(Reply::Read(result)) => result,
        other => panic!("not contents: {other:?}"),
    }
}

pub(crate) fn messages(outcome: Outcome) -> PromptResult {
    match outcome {
        Outcome::Complete(Reply::Prompt(result)) => result,
        other => panic!("not a prompt: {other:?}"),
    }
}

pub(crate) fn completion(outcome: Outcome) -> Completion {
    match outcome {
        Outcome::Complete(Reply::Completion(completion)) => completion,
        other => panic!("not a completion: {other:?}"),
    }
}

pub(crate) fn error(outcome: Outcome) -> Error {
    match outcome {
        Outcome::Failed(error) => *error,
        other => panic!("not an error: {other:?}"),
    }
}

pub(crate) fn kind(outcome: Outcome) -> ErrorKind {
    error(outcome).kind
}

/// Build errors of an invalid server.
pub(crate) fn problems(built: Result<Router, BuildError>) -> Vec<String> {
    built.unwrap_err().problems().iter().map(ToString::to_string).collect()
}

pub(crate) fn one_problem(built: Result<Router, BuildError>) -> String {
    let mut all = problems(built);
    assert_eq!(all.len(), 1, "{all:#?}");
    all.remove(0)
}
