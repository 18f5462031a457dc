//! Tasks, formatted for people.

use wharf::{
    model::ClientRequest,
    tasks::{Task, TaskState, TaskStatus},
};

use super::result_lines;
use crate::terminal::{Paint, clean_line, cut, table};

/// Maximum length of a text on one line.
const MAX_LINE_CHARS: usize = 300;

/// Table with one row per task.
pub(crate) fn task_table(tasks: &[Task], columns: usize, paint: Paint) -> Vec<String> {
    let row = |task: &Task| {
        let created = task.created_at.to_string();
        vec![short(&task.id), task.status().as_str().to_owned(), created, message(task)]
    };
    let mut lines = vec![paint.cyan(&format!("Tasks ({})", tasks.len()))];
    if !tasks.is_empty() {
        let rows: Vec<_> = tasks.iter().map(row).collect();
        lines.extend(table(&["ID", "STATUS", "CREATED", "MESSAGE"], &rows, columns, paint));
    }
    lines
}

/// Line with the time of the last change, the status and its message.
pub(crate) fn task_line(task: &Task, paint: Paint) -> String {
    let line = format!("{}  {}  {}", task.updated_at, status(task, paint), message(task));
    line.trim_end().to_owned()
}

/// Complete description of one task, with its result or input requests.
pub(crate) fn task_lines(task: &Task, paint: Paint) -> Vec<String> {
    let kept = task.ttl.map_or_else(|| "for ever".to_owned(), |ttl| format!("{} s", ttl / 1000));
    let facts = [
        ("id", short(&task.id)),
        ("status", status(task, paint)),
        ("message", message(task)),
        ("created", task.created_at.to_string()),
        ("updated", task.updated_at.to_string()),
        ("kept", kept),
    ];
    let known = facts.into_iter().filter(|(_, value)| !value.is_empty());
    let mut lines: Vec<String> = known
        .map(|(name, value)| format!("{} {value}", paint.dim(&format!("{name:<8}"))))
        .collect();
    match &task.state {
        TaskState::InputRequired(asks) => lines.extend(asks.iter().map(|(key, ask)| {
            format!("{} {}: {}", paint.dim("asks    "), short(key), question(ask))
        })),
        TaskState::Completed(result) => {
            lines.push(String::new());
            lines.extend(result_lines(result, paint));
        }
        TaskState::Failed(error) => {
            lines.push(format!("{} {}", paint.red("error:  "), short(&error.message)));
        }
        _ => {}
    }
    lines
}

fn status(task: &Task, paint: Paint) -> String {
    let status = task.status();
    let word = status.as_str();
    match status {
        TaskStatus::Completed => paint.cyan(word),
        TaskStatus::Failed | TaskStatus::Cancelled => paint.red(word),
        _ => paint.yellow(word),
    }
}

fn message(task: &Task) -> String {
    task.message.as_deref().map(short).unwrap_or_default()
}

fn question(ask: &ClientRequest) -> String {
    match ask {
        ClientRequest::Elicit(form) => short(&form.message),
        ClientRequest::ElicitUrl(page) => short(&page.message),
        other => other.method().name().to_owned(),
    }
}

fn short(text: &str) -> String {
    cut(&clean_line(text), MAX_LINE_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wharf::{ToolResult, tasks::Timestamp};

    fn task(state: TaskState) -> Task {
        let mut task = Task::new("t-\x1b[2J1", Timestamp::from_millis(1_764_066_600_000));
        task.state = state;
        task.message = Some("two\nlines".into());
        task
    }

    #[test]
    fn task_descriptions_have_no_escape_sequences() {
        let lines = task_lines(&task(TaskState::Working), Paint::PLAIN);
        assert_eq!(lines[0], "id       t-\\x1b[2J1");
        assert_eq!(lines[1], "status   working");
        assert!(lines[2].starts_with("message  two"), "{}", lines[2]);
        assert!(lines.iter().all(|line| !line.contains('\n')));
        let done = TaskState::Completed(Box::new(ToolResult::text("at last")));
        let lines = task_lines(&task(done), Paint::PLAIN);
        assert_eq!(lines.last().map(String::as_str), Some("at last"));
    }

    #[test]
    fn a_task_change_is_one_line() {
        let line = task_line(&task(TaskState::Cancelled), Paint::PLAIN);
        assert!(line.starts_with("2025-11-25T10:30:00Z  cancelled  two"), "{line}");
        assert!(!line.contains('\n'));
    }

    #[test]
    fn task_lists_are_a_table() {
        let lines = task_table(&[task(TaskState::Working)], 80, Paint::PLAIN);
        assert_eq!((lines.len(), &*lines[0]), (3, "Tasks (1)"));
        assert_eq!(task_table(&[], 80, Paint::PLAIN), ["Tasks (0)"]);
    }
}
