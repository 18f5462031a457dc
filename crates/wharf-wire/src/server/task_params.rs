//! Task parameters of a request.

use memchr::memchr2_iter;
use wharf_model::{Error, Method, TASKS_EXTENSION, TaskRequest};

use crate::{
    json::{
        field_spans::{MessageField, unquote},
        scanner,
    },
    server::message::{Message, invalid_field},
};

impl Message {
    /// Returns the task request of a modern call, according to the declared capabilities.
    pub(crate) fn task_request_from_capabilities(&self) -> TaskRequest {
        match self.raw(MessageField::MetaCapabilities).is_some_and(declares_tasks) {
            true => TaskRequest::Welcome,
            false => TaskRequest::Declined,
        }
    }

    /// Returns the task request of a call in revision 2025-11-25, where `task` is a parameter.
    pub(crate) fn task_request_from_params(&self, method: Method) -> Result<TaskRequest, Error> {
        use Method::{CallTool, CancelTask, GetTask, ListTasks, TaskResult, UpdateTask};
        Ok(match method {
            CallTool if self.span(MessageField::Task).is_some() => {
                TaskRequest::Wanted(self.requested_ttl()?)
            }
            GetTask | UpdateTask | CancelTask | TaskResult | ListTasks => TaskRequest::Welcome,
            _ => TaskRequest::Declined,
        })
    }

    /// Returns the requested `ttl` of the task.
    fn requested_ttl(&self) -> Result<Option<u64>, Error> {
        self.require_object(MessageField::Task, "task")?;
        match self.raw(MessageField::Task).and_then(|task| member(task, "ttl")) {
            None | Some("null") => Ok(None),
            Some(json) => match parse_millis(json) {
                Some(ttl) => Ok(Some(ttl)),
                None => Err(invalid_field("task.ttl", "must be a non-negative number")),
            },
        }
    }
}

/// Returns whether the capabilities include the tasks extension.
fn declares_tasks(capabilities: &str) -> bool {
    capabilities.len() > TASKS_EXTENSION.len()
        && may_name_tasks(capabilities.as_bytes())
        && member(capabilities, "extensions")
            .is_some_and(|it| member(it, TASKS_EXTENSION).is_some())
}

/// Cheap test: returns false if the text cannot contain the name. Most clients have few capabilities.
fn may_name_tasks(json: &[u8]) -> bool {
    const NAME: &[u8] = b"tasks";
    const K: usize = 3;
    // `k` is a rare letter, and escapes may hide any.
    memchr2_iter(b'k', b'\\', json).any(|at| {
        let start = at.saturating_sub(K);
        json[at] == b'\\' || json[start..].starts_with(NAME)
    })
}

/// Returns the JSON text of a member of an object; of duplicates, the last one.
fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let mut found = None;
    let walked = scanner::each_member(object, |key, value| {
        if unquote(key).is_some_and(|key| key == name) {
            found = Some(value);
        }
    });
    walked.ok().and(found)
}

/// Parses milliseconds. Some clients write floating-point numbers.
pub(crate) fn parse_millis(json: &str) -> Option<u64> {
    let rounded = || {
        let number: f64 = json.parse().ok()?;
        // Too large numbers become the maximum.
        (number >= 0.0).then_some(number as u64)
    };
    json.parse().ok().or_else(rounded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_is_found_however_it_is_spelt() {
        for (capabilities, declared) in [
            (r#"{}"#, false),
            (r#"{"extensions":{}}"#, false),
            (r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#, true),
            (r#"{"extensions":{"io.modelcontextprotocol\/tasks":{}}}"#, true),
            (r#"{"extensions":{"io.modelcontextprotocol/t\u0061sks":{}}}"#, true),
            (r#"{"\u0065xtensions" : { "io.modelcontextprotocol/tasks" : {} } }"#, true),
            (r#"{"roots":{},"extensions":{"a/b":{},"io.modelcontextprotocol/tasks":{}}}"#, true),
            (r#"{"extensions":{"io.modelcontextprotocol/tasks2":{}}}"#, false),
            (r#"{"extensions":{"a":"io.modelcontextprotocol/tasks"}}"#, false),
            (r#"{"tasks":{"list":{}}}"#, false),
            (r#"{"experimental":{"io.modelcontextprotocol/tasks":{}}}"#, false),
            (r#"{"extensions":["io.modelcontextprotocol/tasks"]}"#, false),
            (r#"{"k":1}"#, false),
        ] {
            assert_eq!(declares_tasks(capabilities), declared, "{capabilities}");
        }
    }

    #[test]
    fn numbers_of_milliseconds() {
        for (json, read) in [
            ("0", Some(0)),
            ("60000", Some(60_000)),
            ("60000.0", Some(60_000)),
            ("1.5", Some(1)),
            ("1e3", Some(1000)),
            ("18446744073709551615", Some(u64::MAX)),
            ("1e300", Some(u64::MAX)),
            ("-0", Some(0)),
            ("-1", None),
            ("-1e300", None),
            ("\"60\"", None),
            ("true", None),
            ("{}", None),
            ("[]", None),
        ] {
            assert_eq!(parse_millis(json), read, "{json}");
        }
    }
}
