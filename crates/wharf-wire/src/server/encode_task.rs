//! Encodes tasks for each revision.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use wharf_model::{
    Content, Error, ErrorKind, Method, Reply, Task, TaskState, TaskStatus, ToolResult, excerpt,
};

use crate::{
    Codec, Revision,
    json::{writer, writer::ObjectWriter},
    server::{
        codec::CodecRole, encode::write_members, encode_error, tool_result_or_error::is_tool_result,
    },
    versions::revision::Feature,
};

/// Key in `_meta` that names the task of a message.
pub(crate) const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// Names of the time fields of a task.
pub(crate) struct TaskFieldNames {
    pub(crate) ttl: &'static str,
    pub(crate) poll_interval: &'static str,
}

impl TaskFieldNames {
    pub(crate) fn of(revision: Revision) -> Self {
        match revision.has(Feature::TaskRequests) {
            true => TaskFieldNames { ttl: "ttl", poll_interval: "pollInterval" },
            false => TaskFieldNames { ttl: "ttlMs", poll_interval: "pollIntervalMs" },
        }
    }
}

impl Codec {
    /// Writes the result of a call that became a task; returns the HTTP status.
    pub(crate) fn task_created(&self, task: &Task, out: &mut Vec<u8>) -> u16 {
        if let CodecRole::TaskOwner(owner) = &self.role {
            owner.follow(task, self.wire.limits.subscriptions);
        }
        let mut message = ObjectWriter::open(out);
        message.plain("jsonrpc", "\"2.0\"");
        message.plain("id", self.id_json());
        let mut result = message.object("result");
        if self.revision.has(Feature::TaskRequests) {
            let mut inner = result.object("task");
            self.write_task(task, &mut inner);
            inner.close();
        } else {
            result.plain("resultType", "\"task\"");
            self.write_task(task, &mut result);
        }
        self.write_meta(&mut result, None);
        result.close();
        message.close();
        200
    }

    /// Writes the reply to `tasks/cancel`: an error if the task had ended, in revisions that require one.
    pub(crate) fn task_cancelled(
        &self,
        reply: &Reply,
        task: &Task,
        too_late: bool,
        out: &mut Vec<u8>,
    ) -> u16 {
        match too_late && self.revision.has(Feature::TaskRequests) {
            true => self.refuse(&self.too_late(task), out),
            false => self.complete(reply, out),
        }
    }

    /// Error for cancelling a task that has ended.
    fn too_late(&self, task: &Task) -> Error {
        let status = self.reported_status(task).0.as_str();
        Error::new(ErrorKind::TaskAlreadyCompleted)
            .with_message(format!("Cannot cancel task: already in terminal status '{status}'"))
    }

    /// Writes the reply to a task method; other replies have no fields.
    pub(crate) fn write_task_reply(&self, reply: &Reply, result: &mut ObjectWriter<'_>) {
        match reply {
            Reply::Task(task) => self.write_whole_task(task, result),
            Reply::TaskCancelled { task, .. } if self.revision.has(Feature::TaskRequests) => {
                self.write_task(task, result);
            }
            Reply::TaskList { tasks, next } => {
                writer::array(result.key("tasks"), tasks, |out, task| {
                    let mut object = ObjectWriter::open(out);
                    self.write_task(task, &mut object);
                    object.close();
                });
                if let Some(next) = next {
                    result.text("nextCursor", next);
                }
            }
            _ => {}
        }
    }

    /// Writes the fields that every task has.
    pub(crate) fn write_task(&self, task: &Task, object: &mut ObjectWriter<'_>) {
        let (status, message) = self.reported_status(task);
        object.text("taskId", &task.id);
        object.text("status", status.as_str());
        if let Some(message) = message {
            object.text("statusMessage", &message);
        }
        object.text("createdAt", &task.created_at.to_string());
        object.text("lastUpdatedAt", &task.updated_at.to_string());
        let names = TaskFieldNames::of(self.revision);
        match task.ttl {
            Some(ttl) => writer::integer(object.key(names.ttl), ttl),
            None => object.plain(names.ttl, "null"),
        }
        if let Some(interval) = task.poll_interval {
            writer::integer(object.key(names.poll_interval), interval);
        }
    }

