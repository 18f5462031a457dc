//! Decodes the tasks of a server.

use std::str::FromStr;

use wharf_model::{
    Error, ErrorKind, Method, Notification, Reply, Task, TaskState, TaskStatus, Timestamp, excerpt,
};

use super::{
    ClientCodec,
    decode_result::{MAX_PAGE_ITEMS, ResultReader},
    read_object,
};
use crate::{
    json::{field_spans::unquote, scanner},
    server::{decode_error::read_error, encode_task::TaskFieldNames, task_params::parse_millis},
    versions::revision::Feature,
};

/// Maximum length of a task id in bytes: it is kept, and sent with every request about the task.
const MAX_TASK_ID_BYTES: usize = 1024;

impl ClientCodec {
    /// Reads a task notification; none if the revision does not have it, or if it is malformed.
    pub(super) fn task_notification(&self, method: &str, params: &str) -> Option<Notification> {
        let own = match self.revision.has(Feature::TaskRequests) {
            true => "notifications/tasks/status",
            false if self.has(Method::GetTask) => "notifications/tasks",
            false => return None,
        };
        let text = ResultReader { codec: self, method: Method::GetTask, json: params };
        let task = (method == own).then(|| text.task(params))?.ok()?;
        Some(Notification::Task(Box::new(task)))
    }
}

impl<'a> ResultReader<'a> {
    /// Reads the task that a call became, if it became one.
    pub(super) fn created_task(&self) -> Result<Option<Task>, Error> {
        if !self.codec.revision.has(Feature::TaskRequests) {
            return Ok(None);
        }
        // Tool results have `content`; a result with `task` instead is the handle of a task.
        match self.members(["task", "content"])? {
            [Some(task), None] => self.handle(task).map(Some),
            _ => Ok(None),
        }
    }

    /// Reads a task without the fields of its state, as a new task has none.
    pub(super) fn handle(&self, json: &'a str) -> Result<Task, Error> {
        let (mut task, status) = self.task_fields(json)?;
        task.state = self.state_from_status(status, task.message.as_deref());
        Ok(task)
    }

    /// Reads a task and, where the revision has them, the fields of its state.
    pub(crate) fn task(&self, json: &'a str) -> Result<Task, Error> {
        if self.codec.revision.has(Feature::TaskRequests) {
            return self.handle(json);
        }
        let (mut task, status) = self.task_fields(json)?;
        let [result, error, requests] = self.fields(json, ["result", "error", "inputRequests"])?;
        let missing = |name: &str| self.invalid(format!("missing `{name}`"));
        task.state = match status {
            TaskStatus::InputRequired => {
                let requests = requests.ok_or_else(|| missing("inputRequests"))?;
                TaskState::InputRequired(self.input_requests(requests)?)
            }
            TaskStatus::Completed => {
                let json = result.ok_or_else(|| missing("result"))?;
                self.within_bounds(json)?;
                let it = read_object(json).map_err(|problem| self.invalid(problem))?;
                TaskState::Completed(Box::new(self.strip_protocol_fields(it)))
            }
            TaskStatus::Failed => {
                let json = error.ok_or_else(|| missing("error"))?;
                if !json.starts_with('{') {
                    return Err(self.invalid("`error` must be an object"));
                }
                TaskState::Failed(Box::new(read_error(json, self.codec.revision)))
            }
            other => self.state_from_status(other, None),
        };
        Ok(task)
    }

    /// Derives the state from the status alone; the details have to be requested.
    fn state_from_status(&self, status: TaskStatus, message: Option<&str>) -> TaskState {
        match status {
            TaskStatus::Working => TaskState::Working,
            TaskStatus::InputRequired => TaskState::InputRequired(Vec::new()),
            TaskStatus::Completed => TaskState::Completed(Box::default()),
            TaskStatus::Failed => {
                let error = Error::new(ErrorKind::TaskFailed);
                TaskState::Failed(Box::new(match message {
                    Some(message) => error.with_message(message.to_owned()),
                    None => error,
                }))
            }
            TaskStatus::Cancelled => TaskState::Cancelled,
        }
    }

    /// Reads the common fields of a task, and its status.
    fn task_fields(&self, json: &'a str) -> Result<(Task, TaskStatus), Error> {
        let names = TaskFieldNames::of(self.codec.revision);
        let [id, status, message, created, updated, ttl, interval] = self.fields(
            json,
            [
                "taskId",
                "status",
                "statusMessage",
                "createdAt",
                "lastUpdatedAt",
                names.ttl,
                names.poll_interval,
            ],
        )?;
        let id = self.text(id, "taskId")?;
        if id.is_empty() || id.len() > MAX_TASK_ID_BYTES {
            return Err(self.invalid(format!("`taskId` must have 1 to {MAX_TASK_ID_BYTES} bytes")));
        }
        let status: TaskStatus = self.text_as(status, "status")?;
        let mut task = Task::new(id, self.text_as(created, "createdAt")?);
        task.updated_at = match updated {
            Some(_) => self.text_as::<Timestamp>(updated, "lastUpdatedAt")?,
            None => task.created_at,
        };
        task.message = message.map(|_| self.text(message, "statusMessage")).transpose()?;
        let read = |json: Option<&str>, name: &str| match json.map(parse_millis) {
            None => Ok(None),
            Some(Some(millis)) => Ok(Some(millis)),
            Some(None) => Err(self.invalid(format!("`{name}` must be a number of milliseconds"))),
        };
        task.ttl = read(ttl, names.ttl)?;
        task.poll_interval = read(interval, names.poll_interval)?;
        Ok((task, status))
    }

    pub(crate) fn task_list(&self) -> Result<Reply, Error> {
        let [tasks, next] = self.members(["tasks", "nextCursor"])?;
        let tasks = tasks.ok_or_else(|| self.invalid("missing `tasks`"))?;
        let Ok(spans) = scanner::elements(tasks, u32::MAX, MAX_PAGE_ITEMS) else {
            return Err(self.invalid("`tasks` must be an array"));
        };
        if spans.len() > MAX_PAGE_ITEMS {
            return Err(self.too_many(MAX_PAGE_ITEMS, "items on one page"));
        }
        let texts = spans.iter().filter_map(|span| span.of(tasks));
        let next = next.map(|json| self.parse(json, "nextCursor")).transpose()?;
        Ok(Reply::TaskList {
            tasks: texts.map(|json| self.handle(json)).collect::<Result<_, _>>()?,
            next,
        })
    }

    /// Reads the result of cancelling a task. Without task requests it has no fields of the task, so the task is
    /// empty.
    pub(crate) fn task_cancelled(&self) -> Result<Reply, Error> {
        let task = match self.codec.revision.has(Feature::TaskRequests) {
            true => self.handle(self.json)?,
            false => Task::new("", Timestamp::default()),
        };
        Ok(Reply::TaskCancelled { task: Box::new(task), too_late: false })
    }

    fn text(&self, json: Option<&str>, name: &str) -> Result<String, Error> {
        let text = json.and_then(unquote);
        text.map(Into::into).ok_or_else(|| self.invalid(format!("`{name}` must be a string")))
    }

    fn text_as<T: FromStr>(&self, json: Option<&str>, name: &str) -> Result<T, Error> {
        let text = self.text(json, name)?;
        text.parse().map_err(|_| self.invalid(format!("unknown `{name}` {:?}", excerpt(&text))))
    }
}
