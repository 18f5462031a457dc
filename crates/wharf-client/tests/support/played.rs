//! A server with one task, `t-1`, that plays back how it goes.

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

use super::{Fake, tool};

type Tell = Box<dyn Fn(Task) + Send>;
type Telling = Box<dyn Fn(Tell) -> BoxFuture<()> + Send + Sync>;
type Fetching = Box<dyn Fn(Outbox) -> BoxFuture<Outcome> + Send + Sync>;

/// How the task goes, as far as a test has said.
#[derive(Default)]
pub struct Script {
    first: Option<Task>,
    looks: VecDeque<Outcome>,
    last_look: Option<Outcome>,
    updates: VecDeque<Outcome>,
    results: VecDeque<Outcome>,
    at_once: Option<ToolResult>,
    fetching: Option<Arc<Fetching>>,
    telling: Option<Arc<Telling>>,
    tool: Option<Value>,
    refusal: Option<Outcome>,
    /// Said while the tools are listed.
    changes: bool,
    silent: bool,
    progress: Option<f64>,
}

impl Script {
    pub fn changes(&self) -> bool {
        self.changes
    }
}

pub struct Played {
    fake: Fake,
    script: Arc<Mutex<Script>>,
}

pub fn task(state: TaskState) -> Task {
    let mut task = Task::new("t-1", Timestamp::from_millis(1_000));
    task.state = state;
    task
}

pub fn with(state: TaskState) -> Task {
    task(state)
}

pub fn working(message: &str) -> Task {
    let mut task = task(TaskState::Working);
    task.message = Some(message.into());
    task
}

/// A task to be looked at every so many milliseconds.
pub fn every(interval: Option<u64>) -> Task {
    let mut task = task(TaskState::Working);
    task.poll_interval = interval;
    task
}

pub fn completed(text: &str) -> Task {
    task(TaskState::Completed(Box::new(ToolResult::text(text))))
}

pub fn asking(questions: &[(&str, &str)]) -> Task {
    let schema = json!({"type": "object", "properties": {"value": {"type": "string"}}});
    let ask = |text: &str| ClientRequest::Elicit(Box::new(ElicitForm::new(text, schema.clone())));
    let questions = questions.iter().map(|(key, text)| ((*key).to_owned(), ask(text))).collect();
    task(TaskState::InputRequired(questions))
}

pub fn shown(task: Task) -> Outcome {
    Reply::Task(Box::new(task)).into()
}

impl Played {
    /// A server that makes tasks as it likes, and shows all of them.
    pub fn shown(looks: impl IntoIterator<Item = Task>) -> Self {
        let can =
            json!({"tools": {}, "prompts": {}, "extensions": {wharf_model::TASKS_EXTENSION: {}}});
        Self::new(can, looks)
    }

    /// A server that makes tasks when it is asked for them, and gives results when asked for them.
    pub fn fetched(looks: impl IntoIterator<Item = Task>) -> Self {
        let can = json!({"tools": {}, "tasks": {"list": {}, "cancel": {},
            "requests": {"tools": {"call": {}}}}});
        Self::new(can, looks)
    }

    fn new(can: Value, looks: impl IntoIterator<Item = Task>) -> Self {
        let script = Script { looks: looks.into_iter().map(shown).collect(), ..Script::default() };
        Played { fake: Fake::with(can), script: Arc::new(Mutex::new(script)) }
    }

    fn set(self, change: impl FnOnce(&mut Script)) -> Self {
        change(&mut self.script.lock().unwrap());
        self
    }

    pub fn looks(self, looks: impl IntoIterator<Item = Outcome>) -> Self {
        self.set(|script| script.looks = looks.into_iter().collect())
    }

    pub fn always_looks(self, outcome: impl Into<Outcome>) -> Self {
        self.set(|script| script.last_look = Some(outcome.into()))
    }

    pub fn always_works(self) -> Self {
        self.always_looks(shown(task(TaskState::Working)))
    }

    pub fn silent_looks(self) -> Self {
        self.set(|script| script.silent = true)
    }

