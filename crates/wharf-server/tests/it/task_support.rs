//! Drives the tasks of a server as clients do, with a clock that tests control.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use wharf_model::{
    ActiveCall, AttachResult, Error, ErrorKind, Event, InputMode, LiveSubscriptionFilter, Method,
    Notification, Outcome, Peer, Principal, Record, RecordStore, RemoteAddress, Reply, Request,
    RequestBuilder, Sharing, Stored, Stores, Task, TaskRequest, TaskState, Timer, ToolResult,
};
use wharf_server::{MemoryBus, MemoryRecords, Router, RouterBuilder, TaskOptions, memory_stores};
use wharf_testbed::TokioTimer;

pub(crate) use crate::context_support::{Confirm, Counter, everything};
pub(crate) use crate::support::{error, next, tool as result};

pub(crate) fn sure() -> Value {
    json!({"action": "accept", "content": {"sure": true}})
}

pub(crate) fn timer() -> Arc<dyn Timer> {
    Arc::new(TokioTimer)
}

/// Stores that survive servers and can be made to fail.
#[derive(Clone)]
pub(crate) struct TestStores {
    pub(crate) records: Arc<FaultyRecords>,
    pub(crate) stores: Stores,
}

impl TestStores {
    pub(crate) fn new() -> Self {
        TestStores::with_sharing(Sharing::Machine)
    }

    pub(crate) fn with_sharing(sharing: Sharing) -> Self {
        let records = Arc::<FaultyRecords>::default();
        let stores = memory_stores().tasks(records.clone()).sharing(sharing);
        TestStores { records, stores }
    }

    pub(crate) fn server(&self) -> RouterBuilder {
        Router::builder().store(self.stores.clone())
    }

    /// The same stores with a bus of their own, which delivers no messages of other processes.
    pub(crate) fn with_separate_bus(&self) -> Self {
        let mut test_stores = self.clone();
        test_stores.stores.bus = Arc::new(MemoryBus::default());
        test_stores
    }
}

/// Record store in memory that fails while it is broken, and rejects changes while it is full.
#[derive(Default)]
pub(crate) struct FaultyRecords {
    pub(crate) inner: MemoryRecords,
    pub(crate) broken: AtomicBool,
    pub(crate) full: AtomicBool,
    /// True if steps cannot be read.
    pub(crate) steps_unreadable: AtomicBool,
    /// Queries for due tasks, and loads of single records.
    pub(crate) due_queries: Counter,
    pub(crate) loads: Counter,
}

impl FaultyRecords {
    pub(crate) fn set_broken(&self, broken: bool) {
        self.broken.store(broken, Ordering::SeqCst);
    }

    pub(crate) fn set_steps_unreadable(&self, steps_unreadable: bool) {
        self.steps_unreadable.store(steps_unreadable, Ordering::SeqCst);
    }

    pub(crate) fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::SeqCst);
    }

    fn unless_broken<T: Send + 'static>(&self, stored: Stored<T>) -> Stored<T> {
        if self.broken.load(Ordering::SeqCst) {
            let error = Error::new(ErrorKind::InternalError).with_message("redis://secret is gone");
            return Box::pin(std::future::ready(Err(error)));
        }
        stored
    }
}

impl RecordStore for FaultyRecords {
    fn now(&self) -> Stored<u64> {
        self.unless_broken(self.inner.now())
    }
    fn insert(&self, record: Record, most: usize) -> Stored<bool> {
        if self.broken.load(Ordering::SeqCst) {
            return self.unless_broken(Box::pin(std::future::ready(Ok(false))));
        }
        self.inner.insert(record, most)
    }
    fn load(&self, id: &str) -> Stored<Option<Record>> {
        self.loads.hit();
        self.unless_broken(self.inner.load(id))
    }
    fn swap(&self, record: Record) -> Stored<bool> {
        if self.full.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(Error::new(ErrorKind::InternalError))));
        }
        if self.broken.load(Ordering::SeqCst) {
            return self.unless_broken(Box::pin(std::future::ready(Ok(false))));
        }
        self.inner.swap(record)
    }
    fn remove(&self, id: &str) -> Stored<bool> {
        self.inner.remove(id)
    }
    fn list(&self, owner: &str, after: Option<&str>, limit: usize) -> Stored<Vec<Record>> {
        self.unless_broken(self.inner.list(owner, after, limit))
    }
    fn due(&self, limit: usize) -> Stored<Vec<String>> {
        self.due_queries.hit();
        self.unless_broken(self.inner.due(limit))
    }
    fn attach(&self, id: &str, fence: u64, name: &str, value: Vec<u8>) -> Stored<AttachResult> {
        if self.broken.load(Ordering::SeqCst) {
            return self.unless_broken(Box::pin(std::future::ready(Ok(AttachResult::Lost))));
        }
        self.inner.attach(id, fence, name, value)
    }
    fn attachments(&self, id: &str) -> Stored<std::collections::BTreeMap<String, Vec<u8>>> {
        if self.steps_unreadable.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(Error::new(ErrorKind::InternalError))));
        }
        self.unless_broken(self.inner.attachments(id))
    }
    fn sweep(&self, limit: usize) -> Stored<usize> {
        self.unless_broken(self.inner.sweep(limit))
    }
}

pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Runs everything that needs no time.
pub(crate) async fn settle() {
    pass(Duration::from_millis(1)).await;
}

