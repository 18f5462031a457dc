//! Notifications of extensions, from the server to clients.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use serde::Serialize;
use wharf_model::{
    BudgetShare, ClientCapability, CustomNotification, Error, ErrorKind, Method, Notification,
    Request,
};

use crate::{
    builder::error::BuildError,
    router::{catalog::NotificationTable, state::ServerState},
};

/// Maximum number of pending custom notifications of one subscriber; a further one is dropped.
const MAX_PENDING: usize = 256;

/// Custom notifications that wait for one subscriber, in order.
#[derive(Default)]
pub(super) struct PendingCustom(VecDeque<(Box<CustomNotification>, BudgetShare)>);

impl PendingCustom {
    /// Adds a notification. Returns false if there is no room for it.
    pub(super) fn push(
        &mut self,
        notification: &CustomNotification,
        reserve: impl FnOnce(usize) -> Option<BudgetShare>,
    ) -> bool {
        let bytes = size_of::<CustomNotification>() + notification.heap_bytes();
        if self.0.len() >= MAX_PENDING {
            let method = notification.method.as_str();
            tracing::debug!(method, "dropped a notification: the subscriber reads too slowly");
            return false;
        }
        let Some(share) = reserve(bytes) else { return false };
        self.0.push_back((Box::new(notification.clone()), share));
        true
    }

    pub(super) fn pop(&mut self) -> Option<Notification> {
        self.0.pop_front().map(|(notification, _)| Notification::Custom(notification))
    }
}

/// Problem of a notification whose name cannot be that of an extension's notification.
pub(crate) const INVALID_NAME: &str = "a notification's name is a namespace, `/` and a name, such as `acme/progress`, without spaces, \
     and not one of the protocol: choose another";

/// Adds a notification that the extension `id` lets the server send.
pub(crate) fn declare(
    table: &mut NotificationTable,
    name: String,
    id: &str,
    problems: &mut BuildError,
) {
    let item = format!("notification `{name}`");
    if !Method::is_custom_notification(&name) {
        problems.add(&item, INVALID_NAME);
    }
    if table.insert(name, id.to_owned()).is_some() {
        problems.add(item, "it is declared twice: remove one");
    }
}

/// Builds a notification that an extension of the server declares.
pub(crate) fn build(
    server: &ServerState,
    method: &str,
    params: &impl Serialize,
) -> Result<CustomNotification, Error> {
    match server.notifications.get(method) {
        Some(extension) => CustomNotification::new(extension, method, params),
        None => Err(Error::new(ErrorKind::InternalError).with_message(format!(
            "No extension of this server declares the notification `{method}`: declare it with \
             `ProtocolExtension::notification`"
        ))),
    }
}

/// Returns the extensions with notifications that the client of a subscription declared.
pub(crate) fn declared_by(
    server: &ServerState,
    request: &Request,
) -> Option<Arc<BTreeSet<String>>> {
    if server.notifications.is_empty() {
        return None;
    }
    let peer = request.peer();
    let declared =
        |id: &&String| peer.capabilities.has(&ClientCapability::Extension((*id).clone()));
    let declared: BTreeSet<String> =
        server.notifications.values().filter(declared).cloned().collect();
    (!declared.is_empty()).then(|| Arc::new(declared))
}
