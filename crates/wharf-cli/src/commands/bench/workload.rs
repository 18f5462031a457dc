//! Operation under test.

use std::{future::poll_fn, sync::Arc};

use wharf::{
    Client, Content, Error, ErrorKind, ToolResult,
    model::{
        ActiveCall, Deadlines, Event, InputMode, Method, Outcome, Reply, RequestBuilder, Service,
    },
    server::TokioTimer,
};

use crate::commands::bench::{counters::RunError, load_loop::Call};

/// Operation under test.
#[derive(Debug)]
pub(super) enum Work {
    /// Cheapest method that every server supports.
    Ping,
    /// Tool call with the JSON text of its arguments.
    Tool { name: String, arguments: String },
}

/// Connection with the operation to call over it.
#[derive(Clone)]
pub(super) struct Line {
    client: Client,
    /// Service without retries: the client itself may resend a failed call.
    service: Arc<dyn Service>,
    work: Arc<Work>,
    deadlines: Deadlines,
}

impl Line {
    pub(super) fn new(client: &Client, work: Arc<Work>, deadlines: Deadlines) -> Self {
        Line { client: client.clone(), service: client.relay(), work, deadlines }
    }

    async fn call_tool(&self, name: &str, arguments: &str) -> Result<(), RunError> {
        let mut request =
            RequestBuilder::new(Method::CallTool).target(name).arguments(arguments).build();
        request.asks = InputMode::Deliver;
        request.progress = true;
        let timer = Arc::new(TokioTimer);
        let call = ActiveCall::start(&*self.service, request, timer, self.deadlines);
        let mut call = call.for_caller();
        loop {
            match poll_fn(|cx| call.poll_event(cx)).await {
                Event::ClientRequest(id, ask) => call.refuse(id, &ask),
                Event::Done(outcome) => return judged(outcome),
                _ => {}
            }
        }
    }
}

impl Call for Line {
    async fn call(&self) -> Result<(), RunError> {
        match &*self.work {
            Work::Ping => Ok(self.client.ping().await?),
            Work::Tool { name, arguments } => self.call_tool(name, arguments).await,
        }
    }
}

fn judged(outcome: Outcome) -> Result<(), RunError> {
    match outcome {
        Outcome::Complete(Reply::Tool(result)) if result.is_error => {
            Err(RunError::of_tool(words(&result)))
        }
        Outcome::Complete(_) => Ok(()),
        Outcome::Failed(error) => Err((*error).into()),
        _ => Err(Error::new(ErrorKind::MissingClientCapability).into()),
    }
}

/// Error text of a tool result.
fn words(result: &ToolResult) -> &str {
    let mut texts = result.content.iter().filter_map(Content::as_text);
    texts.next().unwrap_or(ErrorKind::ToolExecutionFailed.message())
}