pub(crate) fn quick() -> TaskOptions {
    TaskOptions::default().backoff(seconds(2))
}

/// A client with its task request mode, input mode and identity.
#[derive(Clone)]
pub(crate) struct TestClient {
    pub(crate) router: Router,
    pub(crate) tasking: TaskRequest,
    pub(crate) asks: InputMode,
    pub(crate) principal: Option<Principal>,
    pub(crate) address: Option<RemoteAddress>,
}

pub(crate) fn client(router: &Router) -> TestClient {
    let router = router.clone();
    let (principal, address) = (None, None);
    TestClient {
        router,
        tasking: TaskRequest::Welcome,
        asks: InputMode::Suspend,
        principal,
        address,
    }
}

impl TestClient {
    pub(crate) fn with_tasking(&self, tasking: TaskRequest) -> Self {
        TestClient { tasking, ..self.clone() }
    }

    pub(crate) fn with_input_mode(&self, asks: InputMode) -> Self {
        TestClient { asks, ..self.clone() }
    }

    pub(crate) fn with_principal(&self, name: &str) -> Self {
        TestClient { principal: Some(Principal::new(name).with_scope("s")), ..self.clone() }
    }

    /// The same client, unauthenticated, at an address that ends with this number.
    pub(crate) fn at_address(&self, last: u8) -> Self {
        let address = RemoteAddress(([192, 0, 2, last], 5000).into());
        TestClient { principal: None, address: Some(address), ..self.clone() }
    }

    pub(crate) fn request(&self, builder: RequestBuilder) -> Request {
        let mut request = builder.build().from_peer(Arc::new(Peer::new(None, everything())));
        request.tasking = self.tasking;
        request.asks = self.asks;
        if let Some(principal) = &self.principal {
            request.scope.insert(principal.clone());
        }
        if let Some(address) = self.address {
            request.scope.insert(address);
        }
        request
    }

    pub(crate) fn start(&self, request: Request) -> ActiveCall {
        ActiveCall::start(&self.router, request, timer(), self.router.limits().deadlines())
    }

    pub(crate) async fn send(&self, builder: RequestBuilder) -> Outcome {
        done(&mut self.start(self.request(builder))).await
    }

    pub(crate) async fn call(&self, tool: &str) -> Outcome {
        self.send(call(tool)).await
    }

    pub(crate) async fn task(&self, tool: &str) -> Task {
        task(self.call(tool).await)
    }

    pub(crate) async fn send_for_task(&self, method: Method, id: &str) -> Outcome {
        self.send(RequestBuilder::new(method).target(id)).await
    }

    pub(crate) async fn get(&self, id: &str) -> Task {
        task_reply(self.send_for_task(Method::GetTask, id).await)
    }

    pub(crate) async fn update(&self, id: &str, answers: Value) -> Outcome {
        let update = RequestBuilder::new(Method::UpdateTask).target(id);
        self.send(update.input_responses(&answers.to_string())).await
    }

    pub(crate) async fn cancel(&self, id: &str) -> (Task, bool) {
        match self.send_for_task(Method::CancelTask, id).await {
            Outcome::Complete(Reply::TaskCancelled { task, too_late }) => (*task, too_late),
            other => panic!("not cancelled: {other:?}"),
        }
    }

    /// Subscribes to tasks; returns the subscription after its acknowledgement, and the
    /// acknowledged ids.
    pub(crate) async fn listen(&self, ids: &[&str]) -> (ActiveCall, Vec<String>) {
        let mut request = self.request(RequestBuilder::new(Method::Listen));
        let filter = wharf_model::SubscriptionFilter::default().tasks(ids.iter().copied());
        request.filter = Some(LiveSubscriptionFilter::new(filter));
        let mut active_call = self.start(request);
        match next(&mut active_call).await {
            Event::Notify(Notification::Acknowledged(agreed)) => {
                (active_call, agreed.tasks.into_iter().collect())
            }
            other => panic!("not acknowledged: {other:?}"),
        }
    }
}

pub(crate) fn call(tool: &str) -> RequestBuilder {
    RequestBuilder::new(Method::CallTool).target(tool)
}

pub(crate) async fn done(active_call: &mut ActiveCall) -> Outcome {
    loop {
        if let Event::Done(outcome) = next(active_call).await {
            return outcome;
        }
    }
}

pub(crate) fn task(outcome: Outcome) -> Task {
    match outcome {
        Outcome::Task(task) => *task,
        other => panic!("not a task: {other:?}"),
    }
}

pub(crate) fn task_reply(outcome: Outcome) -> Task {
    match outcome {
        Outcome::Complete(Reply::Task(task)) => *task,
        other => panic!("not a task: {other:?}"),
    }
}

pub(crate) fn text(result: &ToolResult) -> &str {
    result.content[0].as_text().unwrap()
}

/// The text of a completed task.
pub(crate) fn completed_text(task: &Task) -> &str {
    match &task.state {
        TaskState::Completed(result) => text(result),
        other => panic!("not completed: {other:?}"),
    }
}

/// Keys of the client requests that a task waits for.
pub(crate) fn open_keys(task: &Task) -> Vec<&str> {
    match &task.state {
        TaskState::InputRequired(questions) => questions.iter().map(|(key, _)| &**key).collect(),
        other => panic!("no client request is open: {other:?}"),
    }
}
