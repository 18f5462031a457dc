//! A fake server with one task, `t-1`, that plays back its states.

use std::{
    collections::VecDeque,
    future::pending,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use wharf_model::{
    BoxFuture, ClientRequest, ElicitForm, Error, Method, Notification, Outbox, Outcome, Reply,
    SubscriptionFilter, Task, TaskRequest, TaskState, Timestamp, ToolResult,
};

use super::{FakeTransport, tool};

type SendStatus = Box<dyn Fn(Task) + Send>;
type StatusNotifier = Box<dyn Fn(SendStatus) -> BoxFuture<()> + Send + Sync>;
type ResultHandler = Box<dyn Fn(Outbox) -> BoxFuture<Outcome> + Send + Sync>;

/// The script of the task.
#[derive(Default)]
pub(crate) struct TaskScript {
    first: Option<Task>,
    states: VecDeque<Outcome>,
    last_look: Option<Outcome>,
    updates: VecDeque<Outcome>,
    results: VecDeque<Outcome>,
    at_once: Option<ToolResult>,
    fetching: Option<Arc<ResultHandler>>,
    status_notifications: Option<Arc<StatusNotifier>>,
    tool: Option<Value>,
    refusal: Option<Outcome>,
    /// Sent while the tools are listed.
    changes: bool,
    silent: bool,
    progress: Option<f64>,
}

impl TaskScript {
    pub(crate) fn changes(&self) -> bool {
        self.changes
    }
}

pub(crate) struct FakeTaskServer {
    fake: FakeTransport,
    script: Arc<Mutex<TaskScript>>,
}

pub(crate) fn task(state: TaskState) -> Task {
    let mut task = Task::new("t-1", Timestamp::from_millis(1_000));
    task.state = state;
    task
}

pub(crate) fn with(state: TaskState) -> Task {
    task(state)
}

pub(crate) fn working(message: &str) -> Task {
    let mut task = task(TaskState::Working);
    task.message = Some(message.into());
    task
}

/// A task with this poll interval, in milliseconds.
pub(crate) fn every(interval: Option<u64>) -> Task {
    let mut task = task(TaskState::Working);
    task.poll_interval = interval;
    task
}

pub(crate) fn completed(text: &str) -> Task {
    task(TaskState::Completed(Box::new(ToolResult::text(text))))
}

pub(crate) fn asking(questions: &[(&str, &str)]) -> Task {
    let schema = json!({"type": "object", "properties": {"value": {"type": "string"}}});
    let ask = |text: &str| ClientRequest::Elicit(Box::new(ElicitForm::new(text, schema.clone())));
    let questions = questions.iter().map(|(key, text)| ((*key).to_owned(), ask(text))).collect();
    task(TaskState::InputRequired(questions))
}

pub(crate) fn shown(task: Task) -> Outcome {
    Reply::Task(Box::new(task)).into()
}

impl FakeTaskServer {
    /// A server with the tasks extension.
    pub(crate) fn extension(states: impl IntoIterator<Item = Task>) -> Self {
        let can =
            json!({"tools": {}, "prompts": {}, "extensions": {wharf_model::TASKS_EXTENSION: {}}});
        Self::new(can, states)
    }

    /// A server with legacy tasks.
    pub(crate) fn legacy(states: impl IntoIterator<Item = Task>) -> Self {
        let can = json!({"tools": {}, "tasks": {"list": {}, "cancel": {},
            "requests": {"tools": {"call": {}}}}});
        Self::new(can, states)
    }

    fn new(can: Value, states: impl IntoIterator<Item = Task>) -> Self {
        let script =
            TaskScript { states: states.into_iter().map(shown).collect(), ..TaskScript::default() };
        FakeTaskServer { fake: FakeTransport::with(can), script: Arc::new(Mutex::new(script)) }
    }

    fn set(self, change: impl FnOnce(&mut TaskScript)) -> Self {
        change(&mut self.script.lock().unwrap());
        self
    }

    pub(crate) fn states(self, states: impl IntoIterator<Item = Outcome>) -> Self {
        self.set(|script| script.states = states.into_iter().collect())
    }

    pub(crate) fn always_state(self, outcome: impl Into<Outcome>) -> Self {
        self.set(|script| script.last_look = Some(outcome.into()))
    }

    pub(crate) fn always_works(self) -> Self {
        self.always_state(shown(task(TaskState::Working)))
    }

    pub(crate) fn silent_states(self) -> Self {
        self.set(|script| script.silent = true)
    }

    /// Sends task progress to subscribers, with a token of the transport.
    pub(crate) fn progress(self, progress: f64) -> Self {
        self.set(|script| script.progress = Some(progress))
    }

    pub(crate) fn updates(self, updates: impl IntoIterator<Item = Outcome>) -> Self {
        self.set(|script| script.updates = updates.into_iter().collect())
    }

    /// The result of the tool, returned immediately if no task is requested.
    pub(crate) fn result(self, text: &str) -> Self {
        self.set(|script| script.at_once = Some(ToolResult::text(text)))
    }

    pub(crate) fn results(self, results: impl IntoIterator<Item = Outcome>) -> Self {
        self.set(|script| script.results = results.into_iter().collect())
    }

    pub(crate) fn result_after<Fut>(
        self,
        fetch: impl Fn(Outbox) -> Fut + Send + Sync + 'static,
    ) -> Self
    where
        Fut: Future<Output = Outcome> + Send + 'static,
    {
        let fetch: ResultHandler = Box::new(move |outbox| Box::pin(fetch(outbox)));
        self.set(|script| script.fetching = Some(Arc::new(fetch)))
    }

    /// Sends status notifications to subscribers of the task.
    pub(crate) fn status_notifications<Fut>(
        self,
        status_notifications: impl FnOnce(SendStatus) -> Fut + Send + Sync + 'static,
    ) -> Self
    where
        Fut: Future<Output = ()> + Send + 'static,
    {
        let once = Mutex::new(Some(status_notifications));
        let status_notifications: StatusNotifier =
            Box::new(move |tell| match once.lock().unwrap().take() {
                Some(status_notifications) => Box::pin(status_notifications(tell)),
                None => Box::pin(pending()),
            });
        self.set(|script| script.status_notifications = Some(Arc::new(status_notifications)))
    }

    pub(crate) fn transport(self) -> Arc<FakeTransport> {
        let script = self.script.clone();
        let mut fake = self.fake.always_does(move |request, outbox| {
            let tasking = request.tasking;
            let wanted = request.filter.as_ref().map(|it| it.read(SubscriptionFilter::clone));
            answer(&script, request.method, tasking, wanted, outbox)
        });
        fake.script = Some(self.script);
        fake.transport()
    }
}

/// Changes to the script after the transport is created.
impl FakeTransport {
    fn script(&self) -> std::sync::MutexGuard<'_, TaskScript> {
        self.script.as_ref().unwrap().lock().unwrap()
    }

    pub(crate) fn first(&self, task: Task) {
        self.script().first = Some(task);
    }

    pub(crate) fn lists(&self, tool: Value) {
        self.script().tool = Some(tool);
    }

    pub(crate) fn refuse_plain_calls(&self, error: Error) {
        self.script().refusal = Some(error.into());
    }

    pub(crate) fn fail_plain_calls(&self, result: ToolResult) {
        self.script().refusal = Some(result.into());
    }

    /// Sends `ToolsChanged` before each list of tools.
    pub(crate) fn changes_while_listed(&self) {
        self.script().changes = true;
    }

    /// The parameters of every request with this method.
    pub(crate) fn of(&self, method: Method) -> Vec<Value> {
        let sent = self.sent().into_iter().filter(|it| it.method == method);
        sent.map(|it| it.params).collect()
    }
}