    /// Says to those who listen how far it has come, under a token of the link's own.
    pub fn progress(self, progress: f64) -> Self {
        self.set(|script| script.progress = Some(progress))
    }

    pub fn updates(self, updates: impl IntoIterator<Item = Outcome>) -> Self {
        self.set(|script| script.updates = updates.into_iter().collect())
    }

    /// What the tool gives, at once where no task is asked for.
    pub fn result(self, text: &str) -> Self {
        self.set(|script| script.at_once = Some(ToolResult::text(text)))
    }

    pub fn results(self, results: impl IntoIterator<Item = Outcome>) -> Self {
        self.set(|script| script.results = results.into_iter().collect())
    }

    pub fn result_after<Fut>(self, fetch: impl Fn(Outbox) -> Fut + Send + Sync + 'static) -> Self
    where
        Fut: Future<Output = Outcome> + Send + 'static,
    {
        let fetch: Fetching = Box::new(move |outbox| Box::pin(fetch(outbox)));
        self.set(|script| script.fetching = Some(Arc::new(fetch)))
    }

    /// Tells whoever listens to the task.
    pub fn telling<Fut>(self, telling: impl FnOnce(Tell) -> Fut + Send + Sync + 'static) -> Self
    where
        Fut: Future<Output = ()> + Send + 'static,
    {
        let once = Mutex::new(Some(telling));
        let telling: Telling = Box::new(move |tell| match once.lock().unwrap().take() {
            Some(telling) => Box::pin(telling(tell)),
            None => Box::pin(pending()),
        });
        self.set(|script| script.telling = Some(Arc::new(telling)))
    }

    pub fn link(self) -> Arc<Fake> {
        let script = self.script.clone();
        let mut fake = self.fake.always_does(move |request, outbox| {
            let tasking = request.tasking;
            let wanted = request.filter.as_ref().map(|it| it.read(SubscriptionFilter::clone));
            answer(&script, request.method, tasking, wanted, outbox)
        });
        fake.script = Some(self.script);
        fake.link()
    }
}

/// What a test says once the link is made.
impl Fake {
    fn script(&self) -> std::sync::MutexGuard<'_, Script> {
        self.script.as_ref().unwrap().lock().unwrap()
    }

    pub fn first(&self, task: Task) {
        self.script().first = Some(task);
    }

    pub fn lists(&self, tool: Value) {
        self.script().tool = Some(tool);
    }

    pub fn refuse_plain_calls(&self, error: Error) {
        self.script().refusal = Some(error.into());
    }

    pub fn fail_plain_calls(&self, result: ToolResult) {
        self.script().refusal = Some(result.into());
    }

    /// Says that the tools have changed before each list of them.
    pub fn changes_while_listed(&self) {
        self.script().changes = true;
    }

    /// The parameters of every request for this method.
    pub fn of(&self, method: Method) -> Vec<Value> {
        let sent = self.sent().into_iter().filter(|it| it.method == method);
        sent.map(|it| it.params).collect()
    }
}

fn answer(
    script: &Arc<Mutex<Script>>,
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
        Method::GetTask => match it.looks.pop_front().or_else(|| it.last_look.clone()) {
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
        Method::Listen => match (&it.telling, wanted) {
            (None, Some(wanted)) if it.progress.is_some() => {
                let token = serde_json::value::to_raw_value("of the link").unwrap();
                let (id, progress) = ("t-1".into(), it.progress.unwrap());
                let said =
                    Notification::TaskProgress { id, token, progress, total: None, message: None };
                if wanted.wants(&said) {
                    outbox.notify(said);
                }
                return Box::pin(pending());
            }
            (Some(telling), Some(wanted)) => {
                outbox.notify(Notification::Acknowledged(wanted));
                let tell = outbox.clone();
                let telling =
                    telling(Box::new(move |task| tell.notify(Notification::Task(Box::new(task)))));
                return Box::pin(async move {
                    telling.await;
                    pending().await
                });
            }
            _ => Error::method_not_found("subscriptions/listen").into(),
        },
        _ => Error::method_not_found(method.name()).into(),
    };
    Box::pin(std::future::ready(outcome))
}
