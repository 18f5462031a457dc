//! Keeps the texts of handlers' errors from clients: the log has them, and the client an id to find them by.

use std::sync::Arc;

use wharf_model::{BoxFuture, Content, Error, ErrorKind, Outcome, Reply, ToolResult, printable};

use crate::{
    builder::Part,
    call_tracing::method_name,
    handler::{Endpoint, extract::Incoming, tool_error::with_sources},
    random,
};

/// Maximum number of lines of an error in the log.
const MAX_LINES: usize = 32;

/// Endpoint whose errors are masked. Servers that show errors do not have it, so that their calls pay nothing.
struct MaskedEndpoint(Arc<dyn Endpoint>);

impl Endpoint for MaskedEndpoint {
    fn call(&self, incoming: Incoming<'_>) -> BoxFuture<Outcome> {
        let method = method_name(&incoming.request);
        let name = printable(&incoming.request.target());
        let call = self.0.call(incoming);
        Box::pin(async move {
            let outcome = call.await;
            match text(&outcome) {
                Some(error) => masked(outcome, &error, &method, &name),
                None => outcome,
            }
        })
    }
}

impl Part {
    /// Keeps the texts of errors of its handlers from clients.
    pub(crate) fn mask_errors(&mut self) {
        match self {
            Part::Tool(tool) => mask(&mut tool.endpoint),
            Part::Method(method) => mask(&mut method.endpoint),
            Part::Resource(resource) => {
                mask(&mut resource.endpoint);
                resource.completions.endpoints().for_each(mask);
            }
            Part::Prompt(prompt) => {
                mask(&mut prompt.endpoint);
                prompt.completions.endpoints().for_each(mask);
            }
        }
    }
}

fn mask(endpoint: &mut Arc<dyn Endpoint>) {
    *endpoint = Arc::new(MaskedEndpoint(endpoint.clone()));
}

/// Returns the text of an error that the client must not receive.
fn text(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Complete(Reply::Tool(result)) if result.is_error => {
            let texts: Vec<&str> = result.content.iter().filter_map(Content::as_text).collect();
            Some(texts.join(" "))
        }
        Outcome::Failed(error) if !is_for_caller(error) => Some(with_sources(&**error)),
        _ => None,
    }
}

/// Returns whether an error has no text of a handler, or one that a handler wrote for the caller.
fn is_for_caller(error: &Error) -> bool {
    let has_own_data = error.data.is_some()
        && !matches!(error.kind, ErrorKind::RateLimited | ErrorKind::Overloaded);
    let is_default = error.message == error.kind.message() && !has_own_data;
    error.kind.is_caller_fault() || (is_default && std::error::Error::source(error).is_none())
}

/// Logs the error, and returns an outcome of the same kind with an id instead of its text.
fn masked(outcome: Outcome, error: &str, method: &str, name: &str) -> Outcome {
    let mut id = [0; 8];
    // Without random bytes the time of the log line has to do.
    let _ = random::fill(&mut id);
    let error_id = format!("{:016x}", u64::from_be_bytes(id));
    let lines: Vec<String> = error.lines().take(MAX_LINES).map(printable).collect();
    let error = lines.join("\n");
    tracing::error!(error_id, method, name, error, "masked an error of a handler");
    let text = format!("{} (id {error_id})", ErrorKind::InternalError.message());
    match outcome {
        Outcome::Failed(error) => {
            let mut masked = Error::new(error.kind).with_message(text);
            masked.code = error.code;
            masked.into()
        }
        _ => ToolResult::error(text).into(),
    }
}
