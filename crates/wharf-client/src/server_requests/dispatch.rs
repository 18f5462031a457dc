//! Dispatches requests of the server to the handler, and validates the answers.

use std::{
    any::Any,
    error::Error as _,
    future::{Future, poll_fn, ready},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use serde::Serialize;
use serde_json::Value;
use wharf_model::{
    BoxFuture, ClientCapabilities, ClientCapability, ClientRequest, ElicitAction, ElicitResult,
    Error, ErrorKind, FailureOrigin, RootsResult,
};
use wharf_schema::elicitation_form;

use crate::ClientHandler;

/// Maximum number of open requests of the server: people cannot answer more.
pub(crate) const MAX_OPEN_REQUESTS: usize = 64;

/// Error of an answer to a request of the server.
#[derive(Debug)]
pub(crate) enum AnswerError {
    /// The handler does not support the request, or failed: the error is sent to the server.
    Refused(Error),
    /// The answer does not match the request: a bug on this side, so the call fails.
    Invalid(Error),
}

impl From<AnswerError> for Error {
    fn from(why: AnswerError) -> Self {
        let (AnswerError::Refused(error) | AnswerError::Invalid(error)) = why;
        error.from_client(FailureOrigin::Usage)
    }
}

/// Passes a request of the server that belongs to no call to `handler`. Returns the result as JSON
/// text.
///
/// Requests that its capabilities do not declare are rejected. Forms are completed with their
/// defaults and validated against their schema. A panic becomes an error.
pub fn answer_to(
    handler: &Arc<dyn ClientHandler>,
    ask: ClientRequest,
) -> BoxFuture<Result<String, Error>> {
    let answering = put(handler, ask);
    Box::pin(async move { answering.await.map_err(Error::from) })
}

pub(crate) fn put(
    handler: &Arc<dyn ClientHandler>,
    ask: ClientRequest,
) -> BoxFuture<Result<String, AnswerError>> {
    let begin = || match refusal(&handler.capabilities(), &ask) {
        Some(error) => Box::pin(ready(Err(AnswerError::Refused(error)))),
        None => begin(&**handler, ask.clone()),
    };
    match catch_unwind(AssertUnwindSafe(begin)) {
        Ok(answering) => Box::pin(PanicGuard(Some(answering))),
        Err(panic) => Box::pin(ready(Err(panicked(&*panic)))),
    }
}

/// The error for a client without the capability that `ask` requires, if so.
pub(crate) fn refusal(can: &ClientCapabilities, ask: &ClientRequest) -> Option<Error> {
    let needed = ask.needs();
    if can.has(&needed) {
        return None;
    }
    let knows_method = match needed {
        ClientCapability::Elicitation | ClientCapability::ElicitationUrl => {
            can.elicitation.is_some()
        }
        ClientCapability::SamplingTools => can.sampling.is_some(),
        _ => false,
    };
    Some(match knows_method {
        true => Error::missing_capability(needed),
        false => Error::method_not_found(ask.method().name()),
    })
}

fn begin(
    handler: &dyn ClientHandler,
    ask: ClientRequest,
) -> BoxFuture<Result<String, AnswerError>> {
    match ask {
        ClientRequest::Elicit(form) => {
            let schema = form.schema.clone();
            let answering = handler.elicit(*form);
            Box::pin(async move { text(&filled(&schema, answered(answering).await?)?) })
        }
        ClientRequest::ElicitUrl(page) => {
            let answering = handler.elicit_url(*page);
            Box::pin(async move {
                let mut result = answered(answering).await?;
                // Input on the web page never passes through the client.
                result.content = None;
                text(&result)
            })
        }
        ClientRequest::Sample(request) => {
            let answering = handler.sample(*request);
            Box::pin(async move { text(&answered(answering).await?) })
        }
        ClientRequest::Roots => {
            let answering = handler.roots();
            Box::pin(async move { text(&RootsResult::new(answered(answering).await?)) })
        }
    }
}

async fn answered<T>(answering: BoxFuture<Result<T, Error>>) -> Result<T, AnswerError> {
    answering.await.map_err(|error| {
        // The server receives none of it. `Debug` escapes what could forge lines of the log.
        if let Some(source) = error.source() {
            tracing::error!(error = ?source.to_string(), "cannot answer a request of the server");
        }
        AnswerError::Refused(error)
    })
}

fn text(result: &impl Serialize) -> Result<String, AnswerError> {
    serde_json::to_string(result).map_err(|error| AnswerError::Invalid(error.into()))
}

/// Adds defaults to an accepted form, and validates it against its schema.
fn filled(schema: &Value, mut result: ElicitResult) -> Result<ElicitResult, AnswerError> {
    let content = result.content.take();
    if result.action == ElicitAction::Accept {
        result.content = Some(elicitation_form::check(schema, content).map_err(|problem| {
            let message =
                format!("The answer to the server's form does not match its schema: {problem}");
            AnswerError::Invalid(Error::new(ErrorKind::InvalidParams).with_message(message))
        })?);
    }
    Ok(result)
}

/// Turns panics of the handler's future into errors.
struct PanicGuard(Option<BoxFuture<Result<String, AnswerError>>>);

impl Future for PanicGuard {
    type Output = Result<String, AnswerError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(answering) = &mut self.0 else { return Poll::Pending };
        catch_unwind(AssertUnwindSafe(|| answering.as_mut().poll(cx)))
            .unwrap_or_else(|panic| Poll::Ready(Err(panicked(&*panic))))
    }
}

impl Drop for PanicGuard {
    fn drop(&mut self) {
        let answering = self.0.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(answering)));
    }
}

/// The panic message goes to the client's log, not to the server.
fn panicked(panic: &(dyn Any + Send)) -> AnswerError {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    tracing::error!(panic = text, "caught a panic in the handler of a server request");
    let message = "The client failed to handle the request";
    AnswerError::Refused(Error::new(ErrorKind::InternalError).with_message(message))
}

/// Waits for all answers concurrently, and returns them as one JSON object. Fails with the first
/// error.
pub(crate) async fn all<E>(
    entries: Vec<(String, BoxFuture<Result<String, E>>)>,
) -> Result<String, E> {
    let mut entries: Vec<_> = entries.into_iter().map(|(key, it)| (key, Some(it), None)).collect();
    poll_fn(|cx| {
        let mut waiting = false;
        for (_, answering, answer) in &mut entries {
            let Some(pending) = answering else { continue };
            match pending.as_mut().poll(cx) {
                Poll::Pending => waiting = true,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(json)) => (*answering, *answer) = (None, Some(json)),
            }
        }
        if waiting { Poll::Pending } else { Poll::Ready(Ok(())) }
    })
    .await?;
    let pairs = entries.into_iter().map(|(key, _, answer)| {
        format!("{}:{}", Value::from(key), answer.unwrap_or_else(|| "null".into()))
    });
    Ok(format!("{{{}}}", pairs.collect::<Vec<_>>().join(",")))
}
