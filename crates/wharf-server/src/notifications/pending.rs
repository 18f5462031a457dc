//! What a listener has yet to hear.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    sync::Arc,
    task::Waker,
};

use wharf_model::{BudgetShare, Notification, Task, TaskState, TaskStatus, Timestamp};

/// It is a set, so a slow listener holds little however much happens.
#[derive(Default)]
pub(super) struct Pending {
    pub(super) tools: bool,
    pub(super) prompts: bool,
    pub(super) resources: bool,
    pub(super) uris: BTreeSet<Arc<str>>,
    pub(super) elicitations: VecDeque<String>,
    /// Tasks as they stand now: the last word wins.
    tasks: BTreeMap<String, (Box<Task>, BudgetShare)>,
    progress: BTreeMap<String, Notification>,
    /// What was said of each task last.
    pub(super) said: BTreeMap<String, Said>,
    pub(super) waker: Option<Waker>,
}

/// What a listener was told of a task last.
#[derive(Default)]
pub(super) struct Said {
    task: Option<Stand>,
    progress: Option<f64>,
}

/// Where a task stands, as far as a listener can tell.
#[derive(PartialEq)]
struct Stand {
    time: Timestamp,
    status: TaskStatus,
    message: Option<String>,
    /// The keys of its open questions.
    asks: Vec<String>,
}

impl Stand {
    fn of(task: &Task) -> Self {
        let asks = match &task.state {
            TaskState::InputRequired(questions) => {
                questions.iter().map(|(key, _)| key.to_string()).collect()
            }
            _ => Vec::new(),
        };
        let (time, status, message) = (task.updated_at, task.status(), task.message.clone());
        Stand { time, status, message, asks }
    }
}

impl Pending {
    /// Which lists have changed.
    pub(super) fn lists(tools: bool, prompts: bool, resources: bool) -> Self {
        Pending { tools, prompts, resources, ..Pending::default() }
    }

    /// Notes what is new of a task; false if nothing is, or if `room` has none for so many bytes. What is
    /// over stays so.
    pub(super) fn add_task(
        &mut self,
        notification: &Notification,
        room: impl FnOnce(usize) -> Option<BudgetShare>,
    ) -> bool {
        match notification {
            Notification::Task(task) => {
                let said = self.said.entry(task.id.clone()).or_default();
                let (now, before) = (Stand::of(task), said.task.as_ref());
                let is_over = before.is_some_and(|before| before.status.is_terminal());
                // Clocks may go back; an end stays one.
                let is_stale = !now.status.is_terminal()
                    && before.is_some_and(|before| before.time > now.time);
                if is_over || is_stale || before == Some(&now) {
                    return false;
                }
                said.task = Some(now);
                // The last word takes the place of the one before.
                self.tasks.remove(&task.id);
                let Some(held) = room(weight(task)) else {
                    // Its owner has to look; what comes next may find room.
                    self.said.remove(&task.id);
                    return false;
                };
                self.tasks.insert(task.id.clone(), (task.clone(), held));
                true
            }
            Notification::TaskProgress { id, progress, .. } => {
                let said = self.said.entry(id.clone()).or_default();
                if said.progress.is_some_and(|before| before >= *progress) {
                    return false;
                }
                said.progress = Some(*progress);
                self.progress.insert(id.clone(), notification.clone());
                true
            }
            _ => false,
        }
    }

    pub(super) fn forget(&mut self, gone: impl Fn(&str) -> bool) {
        self.said.retain(|id, _| !gone(id));
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

/// About how many bytes a task takes while its listener has yet to hear of it.
fn weight(task: &Task) -> usize {
    let result = match &task.state {
        TaskState::Completed(result) => serde_json::to_vec(result).map_or(0, |json| json.len()),
        _ => 0,
    };
    1024 + result
}
