//! Tasks in both dialects: requested by a parameter (2025-11-25), and by extension (2026-07-28).

mod client;
mod notifications;
mod replies;
mod requests;
mod round_trip;

use serde_json::{Value, json};
use wharf_model::{Discovery, Task, TaskState, Timestamp};
use wharf_wire::{Codec, Connection};

use crate::common::*;

/// Revision in which `task` is a parameter of a call.
const TASK_PARAM_REVISION: &str = "2025-11-25";
const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// Returns the discovery result of a server with tasks.
fn discovery_with_tasks() -> Discovery {
    let mut discovery = discovery();
    let tasks = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
    discovery.capabilities.tasks = serde_json::from_value(tasks).unwrap();
    discovery.capabilities = discovery.capabilities.extension(TASKS_EXTENSION, Default::default());
    discovery
}

/// Opens a session with a server that has tasks.
fn session(version: &str) -> Connection {
    let mut connection = connection();
    open_with(&mut connection, version, json!({}), discovery_with_tasks());
    connection
}

/// Builds a modern request of a client that supports tasks.
fn request_with_tasks(method: &str, mut params: Value) -> Value {
    let capabilities = json!({"extensions": {TASKS_EXTENSION: {}}});
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    modern(7, method, params)
}

/// Returns the codec of a call of a client that supports tasks.
fn codec_of(version: &str, method: &str, params: Value) -> Codec {
    if version == MODERN {
        return call(receive(&mut connection(), &request_with_tasks(method, params))).1;
    }
    call(receive(&mut session(version), &request(7, method, params))).1
}

/// Returns the codec of a tool call that may become a task.
fn task_call_codec(version: &str) -> Codec {
    match version == MODERN {
        true => codec_of(MODERN, "tools/call", json!({"name": "t"})),
        false => codec_of(version, "tools/call", json!({"name": "t", "task": {}})),
    }
}

/// Returns a task with all fields.
fn task(state: TaskState) -> Task {
    let born = Timestamp::from_millis(1_764_066_600_000);
    let mut task = Task::new("786512e2", born);
    task.state = state;
    task.updated_at = Timestamp::from_millis(1_764_067_200_500);
    task.ttl = Some(60_000);
    task.poll_interval = Some(5000);
    task
}

/// Returns the fields of `task` with this status, in the form of the dialect.
fn fields(version: &str, status: &str) -> Value {
    let mut fields = json!({
        "taskId": "786512e2", "status": status,
        "createdAt": "2025-11-25T10:30:00Z", "lastUpdatedAt": "2025-11-25T10:40:00.500Z",
    });
    let [ttl, interval] = match version == MODERN {
        true => ["ttlMs", "pollIntervalMs"],
        false => ["ttl", "pollInterval"],
    };
    fields[ttl] = json!(60_000);
    fields[interval] = json!(5000);
    fields
}

/// Merges two objects.
fn with(mut fields: Value, more: Value) -> Value {
    for (key, value) in more.as_object().unwrap() {
        fields[key] = value.clone();
    }
    fields
}

/// Removes the metadata that every modern result has.
fn bare(mut result: Value) -> Value {
    let meta = result.as_object_mut().unwrap().remove("_meta");
    assert_eq!(
        meta,
        Some(json!({
            "io.modelcontextprotocol/serverInfo": {"name": "harbour", "version": "1.0.0"}
        }))
    );
    result
}
