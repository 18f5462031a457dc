//! `wharf tasks`.

use std::time::Duration;

use serde_json::json;
use wharf::{
    Client, ErrorKind,
    tasks::{Task, TaskHandle, TaskState, task_json},
};

use crate::commands::{
    Run,
    call::{failed, show},
};
use crate::{
    cli::{Tasks, TasksVerb},
    context::Context,
    error::Fail,
    show::{task_line, task_lines, task_table},
    target,
    terminal::clean_json,
};

/// Practically unlimited: the user can end the wait.
const YEAR: Duration = Duration::from_hours(8760);

impl Run for Tasks {
    async fn run(&self, context: &Context) -> Result<(), Fail> {
        let words = [&self.first, &self.second].into_iter().flatten().cloned().collect();
        let (target, words) = target::split(words, &context.shared.command)?;
        if self.output.is_some() && self.what != TasksVerb::Resume {
            return Err(Fail::usage("--output is for `wharf tasks resume`"));
        }
        let id = match (self.what, &words[..]) {
            (TasksVerb::List, []) => {
                let client = context.connect(target).await?;
                return list(context, client).await;
            }
            (TasksVerb::List, [word, ..]) | (_, [_, word, ..]) => {
                return Err(Fail::usage(format!("`{word}` is too much")));
            }
            (_, []) => {
                return Err(Fail::usage("Which task?")
                    .hint("`wharf call --detach` gives its id.".to_owned()));
            }
            (_, [id]) => id,
        };
        let task = context.connect(target).await?.task(id);
        match self.what {
            TasksVerb::Cancel => cancel(context, &task).await,
            TasksVerb::Watch => watch(context, &task).await,
            TasksVerb::Resume => {
                let result = context.watch(task.wait().total(YEAR)).await?;
                show(context, self.output.as_deref(), &result)
            }
            TasksVerb::Get | TasksVerb::List => show_task(context, &task.get().await?),
        }
    }
}

async fn list(context: &Context, client: &Client) -> Result<(), Fail> {
    let listed = client.tasks().await.map_err(|error| match error.kind {
        ErrorKind::CapabilityNotSupported => {
            Fail::from(error.with_message("This server does not list tasks"))
                .hint("`wharf call --detach` gives the id of a task: keep it.".to_owned())
        }
        _ => error.into(),
    });
    let (tasks, out) = (listed?, context.out);
    if out.is_json() {
        let tasks: Vec<_> = tasks.iter().map(task_json).collect();
        return out.json(&json!({"tasks": tasks}));
    }
    out.lines(&task_table(&tasks, out.columns(), out.paint()))
}

/// Shows the state of the task after `tasks/cancel`, which may take effect later.
async fn cancel(context: &Context, task: &TaskHandle) -> Result<(), Fail> {
    task.cancel().await?;
    match task.get().await {
        Ok(task) => show_task(context, &task),
        // Servers may remove cancelled tasks.
        Err(_) if context.out.is_json() => context.out.json(&json!({"taskId": task.id()})),
        Err(_) => context.out.lines(&["cancelled".to_owned()]),
    }
}

async fn watch(context: &Context, task: &TaskHandle) -> Result<(), Fail> {
    let mut changes = task.changes();
    let mut last = None;
    while let Some(task) = changes.next().await {
        let task = task?;
        context.out.lines(&[line(context, &task)])?;
        last = Some(task);
    }
    ended(context, last)
}

/// One line per task, for programs too: JSON output is read line by line.
fn line(context: &Context, task: &Task) -> String {
    let out = context.out;
    if !out.is_json() {
        return task_line(task, out.paint());
    }
    let line = task_json(task).to_string();
    if out.is_terminal() { clean_json(&line).into_owned() } else { line }
}

/// Exit result of a watched task.
fn ended(context: &Context, last: Option<Task>) -> Result<(), Fail> {
    match last.map(|task| task.state) {
        Some(TaskState::Completed(result)) if result.is_error => {
            Err(failed(&result, context.out.is_json()))
        }
        Some(TaskState::Failed(error)) => Err((*error).into()),
        Some(TaskState::Cancelled) => Err(wharf::Error::new(ErrorKind::TaskCancelled).into()),
        _ => Ok(()),
    }
}

fn show_task(context: &Context, task: &Task) -> Result<(), Fail> {
    let out = context.out;
    match out.is_json() {
        true => out.json(&task_json(task)),
        false => out.lines(&task_lines(task, out.paint())),
    }
}
