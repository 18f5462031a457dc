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
    cli::{Tasks, TasksCommand},
    context::Context,
    error::CliError,
    show::{task_line, task_lines, task_table},
    target_argument,
    terminal::clean_json,
};

/// Practically unlimited: the user can end the wait.
const YEAR: Duration = Duration::from_hours(8760);

impl Run for Tasks {
    async fn run(&self, context: &Context) -> Result<(), CliError> {
        let words = [&self.first, &self.second].into_iter().flatten().cloned().collect();
        let (target, words) = target_argument::split(words, &context.shared.command)?;
        if self.output.is_some() && self.what != TasksCommand::Resume {
            return Err(CliError::usage("--output is for `wharf tasks resume`"));
        }
        let id = match (self.what, &words[..]) {
            (TasksCommand::List, []) => {
                let client = context.connect(target).await?;
                return list(context, client).await;
            }
            (TasksCommand::List, [word, ..]) | (_, [_, word, ..]) => {
                return Err(CliError::usage(format!("`{word}` is an unexpected argument")));
            }
            (_, []) => {
                return Err(CliError::usage("No task id is given")
                    .hint("`wharf call --detach` gives its id.".to_owned()));
            }
            (_, [id]) => id,
        };
        let task = context.connect(target).await?.task(id);
        match self.what {
            TasksCommand::Cancel => cancel(context, &task).await,
            TasksCommand::Watch => watch(context, &task).await,
            TasksCommand::Resume => {
                let result = context.watch(task.wait().total(YEAR)).await?;
                show(context, self.output.as_deref(), &result)
            }
            TasksCommand::Get | TasksCommand::List => show_task(context, &task.get().await?),
        }
    }
}

async fn list(context: &Context, client: &Client) -> Result<(), CliError> {
    let listed = client.tasks().await.map_err(|error| match error.kind() {
        kind @ ErrorKind::CapabilityNotSupported => {
            CliError::of_kind(kind, "This server does not list tasks")
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
async fn cancel(context: &Context, task: &TaskHandle) -> Result<(), CliError> {
    task.cancel().await?;
    match task.get().await {
        Ok(task) => show_task(context, &task),
        // Servers may remove cancelled tasks.
        Err(_) if context.out.is_json() => context.out.json(&json!({"taskId": task.id()})),
        Err(_) => context.out.lines(&["cancelled".to_owned()]),
    }
}

async fn watch(context: &Context, task: &TaskHandle) -> Result<(), CliError> {
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

/// Exit status for a watched task.
fn ended(context: &Context, last: Option<Task>) -> Result<(), CliError> {
    match last.map(|task| task.state) {
        Some(TaskState::Completed(result)) if result.is_error => {
            Err(failed(&result, context.out.is_json()))
        }
        Some(TaskState::Failed(error)) => Err((*error).into()),
        Some(TaskState::Cancelled) => Err(wharf::Error::new(ErrorKind::TaskCancelled).into()),
        _ => Ok(()),
    }
}

fn show_task(context: &Context, task: &Task) -> Result<(), CliError> {
    let out = context.out;
    match out.is_json() {
        true => out.json(&task_json(task)),
        false => out.lines(&task_lines(task, out.paint())),
    }
}
