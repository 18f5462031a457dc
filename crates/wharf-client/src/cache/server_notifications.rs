//! Notifications of the server: cached results and tools are dropped when they changed (`list_changed`, `resources/updated`),
//! and those of extensions go to their handlers.

use std::panic::{AssertUnwindSafe, catch_unwind};

use wharf_model::{CustomNotification, Method, Notification};

use crate::{
    NotificationListener,
    cache::server_state::{CachedState, ServerState},
};

impl ServerState {
    /// Passes a notification that an extension declares to the handler.
    fn custom(&self, it: &CustomNotification) {
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
