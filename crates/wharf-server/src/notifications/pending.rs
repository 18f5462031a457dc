//! Pending notifications of a subscription.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    sync::Arc,
    task::Waker,
};

use crate::notifications::custom::PendingCustom;
use wharf_model::{BudgetShare, Notification, Task, TaskState, TaskStatus, Timestamp};

/// Set of notifications to send. Repeated changes coalesce, so a slow subscriber needs little
/// memory.
#[derive(Default)]
pub(super) struct PendingNotifications {
    pub(super) tools: bool,
    pub(super) prompts: bool,
    pub(super) resources: bool,
    pub(super) uris: BTreeSet<Arc<str>>,
    pub(super) elicitations: VecDeque<String>,
    pub(super) custom: PendingCustom,
    /// Current state of tasks: the last update wins.
    tasks: BTreeMap<String, (Box<Task>, BudgetShare)>,
    progress: BTreeMap<String, Notification>,
    /// Last status that was sent of each task.
    pub(super) sent: BTreeMap<String, SentStatus>,
    pub(super) waker: Option<Waker>,
}

/// Last status of a task that a subscriber received.
#[derive(Default)]
pub(super) struct SentStatus {
    task: Option<TaskSummary>,
    progress: Option<f64>,
}

/// Status of a task, as far as a subscriber sees it.
#[derive(PartialEq)]
struct TaskSummary {
    time: Timestamp,
    status: TaskStatus,
    message: Option<String>,
    /// Keys of its open input requests.
    open_requests: Vec<String>,
}

impl TaskSummary {
    fn of(task: &Task) -> Self {
        let open_requests = match &task.state {
            TaskState::InputRequired(questions) => {
                questions.iter().map(|(key, _)| key.to_string()).collect()
            }
            _ => Vec::new(),
        };
        let (time, status, message) = (task.updated_at, task.status(), task.message.clone());
        TaskSummary { time, status, message, open_requests }
    }
}

impl PendingNotifications {
    /// Creates pending notifications of list changes.
    pub(super) fn lists(tools: bool, prompts: bool, resources: bool) -> Self {
        PendingNotifications { tools, prompts, resources, ..PendingNotifications::default() }
    }

    /// Adds a task notification. Returns false if it is not new, or if `reserve` has no room for
    /// its bytes. A terminal status is final.
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
                // Clocks may go back, but a terminal status stays.
                let is_stale = !now.status.is_terminal()
                    && before.is_some_and(|before| before.time > now.time);
                if is_over || is_stale || before == Some(&now) {
                    return false;
                }
                sent.task = Some(now);
                // The new status replaces the pending one.
                self.tasks.remove(&task.id);
                let Some(held) = reserve(task_bytes(task)) else {
                    // The client has to poll; the next update may find room.
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
        let elicitation = self.elicitations.pop_front();
        let elicitation = elicitation.map(|id| Notification::ElicitationComplete { id });
        elicitation.or_else(|| self.custom.pop())
    }
}

/// Estimates the bytes of a pending task notification.
fn task_bytes(task: &Task) -> usize {
    let result = match &task.state {
        TaskState::Completed(result) => serde_json::to_vec(result).map_or(0, |json| json.len()),
        _ => 0,
    };
    1024 + result
}
