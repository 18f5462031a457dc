//! History of all task events, and the check of its invariants.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use wharf_model::TaskStatus;

/// Event of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskEvent {
    /// Its owner received its id.
    Acknowledged,
    /// The effect of a step ran and produced this value, which is unique to the run.
    Ran { step: String, value: String, by: String },
    /// The handler continued after a step with this value: the step was stored.
    Kept { step: String, value: String, by: String },
    /// The handler received this response to its client request.
    Heard { answer: String, by: String },
    /// Its owner polled it.
    Seen(TaskView),
    /// Its owner received the confirmation that it is cancelled, or that it had ended before.
    Cancelled { too_late: bool },
    /// Its owner received the confirmation that it has ended, by this cancellation or before.
    CalledOff,
    /// Its owner responded to its client request, and perhaps received a confirmation.
    Answered { word: String, acknowledged: bool },
    /// A violation that was detected directly.
    Wrong(String),
}

/// A task as its owner saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskView {
    /// Number of events before the owner's request.
    pub since: usize,
    /// One of the five statuses.
    pub status: String,
    /// The text of the result, or of the error.
    pub text: String,
}

impl TaskView {
    fn is_over(&self) -> bool {
        self.status.parse().is_ok_and(TaskStatus::is_terminal)
    }

    fn is_same(&self, other: &TaskView) -> bool {
        self.status == other.status && self.text == other.text
    }
}

/// Result of the tool `work`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WorkResult {
    /// Owner of the task.
    pub owner: Option<String>,
    /// Values of the steps.
    pub steps: Vec<String>,
    /// Response to the client request, if there was one.
    pub answer: Option<String>,
}

/// An event with its task and its time in milliseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JournalEntry {
    pub at: u64,
    pub task: String,
    pub event: TaskEvent,
}

/// All events so far; it only grows. Clones share the history.
#[derive(Clone, Default)]
pub struct History(Arc<Mutex<Vec<JournalEntry>>>);

impl History {
    /// Adds an event.
    pub fn add(&self, at: u64, task: &str, event: TaskEvent) {
        self.entries().push(JournalEntry { at, task: task.into(), event });
    }

    /// Number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// Returns whether there are no events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All events by task.
    #[must_use]
    pub fn tasks(&self) -> BTreeMap<String, Vec<(usize, JournalEntry)>> {
        let mut tasks: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for (index, entry) in self.entries().iter().enumerate() {
            tasks.entry(entry.task.clone()).or_default().push((index, entry.clone()));
        }
        tasks
    }

    /// Violations of the invariants. A cancelled task may continue for `grace`.
    #[must_use]
    pub fn problems(&self, grace: Duration) -> Vec<String> {
        let tasks = self.tasks();
        tasks
            .iter()
            .flat_map(|(task, entries)| TaskHistory { task, entries, grace }.problems())
            .collect()
    }

    fn entries(&self) -> MutexGuard<'_, Vec<JournalEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, JournalEntry { at, task, event }) in self.entries().iter().enumerate() {
            writeln!(
                f,
                "{index:5} {:>9.3} s  {task:12} {event:?}",
                Duration::from_millis(*at).as_secs_f64()
            )?;
        }
        Ok(())
    }
}

/// Counters of a history, which show that the test exercised the failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskTally {
    pub acknowledged: usize,
    pub completed: usize,
    pub failed: usize,
    pub cancelled: usize,
    /// Tasks that more than one process worked on.
    pub taken_over: usize,
    pub steps: usize,
    /// Steps whose effect ran more than once, because the first run was not stored.
    pub repeated: usize,
}

impl TaskTally {
    /// Counts the task events of a history.
    #[must_use]
    pub fn of(history: &History) -> Self {
        let tasks = history.tasks();
        let stories =
            tasks.iter().map(|(task, entries)| TaskHistory { task, entries, grace: Duration::MAX });
        stories.fold(TaskTally::default(), |sum, story| sum + story.tally())
    }
}

impl std::ops::Add for TaskTally {
    type Output = TaskTally;

    fn add(self, other: TaskTally) -> TaskTally {
        TaskTally {
            acknowledged: self.acknowledged + other.acknowledged,
            completed: self.completed + other.completed,
            failed: self.failed + other.failed,
            cancelled: self.cancelled + other.cancelled,
            taken_over: self.taken_over + other.taken_over,
            steps: self.steps + other.steps,
            repeated: self.repeated + other.repeated,
        }
    }
}

/// All events of one task.
struct TaskHistory<'a> {
    task: &'a str,
    entries: &'a [(usize, JournalEntry)],
    grace: Duration,
}

