//! Encodes the notifications of a call or subscription, if the revision has them.

use std::borrow::Cow;

use wharf_model::{ClientCapability, Notification};

use crate::{
    Revision,
    json::{writer, writer::ObjectWriter},
    server::{custom_messages, encode_task},
    versions::revision::Feature,
};

use crate::server::codec::{Codec, CodecRole, SUBSCRIPTION_ID};

impl Codec {
    /// Writes a notification. Returns false, and writes nothing, if the revision does not have it here.
    pub fn notify(&self, notification: &Notification, out: &mut Vec<u8>) -> bool {
        let listening = self.has_subscription_id();
        // A legacy session receives task notifications outside of its calls.
        let owning = self.is_silent() && self.revision.has(Feature::TaskRequests);
        let fits = match notification {
            Notification::Progress { progress, total, .. } => {
                self.token.is_some() && is_finite(*progress, *total)
            }
            Notification::Task(_) => listening || owning,
            Notification::TaskProgress { progress, total, .. } => {
                owning && is_finite(*progress, *total)
            }
            Notification::Log { .. } => !listening,
            Notification::Acknowledged(_) => listening,
            Notification::ElicitationComplete { .. } => self.revision.has(Feature::ElicitationIds),
            Notification::Custom(it) => {
                self.client_can(&ClientCapability::Extension(it.extension.clone()))
            }
            Notification::ToolsChanged
            | Notification::PromptsChanged
            | Notification::ResourcesChanged
            | Notification::ResourceUpdated { .. } => {
                listening || self.revision.has(Feature::Sessions)
            }
        };
        if !fits {
            return false;
        }
        let method = notification_method(notification, self.revision);
        let mut message = ObjectWriter::open(out);
        message.plain("jsonrpc", "\"2.0\"");
        message.text("method", method);
        if listening || has_params(notification) {
            let mut params = message.object("params");
            match notification {
                Notification::Custom(it) => {
                    self.write_custom_params(notification, it, &mut params);
                }
                _ => {
                    self.write_related_meta(notification, None, &mut params);
                    self.write_params(notification, &mut params);
                }
            }
            params.close();
        }
        message.close();
        self.unfollow_ended_task(notification);
        true
    }

    /// Writes `_meta`: the sender's own members, and the subscription or task that a notification belongs to.
    pub(crate) fn write_related_meta(
        &self,
        notification: &Notification,
        own: Option<&str>,
        params: &mut ObjectWriter<'_>,
    ) {
        let related = match notification {
            _ if !self.revision.has(Feature::TaskRequests) => None,
            Notification::TaskProgress { id, .. } => Some(Cow::Owned(writer::as_json(id))),
            _ => self.related_task().map(Cow::Borrowed),
        };
        let subscription = self.has_subscription_id();
        if own.is_none() && related.is_none() && !subscription {
            return;
        }
        let mut meta = params.object("_meta");
        if let Some(own) = own {
            custom_messages::copy_meta(own, &mut meta);
        }
        if let Some(id) = related {
            encode_task::write_related(&mut meta, &id);
        }
        if subscription {
            meta.plain(SUBSCRIPTION_ID, self.id_json());
        }
        meta.close();
    }

    /// Removes a task that has ended from the session's subscription: it sends no more notifications.
    fn unfollow_ended_task(&self, notification: &Notification) {
        if let (CodecRole::SessionListen(listen), Notification::Task(task)) =
            (&self.role, notification)
            && task.status().is_terminal()
        {
            listen.filter.edit(|filter| filter.tasks.remove(&task.id));
        }
    }

    fn write_params(&self, notification: &Notification, params: &mut ObjectWriter<'_>) {
        match notification {
            Notification::Progress { progress, total, message } => {
                let token = self.token.of(&self.body).unwrap_or("null");
                self.write_progress(token, (*progress, *total), message.as_deref(), params);
            }
            Notification::TaskProgress { token, progress, total, message, .. } => {
                self.write_progress(token.get(), (*progress, *total), message.as_deref(), params);
            }
            Notification::Task(task) => self.write_whole_task(task, params),
            Notification::Log { level, logger, data } => {
                params.text("level", level.as_str());
                if let Some(logger) = logger {
                    params.text("logger", logger);
                }
                params.raw("data", data.get());
            }
            Notification::Acknowledged(filter) => params.json("notifications", filter),
            Notification::ResourceUpdated { uri } => params.text("uri", uri),
            Notification::ElicitationComplete { id } => params.text("elicitationId", id),
            Notification::ToolsChanged
            | Notification::PromptsChanged
            | Notification::ResourcesChanged
            | Notification::Custom(_) => {}
        }
    }

    fn write_progress(
        &self,
        token: &str,
        (progress, total): (f64, Option<f64>),
        message: Option<&str>,
        params: &mut ObjectWriter<'_>,
    ) {
        params.raw("progressToken", token);
        writer::number(params.key("progress"), progress);
        if let Some(total) = total {
            writer::number(params.key("total"), total);
        }
        if let Some(message) = message.filter(|_| self.revision.has(Feature::ProgressMessages)) {
            params.text("message", message);
        }
    }
}

fn notification_method(notification: &Notification, revision: Revision) -> &str {
    match notification {
        Notification::Progress { .. } | Notification::TaskProgress { .. } => {
            "notifications/progress"
        }
        Notification::Task(_) if revision.has(Feature::TaskRequests) => {
            "notifications/tasks/status"
        }
        Notification::Task(_) => "notifications/tasks",
        Notification::Log { .. } => "notifications/message",
        Notification::Acknowledged(_) => "notifications/subscriptions/acknowledged",
        Notification::ToolsChanged => "notifications/tools/list_changed",
        Notification::PromptsChanged => "notifications/prompts/list_changed",
        Notification::ResourcesChanged => "notifications/resources/list_changed",
        Notification::ResourceUpdated { .. } => "notifications/resources/updated",
        Notification::ElicitationComplete { .. } => "notifications/elicitation/complete",
        Notification::Custom(it) => &it.method,
    }
}

fn is_finite(progress: f64, total: Option<f64>) -> bool {
    progress.is_finite() && total.is_none_or(f64::is_finite)
}

fn has_params(notification: &Notification) -> bool {
    use Notification::{PromptsChanged, ResourcesChanged, ToolsChanged};
    !matches!(notification, ToolsChanged | PromptsChanged | ResourcesChanged)
}
