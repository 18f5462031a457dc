//! Simulated callers: they create tasks, poll them, respond, cancel, and try to access those of
//! others.

use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::json;
use tokio::{task::JoinSet, time::sleep};
use wharf_model::{Error, ErrorKind, Method, Outcome, Reply, Task, TaskState, TaskStatus};

use super::{
    STORM, TROUBLE_ENDS,
    node::{NodeCall, NodeClient},
};
use crate::{
    random::SeededRandom,
    task_history::{History, TaskEvent, TaskView},
};

/// An id without a task.
const UNKNOWN: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
/// Time for everything to end after the last fault.
pub const SETTLE_TIMEOUT: Duration = Duration::from_secs(40);

/// A caller with tasks.
#[derive(Clone)]
pub struct SimCaller {
    pub name: &'static str,
    pub seed: u64,
    pub nodes: Arc<[String]>,
    pub node_client: NodeClient,
    pub history: History,
    /// Tasks of all callers: owner, key and id.
    pub known: KnownTasks,
    /// True if the connections between callers and nodes have no faults.
    pub spared: bool,
}

/// Acknowledged tasks of all callers.
#[derive(Clone, Default)]
pub struct KnownTasks(Arc<Mutex<Vec<OwnedTask>>>);

/// Owner, key and id of a task.
type OwnedTask = (&'static str, String, String);

impl KnownTasks {
    fn table(&self) -> MutexGuard<'_, Vec<OwnedTask>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SimCaller {
    /// Creates this number of tasks and ends when they have ended.
    pub async fn live(self, tasks: usize) -> turmoil::Result {
        let mut under_way = JoinSet::new();
        for number in 0..tasks {
            let key = format!("{}-{number}", self.name);
            under_way.spawn(self.clone().have(key));
        }
        while under_way.join_next().await.transpose()?.is_some() {}
        self.look_for_others().await;
        Ok(())
    }

    /// Runs one task from its creation to its end.
    async fn have(self, key: String) {
        let mut random = SeededRandom::of(self.seed, &key);
        sleep(random.millis(0..u64::try_from(STORM.as_millis()).unwrap_or(0) * 2 / 3)).await;
        let (steps, pause) = (1 + random.below(5), random.below(400));
        let ask = random.percent(40);
        let json = json!({"key": key, "steps": steps, "pause": pause, "ask": ask}).to_string();
        match self.call(&mut random, Method::CallTool, "work", json).await {
            Some(Outcome::Task(task)) => {
                self.add(&key, TaskEvent::Acknowledged);
                self.known.table().push((self.name, key.clone(), task.id.clone()));
                let waits = random.percent(30);
                let mut waiting = SeededRandom::of(self.seed, &format!("{key} waits"));
                let wait = async {
                    if waits {
                        self.wait(&key, &task.id, &mut waiting).await;
                    }
                };
                tokio::join!(
                    self.follow(&key, &task.id, &mut random, TROUBLE_ENDS + SETTLE_TIMEOUT),
                    wait
                );
            }
            Some(Outcome::Failed(error)) if is_refusal(&error) => {}
            None => {}
            Some(other) => self.wrong(&key, &format!("it began with {other:?}")),
        }
    }

    async fn follow(&self, key: &str, id: &str, random: &mut SeededRandom, end: Duration) {
        let mut patience = random.percent(30).then(|| random.millis(0..6000));
        let mut calm = false;
        loop {
            let pause = random.millis(100..900);
            sleep(pause).await;
            if let Some(rest) = patience {
                patience = rest.checked_sub(pause);
                if patience.is_none() {
                    self.cancel(key, id, random).await;
                }
            }
            if random.percent(20) {
                self.spy(random).await;
            }
            let over = self.look(key, id, random).await;
            // Polled twice more: once while faults are possible, and once after.
            if over && calm {
                return;
            }
            if over {
                sleep(TROUBLE_ENDS.saturating_sub(Duration::from_millis(super::now()))).await;
                calm = true;
            }
            if left(end).is_zero() {
                return;
            }
        }
    }

    /// Waits for the end of a task, at one node after the other if they fail.
    async fn wait(&self, key: &str, id: &str, random: &mut SeededRandom) {
        loop {
            let left = left(TROUBLE_ENDS + SETTLE_TIMEOUT);
            if left.is_zero() {
                return;
            }
            // A lost response never arrives.
            let patience = if self.spared { left } else { left.min(Duration::from_secs(5)) };
            let (since, node) = (self.history.len(), random.pick(&self.nodes));
            let (method, target) = (Method::TaskResult, id.to_owned());
            let call = NodeCall { who: self.name, method, target, json: String::new() };
            match self.node_client.wait(node, call, patience).await {
                Ok(Outcome::Complete(Reply::Tool(result))) => {
                    let text = result.structured.map(|it| it.get().to_owned()).unwrap_or_default();
                    let sight = TaskView { since, status: "completed".into(), text };
                    return self.add(key, TaskEvent::Seen(sight));
                }
                Ok(Outcome::Failed(error)) if !is_refusal(&error) => return,
                Err(error) if error.kind() == io::ErrorKind::TimedOut && self.spared => {
                    return self.wrong(key, &format!("who waited at {node} was never told"));
                }
                _ => sleep(random.millis(100..900)).await,
            }
        }
    }

    /// Polls a task; returns whether it has ended.
    async fn look(&self, key: &str, id: &str, random: &mut SeededRandom) -> bool {
        let since = self.history.len();
        let task = match self.call(random, Method::GetTask, id, String::new()).await {
            Some(Outcome::Complete(Reply::Task(task))) => task,
            Some(Outcome::Failed(error)) if is_refusal(&error) => return false,
            None => return false,
            Some(other) => {
                self.wrong(key, &format!("its owner was told {other:?}"));
                return false;
            }
        };
        self.add(key, TaskEvent::Seen(sight(&task, since)));
        if task.status() == TaskStatus::InputRequired && random.percent(60) {
            self.answer(key, id, random).await;
        }
        task.status().is_terminal()
    }

    async fn answer(&self, key: &str, id: &str, random: &mut SeededRandom) {
        // Another response each time: the one that counts must not change.
        let word = format!("{key}:{}", random.below(1000));
        let answers = json!({"go": {"action": "accept", "content": {"word": word}}}).to_string();
        match self.call(random, Method::UpdateTask, id, answers).await {
            Some(Outcome::Complete(Reply::TaskUpdated)) | None => {}
            Some(Outcome::Failed(error)) if is_refusal(&error) => {}
            Some(other) => self.wrong(key, &format!("an answer to it got {other:?}")),
        }
    }

    async fn cancel(&self, key: &str, id: &str, random: &mut SeededRandom) {
        match self.call(random, Method::CancelTask, id, String::new()).await {
            Some(Outcome::Complete(Reply::TaskCancelled { too_late, .. })) => {
                self.add(key, TaskEvent::Cancelled { too_late });
            }
            Some(Outcome::Failed(error)) if is_refusal(&error) => {}
            None => {}
            Some(other) => self.wrong(key, &format!("its cancellation got {other:?}")),
        }
    }

    /// Requests a task of another caller and an unknown one: both errors must be equal.
    async fn spy(&self, random: &mut SeededRandom) {
        let others: Vec<_> =
            self.known.table().iter().filter(|it| it.0 != self.name).cloned().collect();
        if others.is_empty() {
            return;
        }
        let (_, key, id) = random.pick(&others).clone();
        let methods = [Method::GetTask, Method::UpdateTask, Method::CancelTask, Method::TaskResult];
        let method = *random.pick(&methods);
        let answers = json!({"go": {"action": "decline"}}).to_string();
        let theirs = self.call(random, method, &id, answers.clone()).await;
        let nobodys = self.call(random, method, UNKNOWN, answers).await;
        let told = [theirs, nobodys].map(|outcome| match outcome {
            Some(Outcome::Failed(error)) if is_refusal(&error) => None,
            None => None,
            Some(other) => Some(format!("{other:?}")),
        });
        match told {
            [Some(theirs), Some(nobodys)] if theirs == nobodys => {}
            [Some(theirs), Some(nobodys)] => {
                self.wrong(&key, &format!("{} was told {theirs}, not {nobodys}", self.name));
            }
            [Some(theirs), None] if !theirs.contains("TaskNotFound") => {
                self.wrong(&key, &format!("{} was told {theirs}", self.name));
            }
            _ => {}
        }
    }

    /// Tasks whose creation was not confirmed must end too.
    async fn look_for_others(&self) {
        let (mut random, end) =
            (SeededRandom::of(self.seed, self.name), TROUBLE_ENDS + SETTLE_TIMEOUT * 2);
        let mine: BTreeSet<_> = {
            let known = self.known.table();
            known.iter().filter(|it| it.0 == self.name).map(|it| it.2.clone()).collect()
        };
        loop {
            match self.call(&mut random, Method::ListTasks, "", String::new()).await {
                Some(Outcome::Complete(Reply::TaskList { tasks, .. })) => {
                    let ids = self.known.table().clone();
                    for task in tasks.iter().filter(|task| !mine.contains(&task.id)) {
                        let key = format!("{}-unknown-{}", self.name, task.id);
                        if ids.iter().any(|it| it.2 == task.id) {
                            self.wrong(&key, "somebody else's task was listed");
                        }
                        self.add(&key, TaskEvent::Acknowledged);
                        self.follow(&key, &task.id, &mut random, end).await;
                    }
                    return;
                }
                Some(Outcome::Failed(error)) if is_refusal(&error) => {}
                None => {}
                Some(other) => return self.wrong(self.name, &format!("tasks/list got {other:?}")),
            }
            if left(end).is_zero() {
                return self.wrong(self.name, "tasks could not be listed");
            }
            sleep(random.millis(100..900)).await;
        }
    }

    async fn call(
        &self,
        random: &mut SeededRandom,
        method: Method,
        target: &str,
        json: String,
    ) -> Option<Outcome> {
        let node = random.pick(&self.nodes);
        let call = NodeCall { who: self.name, method, target: target.into(), json };
        self.node_client.call(node, call).await
    }

    fn add(&self, key: &str, event: TaskEvent) {
        self.history.add(super::now(), key, event);
    }

    fn wrong(&self, key: &str, what: &str) {
        self.add(key, TaskEvent::Wrong(what.into()));
    }
}

fn sight(task: &Task, since: usize) -> TaskView {
    let text = match &task.state {
        TaskState::Completed(result) => {
            result.structured.as_ref().map(|json| json.get().to_owned()).unwrap_or_default()
        }
        TaskState::Failed(error) => error.to_string(),
        _ => String::new(),
    };
    let status: TaskStatus = task.status();
    TaskView { since, status: status.as_str().into(), text }
}

/// Time left until `end`.
fn left(end: Duration) -> Duration {
    end.saturating_sub(Duration::from_millis(super::now()))
}

/// Returns whether a node is temporarily unavailable.
fn is_refusal(error: &Error) -> bool {
    matches!(error.kind, ErrorKind::TemporarilyUnavailable | ErrorKind::Overloaded)
}
