//! What a subscriber has yet to hear.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    sync::Arc,
    task::Waker,
};

use wharf_model::{BudgetShare, Notification, Task, TaskState, TaskStatus, Timestamp};

/// It is a set, so a slow subscriber holds little however much happens.
#[derive(Default)]
pub(super) struct PendingNotifications {
    pub(super) tools: bool,
    pub(super) prompts: bool,
    pub(super) resources: bool,
    pub(super) uris: BTreeSet<Arc<str>>,
    pub(super) elicitations: VecDeque<String>,
    /// Tasks as they stand now: the last word wins.
    tasks: BTreeMap<String, (Box<Task>, BudgetShare)>,
    progress: BTreeMap<String, Notification>,
    /// What was sent of each task last.
    pub(super) sent: BTreeMap<String, SentStatus>,
    pub(super) waker: Option<Waker>,
}

/// What a subscriber was told of a task last.
#[derive(Default)]
pub(super) struct SentStatus {
    task: Option<TaskSummary>,
    progress: Option<f64>,
}

/// Where a task stands, as far as a subscriber can tell.
#[derive(PartialEq)]
struct TaskSummary {
    time: Timestamp,
    status: TaskStatus,
    message: Option<String>,
    /// The keys of its open questions.
    asks: Vec<String>,
}

impl TaskSummary {
    fn of(task: &Task) -> Self {
        let asks = match &task.state {
            TaskState::InputRequired(questions) => {
                questions.iter().map(|(key, _)| key.to_string()).collect()
            }
            _ => Vec::new(),
        };
        let (time, status, message) = (task.updated_at, task.status(), task.message.clone());
        TaskSummary { time, status, message, asks }
    }
}

impl PendingNotifications {
    /// Which lists have changed.
    pub(super) fn lists(tools: bool, prompts: bool, resources: bool) -> Self {
        PendingNotifications { tools, prompts, resources, ..PendingNotifications::default() }
    }

    /// Notes what is new of a task; false if nothing is, or if `reserve` has none for so many bytes. What is
    /// over stays so.
    pub(super) fn add_task(
        &mut self,
        notification: &Notification,
        reserve: impl FnOnce(usize) -> Option<BudgetShare>,
    ) -> bool {
        match notification {
            Notification::Task(task) => {
                let sent = self.sent.entry(task.id.clone()).or_default();
                let (now, before) = (TaskSummary::of(task), sent.task.as_ref());
                let is_over = before.is_some_and(|before| before.status.is_terminal());
                // Clocks may go back; an end stays one.
                let is_stale = !now.status.is_terminal()
                    && before.is_some_and(|before| before.time > now.time);
                if is_over || is_stale || before == Some(&now) {
                    return false;
                }
                sent.task = Some(now);
                // The last word takes the place of the one before.
                self.tasks.remove(&task.id);
                let Some(held) = reserve(task_bytes(task)) else {
                    // Its owner has to look; what comes next may find reserve.
                    self.sent.remove(&task.id);
                    return false;
                };
                self.tasks.insert(task.id.clone(), (task.clone(), held));
                true
            }
            Notification::TaskProgress { id, progress, .. } => {
                let sent = self.sent.entry(id.clone()).or_default();
                if sent.progress.is_some_and(|before| before >= *progress) {
                    return false;
                }
                sent.progress = Some(*progress);
                self.progress.insert(id.clone(), notification.clone());
                true
            }
            _ => false,
        }
    }

    pub(super) fn remove_tasks(&mut self, gone: impl Fn(&str) -> bool) {
        self.sent.retain(|id, _| !gone(id));
        self.tasks.retain(|id, _| !gone(id));
        self.progress.retain(|id, _| !gone(id));
    }

    pub(super) fn take(&mut self) -> Option<Notification> {
        let flags = [
            (&mut self.tools, Notification::ToolsChanged),
            (&mut self.prompts, Notification::PromptsChanged),
            (&mut self.resources, Notification::ResourcesChanged),
        ];
        for (flag, notification) in flags {
            if mem::take(flag) {
                return Some(notification);
            }
        }
        if let Some(uri) = self.uris.pop_first() {
            return Some(Notification::ResourceUpdated { uri });
        }
        if let Some((_, notification)) = self.progress.pop_first() {
            return Some(notification);
        }
        if let Some((_, (task, _))) = self.tasks.pop_first() {
            return Some(Notification::Task(task));
        }
        self.elicitations.pop_front().map(|id| Notification::ElicitationComplete { id })
    }
}

/// About how many bytes a task takes while its subscriber has yet to hear of it.
fn task_bytes(task: &Task) -> usize {
    let result = match &task.state {
        TaskState::Completed(result) => serde_json::to_vec(result).map_or(0, |json| json.len()),
        _ => 0,
    };
    1024 + result
}