    /// Writes a task and, unless the result is a separate call, the fields of its state.
    pub(crate) fn write_whole_task(&self, task: &Task, object: &mut ObjectWriter<'_>) {
        self.write_task(task, object);
        if self.revision.has(Feature::TaskRequests) {
            return;
        }
        match &task.state {
            TaskState::InputRequired(requests) => self.write_requests(requests, object),
            TaskState::Completed(result) => self.write_inner_result(result, object),
            TaskState::Failed(error) if self.is_tool_result(error) => {
                self.write_inner_result(&ToolResult::error(&*error.message), object);
            }
            TaskState::Failed(error) => {
                let body = object.object("error");
                encode_error::write_fields(body, self.wire.profile, error, self.revision);
            }
            _ => {}
        }
    }

    /// Writes the result that the call would have had.
    fn write_inner_result(&self, it: &ToolResult, object: &mut ObjectWriter<'_>) {
        let mut inner = object.object("result");
        inner.plain("resultType", "\"complete\"");
        let (_, user) = self.write_tool_result(it, &mut inner);
        let mut has_user_meta = false;
        if let Some(user) = user {
            user.each_member(|name, _| has_user_meta |= name != RELATED_TASK);
        }
        if let Some(user) = user.filter(|_| has_user_meta) {
            let mut meta = inner.object("_meta");
            write_members(&mut meta, user, &[RELATED_TASK]);
            meta.close();
        }
        inner.close();
    }

    /// Returns whether this error of a tool is reported as a result for the model.
    fn is_tool_result(&self, error: &Error) -> bool {
        is_tool_result(error.kind, Method::CallTool, self.revision)
    }

    /// Returns the status and status message in the form of the revision.
    fn reported_status<'a>(&self, task: &'a Task) -> (TaskStatus, Option<Cow<'a, str>>) {
        let own = task.message.as_deref().map(Cow::Borrowed);
        match &task.state {
            // Where the result is a separate call, the status has to show that the tool failed.
            TaskState::Completed(result)
                if result.is_error && self.revision.has(Feature::TaskRequests) =>
            {
                (TaskStatus::Failed, own.or_else(|| Some(failure_text(result))))
            }
            TaskState::Failed(error)
                if self.is_tool_result(error) && !self.revision.has(Feature::TaskRequests) =>
            {
                (TaskStatus::Completed, own)
            }
            TaskState::Failed(error) => {
                (TaskStatus::Failed, own.or_else(|| Some(excerpt(&error.message))))
            }
            _ => (task.status(), own),
        }
    }

    /// Returns the id (as JSON) of the task that all messages of this call belong to.
    pub(crate) fn related_task(&self) -> Option<&str> {
        match self.method {
            Method::TaskResult => self.target.of(&self.body),
            _ => None,
        }
    }

    /// Adds the related task to the parameters of a server-to-client request.
    pub(crate) fn add_related_task(&self, params: &mut Value) {
        let id = self.related_task().and_then(|json| serde_json::from_str::<Value>(json).ok());
        let Some(id) = id else { return };
        if params.is_null() {
            *params = Map::new().into();
        }
        let Value::Object(fields) = params else { return };
        let meta = fields.entry("_meta").or_insert_with(|| Map::new().into());
        if let Value::Object(meta) = meta {
            meta.insert(RELATED_TASK.into(), json!({"taskId": id}));
        }
    }
}

/// Writes the related task; `id` is JSON text.
pub(crate) fn write_related(meta: &mut ObjectWriter<'_>, id: &str) {
    let mut related = meta.object(RELATED_TASK);
    related.plain("taskId", id);
    related.close();
}

/// Returns a short text about the failure that a result reports.
fn failure_text(result: &ToolResult) -> Cow<'_, str> {
    let texts = result.content.iter().filter_map(|item| match item {
        Content::Text(it) => Some(it.text.trim()),
        _ => None,
    });
    match texts.into_iter().find(|text| !text.is_empty()) {
        Some(text) => excerpt(text),
        None => Cow::Borrowed(ErrorKind::ToolExecutionFailed.message()),
    }
}
