//! Tasks in the JSON format of the canonical protocol.

use serde_json::{Map, Value, json};
use wharf_model::{ClientRequest, Error, Task, TaskState};

/// A task in the JSON format of the canonical protocol, with its result, its error or its open
/// input requests.
///
/// ```
/// # mod wharf { pub use wharf_client::*; pub mod tasks { pub use super::*; } }
/// use wharf_model::{Task, Timestamp};
///
/// let task = Task::new("t-1", Timestamp::from_millis(0));
/// assert_eq!(wharf::tasks::task_json(&task)["status"], "working");
/// ```
#[must_use]
pub fn task_json(task: &Task) -> Value {
    let mut json = json!({
        "taskId": task.id,
        "status": task.status().as_str(),
        "createdAt": task.created_at.to_string(),
        "lastUpdatedAt": task.updated_at.to_string(),
        "ttlMs": task.ttl,
    });
    if let Some(message) = &task.message {
        json["statusMessage"] = json!(message);
    }
    if let Some(interval) = task.poll_interval {
        json["pollIntervalMs"] = json!(interval);
    }
    match &task.state {
        TaskState::Completed(result) => json["result"] = json!(result),
        TaskState::Failed(error) => json["error"] = error_json(error),
        TaskState::InputRequired(requests) => json["inputRequests"] = asks_json(requests),
        _ => {}
    }
    json
}

/// Input requests, by key.
pub(crate) fn asks_json(requests: &[(String, ClientRequest)]) -> Value {
    let ask = |ask: &ClientRequest| {
        let params = match ask {
            ClientRequest::Elicit(form) => json!(form),
            ClientRequest::ElicitUrl(page) => json!(page),
            ClientRequest::Sample(request) => json!(request),
            _ => json!({}),
        };
        json!({"method": ask.method().name(), "params": params})
    };
    requests.iter().map(|(key, it)| (key.clone(), ask(it))).collect::<Map<_, _>>().into()
}

fn error_json(error: &Error) -> Value {
    let code = error.code.or(error.kind.registry_code());
    let mut json = json!({"message": error.message, "reason": error.kind.name()});
    if let Some(code) = code {
        json["code"] = json!(code);
    }
    if let Some(data) = &error.data {
        json["data"] = (**data).clone();
    }
    json
}
