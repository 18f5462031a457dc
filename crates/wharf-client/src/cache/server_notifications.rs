//! Notifications of the server: cached results and tools are dropped when they changed (`list_changed`, `resources/updated`),
//! and those of extensions go to their handlers.

use std::panic::{AssertUnwindSafe, catch_unwind};

use wharf_model::{CustomNotification, Method, Notification, has_at_most};

use crate::{
    NotificationListener,
    cache::server_state::{CachedState, ServerState},
};

/// Maximum number of values in a notification of an extension: handlers read its parameters into a tree, which takes many
/// times the memory of their text.
const MAX_NOTIFICATION_VALUES: usize = 250_000;

impl ServerState {
    /// Passes a notification that an extension declares to the handler, unless it has too many values.
    fn custom(&self, it: &CustomNotification) {
        if !has_at_most(it.params.get(), MAX_NOTIFICATION_VALUES) {
            let limit = MAX_NOTIFICATION_VALUES;
            tracing::warn!(
                method = it.method,
                limit,
                "ignored a notification with too many values"
            );
            return;
        }
        if catch_unwind(AssertUnwindSafe(|| self.handler.notification(it))).is_err() {
            tracing::error!(method = it.method, "caught a panic in the handler of a notification");
        }
    }

    /// Handles a notification, on any stream.
    pub(crate) fn on_notification(&self, notification: &Notification) {
        match notification {
            Notification::ToolsChanged => {
                let mut state = self.lock();
                state.invalidate(&[Method::ListTools]);
                state.tools.clear();
            }
            Notification::PromptsChanged => self.lock().invalidate(&[Method::ListPrompts]),
            Notification::ResourcesChanged => {
                self.lock().invalidate(&[Method::ListResources, Method::ListTemplates]);
            }
            // The updated resource may be a part of the one that was read.
            Notification::ResourceUpdated { .. } => self.lock().invalidate(&[Method::ReadResource]),
            Notification::ElicitationComplete { id } => self.elicitation_completed(id),
            Notification::Custom(it) => self.custom(it),
            Notification::Progress { .. }
            | Notification::Log { .. }
            | Notification::Acknowledged(_)
            | Notification::Task(_)
            | Notification::TaskProgress { .. } => {}
        }
    }
}

impl CachedState {
    fn invalidate(&mut self, methods: &[Method]) {
        for method in methods {
            self.generations[*method as usize] += 1;
            self.cache.invalidate(*method);
        }
    }
}

impl NotificationListener for ServerState {
    fn on_notification(&self, notification: &Notification) {
        self.on_notification(notification);
    }
}
