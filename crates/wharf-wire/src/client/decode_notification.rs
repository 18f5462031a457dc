//! Decodes the notifications of a server.

use serde::Deserialize;
use serde_json::value::RawValue;
use wharf_model::{CustomNotification, LogLevel, Notification, SubscriptionFilter};

use crate::client::{ClientCodec, ServerNotification, read_object};
use crate::{CallId, json::field_spans::unquote, versions::revision::Feature};

/// Reads a notification from its method and the JSON text of its parameters. None if it is unknown or
/// malformed: notifications have no error response.
pub(super) fn read(codec: &ClientCodec, method: &str, params: &str) -> Option<ServerNotification> {
    let notification = match method {
        "notifications/progress" => progress(codec, params)?,
        "notifications/message" => log(params)?,
        "notifications/tools/list_changed" => Notification::ToolsChanged,
        "notifications/prompts/list_changed" => Notification::PromptsChanged,
        "notifications/resources/list_changed" => Notification::ResourcesChanged,
        "notifications/resources/updated" => updated(params)?,
        "notifications/subscriptions/acknowledged" => acknowledged(params)?,
        "notifications/elicitation/complete" => elicitation_complete(params)?,
        _ => match codec.task_notification(method, params) {
            Some(notification) => notification,
            None => custom(codec, method, params)?,
        },
    };
    let NotificationTarget { token, meta } = fields(params).unwrap_or_default();
    let subscription = meta.and_then(|meta| fields::<SubscriptionMeta<'_>>(meta.get())?.id);
    Some(ServerNotification {
        notification,
        token: token.and_then(id),
        subscription: subscription.and_then(id),
    })
}

/// Reads a notification that an extension of the client declares.
fn custom(codec: &ClientCodec, method: &str, params: &str) -> Option<Notification> {
    let mut declared = codec.client.notifications.iter();
    let (method, extension) = declared.find(|(name, _)| name == method)?;
    let params: &RawValue = fields(params)?;
    CustomNotification::new(extension, method, params).ok().map(Box::new).map(Notification::Custom)
}

/// Call or subscription that a notification belongs to.
#[derive(Default, Deserialize)]
struct NotificationTarget<'a> {
    #[serde(rename = "progressToken", borrow)]
    token: Option<&'a RawValue>,
    #[serde(rename = "_meta", borrow)]
    meta: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct SubscriptionMeta<'a> {
    #[serde(rename = "io.modelcontextprotocol/subscriptionId", borrow)]
    id: Option<&'a RawValue>,
}

/// Reads an id: an integer, or a string that can be decoded.
fn id(raw: &RawValue) -> Option<CallId> {
    let json = raw.get();
    let is_integer = || json.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let is_id = if json.starts_with('"') { unquote(json).is_some() } else { is_integer() };
    is_id.then(|| CallId::canonical(json.into()))
}

/// Progress of a call, or of a task that continues under the progress token of its call.
fn progress(codec: &ClientCodec, params: &str) -> Option<Notification> {
    #[derive(Deserialize)]
    struct Fields {
        progress: f64,
        total: Option<f64>,
        message: Option<String>,
    }
    let Fields { progress, total, message } = fields(params)?;
    let NotificationTarget { token, meta } = fields(params).unwrap_or_default();
    let task = meta.filter(|_| codec.revision.has(Feature::TaskRequests)).and_then(related_task);
    Some(match (task, token) {
        (Some(id), Some(token)) => {
            let token = token.to_owned();
            Notification::TaskProgress { id, token, progress, total, message }
        }
        _ => Notification::Progress { progress, total, message },
    })
}

fn related_task(meta: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct TaskMeta<'a> {
        #[serde(rename = "io.modelcontextprotocol/related-task", borrow)]
        task: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct RelatedTask {
        #[serde(rename = "taskId")]
        id: String,
    }
    let task = fields::<TaskMeta<'_>>(meta.get())?.task?;
    fields(task.get()).map(|RelatedTask { id }| id)
}

fn log(params: &str) -> Option<Notification> {
    #[derive(Deserialize)]
    struct Fields {
        level: String,
        logger: Option<String>,
        data: Box<RawValue>,
    }
    let Fields { level, logger, data } = fields(params)?;
    // A message with an unknown level is kept.
    let level = level.parse().unwrap_or(LogLevel::Info);
    Some(Notification::Log { level, logger, data })
}

fn updated(params: &str) -> Option<Notification> {
    #[derive(Deserialize)]
    struct Fields {
        uri: String,
    }
    fields(params).map(|Fields { uri }| Notification::ResourceUpdated { uri: uri.into() })
}

fn acknowledged(params: &str) -> Option<Notification> {
    #[derive(Deserialize)]
    struct Fields {
        notifications: SubscriptionFilter,
    }
    fields(params).map(|Fields { notifications }| Notification::Acknowledged(notifications))
}

fn elicitation_complete(params: &str) -> Option<Notification> {
    #[derive(Deserialize)]
    struct Fields {
        #[serde(rename = "elicitationId")]
        id: String,
    }
    fields(params).map(|Fields { id }| Notification::ElicitationComplete { id })
}

fn fields<'a, T: Deserialize<'a>>(json: &'a str) -> Option<T> {
    read_object(json).ok()
}
