//! Operation under test.

use std::{future::poll_fn, sync::Arc};

use wharf::{
    Client, Content, Error, ErrorKind, ToolResult,
    client::CallError,
    model::{
        ActiveCall, Deadlines, Event, InputMode, Method, Outcome, Reply, RequestBuilder, Service,
    },
    server::TokioTimer,
};

use crate::commands::bench::{counters::CallFailure, load_loop::TimedCall};

/// Operation under test.
#[derive(Debug)]
pub(super) enum Workload {
    /// Cheapest method that every server supports.
    Ping,
    /// Tool call with the JSON text of its arguments.
    Tool { name: String, arguments: String },
}

/// Connection with the operation to call over it.
#[derive(Clone)]
pub(super) struct BenchConnection {
    client: Client,
    /// Service without retries: the client itself may resend a failed call.
    service: Arc<dyn Service>,
    work: Arc<Workload>,
    deadlines: Deadlines,
}

impl BenchConnection {
    pub(super) fn new(client: &Client, work: Arc<Workload>, deadlines: Deadlines) -> Self {
        BenchConnection { client: client.clone(), service: client.relay(), work, deadlines }
    }

    async fn call_tool(&self, name: &str, arguments: &str) -> Result<(), CallFailure> {
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
                Event::Done(outcome) => return call_result(outcome),
                _ => {}
            }
        }
    }
}

impl TimedCall for BenchConnection {
    async fn call(&self) -> Result<(), CallFailure> {
        match &*self.work {
            Workload::Ping => Ok(self.client.ping().await?),
            Workload::Tool { name, arguments } => self.call_tool(name, arguments).await,
        }
    }
}

fn call_result(outcome: Outcome) -> Result<(), CallFailure> {
    match outcome {
        Outcome::Complete(Reply::Tool(result)) if result.is_error => {
            Err(CallFailure::of_tool(error_text(&result)))
        }
        Outcome::Complete(_) => Ok(()),
        Outcome::Failed(error) => Err(CallError::of_outcome(*error).into()),
        _ => Err(CallError::Refused(Error::new(ErrorKind::MissingClientCapability)).into()),
    }
}

/// Error text of a tool result.
fn error_text(result: &ToolResult) -> &str {
    let mut texts = result.content.iter().filter_map(Content::as_text);
    texts.next().unwrap_or(ErrorKind::ToolExecutionFailed.message())
}
