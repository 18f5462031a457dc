//! A node of the cluster: a router on the shared stores.

use std::{io, sync::Arc, time::Duration};

use serde_json::json;
use wharf_model::{
    ActiveCall, ClientCapabilities, Deadlines, Event as CallEvent, InputMode, Method, Outcome,
    Peer, Principal, Request, RequestBuilder, TaskRequest, Timer,
};
use wharf_server::{Router, TaskOptions};

use super::{rpc::RpcNetwork, store::StoreHost, timer::SkewedTimer};
use crate::{
    recording_tools::{EffectJournal, ToolState, worker},
    task_history::{History, TaskEvent},
};

const PORT: u16 = 3;
/// Timeout of callers for a node.
const REPLY_TIMEOUT: Duration = Duration::from_millis(2500);

/// A call as a client would send it.
pub struct NodeCall {
    pub who: &'static str,
    pub method: Method,
    /// A tool or a task.
    pub target: String,
    /// Arguments of a tool, or responses to a task.
    pub json: String,
}

/// Connection from clients to nodes.
#[derive(Clone, Default)]
pub struct NodeClient(RpcNetwork<NodeCall, Outcome>);

impl NodeClient {
    /// Calls a node. Without an outcome, the effect of the call is unknown.
    pub async fn call(&self, node: &str, call: NodeCall) -> Option<Outcome> {
        self.wait(node, call, REPLY_TIMEOUT).await.ok()
    }

    /// Calls a node with a longer timeout.
    pub async fn wait(
        &self,
        node: &str,
        call: NodeCall,
        patience: Duration,
    ) -> io::Result<Outcome> {
        self.0.ask((node, PORT), call, patience).await
    }
}

/// Parts of a node.
#[derive(Clone)]
pub struct SimNode {
    pub name: String,
    pub node_client: NodeClient,
    pub disk: StoreHost,
    pub history: History,
    pub options: TaskOptions,
    /// Rate of its clock in seconds per second, and the offset of its time of day.
    pub clock: (f64, Duration),
}

impl SimNode {
    /// Main function of the node's host, from each start to the next crash.
    pub async fn run(self, start: usize) -> turmoil::Result {
        let timer: Arc<dyn Timer> = Arc::new(SkewedTimer::new(self.clock.0, self.clock.1));
        let (stores, bus) = self.disk.reach();
        let tool_state = ToolState::new(Arc::new(self.history), &format!("{}/{start}", self.name));
        let router = Router::builder()
            .store(stores)
            .tasks(self.options)
            .state_cipher(super::state_cipher())
            .state(tool_state)
            .add(worker())
            .build()?;
        tokio::spawn(bus.listen());
        router.start_tasks(&timer);
        self.node_client
            .0
            .serve(PORT, move |call| answer(router.clone(), call.request(), timer.clone()))
            .await
    }
}

impl EffectJournal for History {
    fn write(&self, task: &str, event: TaskEvent) {
        self.add(super::now(), task, event);
    }
}

impl NodeCall {
    fn request(self) -> Request {
        let request = RequestBuilder::new(self.method).target(&self.target);
        let request = match self.method {
            Method::CallTool => request.arguments(&self.json),
            Method::UpdateTask => request.input_responses(&self.json),
            Method::ListTasks => RequestBuilder::new(self.method),
            _ => request,
        };
        let can =
            json!({"elicitation": {"form": {}}, "extensions": {wharf_model::TASKS_EXTENSION: {}}});
        let can: ClientCapabilities = serde_json::from_value(can).unwrap_or_default();
        let mut request = request.build().from_peer(Arc::new(Peer::new(None, can)));
        request.asks = InputMode::Suspend;
        request.tasking = TaskRequest::Welcome;
        request.scope.insert(Principal::new(self.who));
        request
    }
}

/// Drives a call as a transport would.
async fn answer(router: Router, request: Request, timer: Arc<dyn Timer>) -> Outcome {
    let deadlines = Deadlines::NONE.total(Some(Duration::from_secs(60)));
    let mut exchange = ActiveCall::start(&router, request, timer, deadlines);
    loop {
        if let CallEvent::Done(outcome) = std::future::poll_fn(|cx| exchange.poll_event(cx)).await {
            return outcome;
        }
    }
}