impl TaskHistory<'_> {
    fn problems(&self) -> Vec<String> {
        let mut problems = vec![];
        self.ends_once(&mut problems);
        self.steps_once(&mut problems);
        self.one_answer(&mut problems);
        self.cancelled(&mut problems);
        self.result(&mut problems);
        problems.extend(self.events().filter_map(|event| match event {
            TaskEvent::Wrong(what) => Some(what.clone()),
            _ => None,
        }));
        problems.into_iter().map(|problem| format!("{}: {problem}", self.task)).collect()
    }

    fn tally(&self) -> TaskTally {
        let ended =
            |status: &str| usize::from(self.end().is_some_and(|(_, end)| end.status == status));
        let (mut workers, mut ran) = (BTreeSet::new(), BTreeMap::<&str, usize>::new());
        for event in self.events() {
            match event {
                TaskEvent::Ran { step, by, .. } => {
                    workers.insert(by);
                    *ran.entry(step).or_default() += 1;
                }
                TaskEvent::Kept { by, .. } | TaskEvent::Heard { by, .. } => {
                    workers.insert(by);
                }
                _ => {}
            }
        }
        TaskTally {
            acknowledged: usize::from(self.events().any(|event| *event == TaskEvent::Acknowledged)),
            completed: ended("completed"),
            failed: ended("failed"),
            cancelled: ended("cancelled"),
            taken_over: usize::from(workers.len() > 1),
            steps: ran.len(),
            repeated: ran.values().filter(|times| **times > 1).count(),
        }
    }

    fn events(&self) -> impl Iterator<Item = &TaskEvent> {
        self.entries.iter().map(|(_, entry)| &entry.event)
    }

    fn sights(&self) -> impl Iterator<Item = (usize, &TaskView)> {
        self.entries.iter().filter_map(|(index, entry)| match &entry.event {
            TaskEvent::Seen(sight) => Some((*index, sight)),
            _ => None,
        })
    }

    /// The first end that its owner saw, and its position.
    fn end(&self) -> Option<(usize, &TaskView)> {
        self.sights().find(|(_, sight)| sight.is_over())
    }

    fn ends_once(&self, problems: &mut Vec<String>) {
        let Some((when, end)) = self.end() else {
            if self.events().any(|event| *event == TaskEvent::Acknowledged) {
                let last = self.sights().last();
                problems.push(format!("it was acknowledged and never ended; seen last: {last:?}"));
            }
            return;
        };
        for (index, sight) in self.sights() {
            let other_end = sight.is_over() && !sight.is_same(end);
            if other_end || (!sight.is_over() && sight.since > when) {
                problems.push(format!("its end changed: {end:?} at {when}, {sight:?} at {index}"));
            }
        }
    }

    fn steps_once(&self, problems: &mut Vec<String>) {
        let mut kept: BTreeMap<&str, &str> = BTreeMap::new();
        let mut made: BTreeSet<(&str, &str)> = BTreeSet::new();
        for (index, entry) in self.entries {
            match &entry.event {
                TaskEvent::Ran { step, value, by } => {
                    made.insert((step, value));
                    if let Some(known) = kept.get(step.as_str()) {
                        problems.push(format!(
                            "{step} ran again by {by} at {index}, after {known} was kept"
                        ));
                    }
                }
                TaskEvent::Kept { step, value, by } => {
                    if *kept.entry(step).or_insert(value) != value {
                        problems.push(format!("{step} gave another value to {by} at {index}"));
                    }
                    if !made.contains(&(step.as_str(), value.as_str())) {
                        problems.push(format!("{step} gave {value} at {index}, which nobody made"));
                    }
                }
                _ => {}
            }
        }
    }

    fn one_answer(&self, problems: &mut Vec<String>) {
        let heard: BTreeSet<_> = self
            .events()
            .filter_map(|event| match event {
                TaskEvent::Heard { answer, .. } => Some(answer),
                _ => None,
            })
            .collect();
        if heard.len() > 1 {
            problems.push(format!("its handler heard more than one answer: {heard:?}"));
        }
        let mut answers = vec![];
        for event in self.events() {
            if let TaskEvent::Answered { word, acknowledged } = event {
                answers.push(word);
                if *acknowledged {
                    break;
                }
            }
        }
        let strange = heard.iter().find(|it| !answers.is_empty() && !answers.contains(*it));
        if let Some(strange) = strange {
            problems.push(format!("its handler heard {strange} instead of one of {answers:?}"));
        }
    }

    fn cancelled(&self, problems: &mut Vec<String>) {
        let honoured = TaskEvent::Cancelled { too_late: false };
        let is_over =
            |entry: &JournalEntry| [&honoured, &TaskEvent::CalledOff].contains(&&entry.event);
        let Some((told, cancel)) = self.entries.iter().find(|(_, entry)| is_over(entry)) else {
            return;
        };
        if let Some((_, alive)) = self.sights().find(|(_, it)| it.since > *told && !it.is_over()) {
            problems.push(format!("its owner was told at {told} that it is over, but {alive:?}"));
        }
        let latest = cancel.at + u64::try_from(self.grace.as_millis()).unwrap_or(u64::MAX);
        let late = |entry: &JournalEntry| {
            matches!(entry.event, TaskEvent::Ran { .. }) && entry.at > latest
        };
        if let Some((index, _)) = self.entries.iter().find(|(_, entry)| late(entry)) {
            problems.push(format!("it went on long after it was cancelled, at {index}"));
        }
        let is_cancelled = |end: &TaskView| end.status == "cancelled" || cancel.event != honoured;
        if let Some((_, end)) = self.end().filter(|(_, end)| !is_cancelled(end)) {
            problems.push(format!("its owner was told that it is cancelled, but {end:?}"));
        }
    }

    /// Checks that the result contains the values of the steps and the response.
    fn result(&self, problems: &mut Vec<String>) {
        let Some((_, end)) = self.end().filter(|(_, end)| end.status == "completed") else {
            return;
        };
        let Ok(done) = serde_json::from_str::<WorkResult>(&end.text) else {
            return problems.push(format!("its result cannot be read: {:?}", end.text));
        };
        for event in self.events() {
            let fits = match event {
                TaskEvent::Kept { step, value, .. } => {
                    let number = step.rsplit('-').next().and_then(|it| it.parse::<usize>().ok());
                    number.and_then(|number| done.steps.get(number)) == Some(value)
                }
                TaskEvent::Heard { answer, .. } => done.answer.as_ref() == Some(answer),
                _ => true,
            };
            if !fits {
                problems.push(format!("its result does not fit {event:?}: {done:?}"));
            }
        }
        let owner = self.task.split('-').next();
        if done.owner.as_deref() != owner {
            problems.push(format!("its result is another's: {done:?}"));
        }
    }
}

#[cfg(test)]
mod tests;