fn answer(
    script: &Arc<Mutex<TaskScript>>,
    method: Method,
    tasking: TaskRequest,
    wanted: Option<SubscriptionFilter>,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    let mut it = script.lock().unwrap();
    let outcome = match method {
        Method::ListTools => tool(serde_json::from_value(it.tool.clone().unwrap()).unwrap()),
        Method::CallTool => match (it.refusal.clone(), it.at_once.clone(), tasking) {
            (Some(refusal), _, TaskRequest::Declined) => refusal,
            (None, Some(result), TaskRequest::Declined | TaskRequest::Unknown) => result.into(),
            _ => {
                let first = it.first.clone().unwrap_or_else(|| task(TaskState::Working));
                Outcome::Task(Box::new(first))
            }
        },
        Method::GetTask if it.silent => return Box::pin(pending()),
        Method::GetTask => match it.states.pop_front().or_else(|| it.last_look.clone()) {
            Some(look) => look,
            None => panic!("the script has no more looks"),
        },
        Method::UpdateTask => it.updates.pop_front().unwrap_or(Reply::TaskUpdated.into()),
        Method::CancelTask => {
            Reply::TaskCancelled { task: Box::new(task(TaskState::Cancelled)), too_late: false }
                .into()
        }
        Method::TaskResult => match (it.fetching.clone(), it.results.pop_front()) {
            (Some(fetching), _) => return fetching(outbox),
            (None, Some(result)) => result,
            (None, None) => it.at_once.clone().unwrap().into(),
        },
        Method::ListTasks => {
            Reply::TaskList { tasks: vec![working("one"), completed("")], next: None }.into()
        }
        Method::Listen => match (&it.status_notifications, wanted) {
            (None, Some(wanted)) if it.progress.is_some() => {
                let token = serde_json::value::to_raw_value("of the link").unwrap();
                let (id, progress) = ("t-1".into(), it.progress.unwrap());
                let said =
                    Notification::TaskProgress { id, token, progress, total: None, message: None };
                if wanted.includes(&said) {
                    outbox.notify(said);
                }
                return Box::pin(pending());
            }
            (Some(status_notifications), Some(wanted)) => {
                outbox.notify(Notification::Acknowledged(wanted));
                let tell = outbox.clone();
                let status_notifications = status_notifications(Box::new(move |task| {
                    tell.notify(Notification::Task(Box::new(task)))
                }));
                return Box::pin(async move {
                    status_notifications.await;
                    pending().await
                });
            }
            _ => Error::method_not_found("subscriptions/listen").into(),
        },
        _ => Error::method_not_found(method.name()).into(),
    };
    Box::pin(std::future::ready(outcome))
}
