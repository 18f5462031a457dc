//! Notifies subscribers of task changes.

use wharf_model::{Notification, Principal};

use crate::{
    router::{catalog::ListedItem, state::ServerState},
    tasks::{
        storage::{owner::is_owner, record::TaskRecord},
        task_view,
    },
};

/// Hash of an id for the log. The id would give access to the task.
pub(crate) fn short_id(id: &str) -> String {
    wharf_model::hashed_id(id)
}

/// Notifies the subscribers that follow the task and own it.
pub(crate) fn notify_subscribers(server: &ServerState, record: &TaskRecord) {
    for notification in task_notifications(server, record) {
        let is_allowed = |principal: Option<&_>| {
            is_owner(principal, &record.owner) && may_see(server, principal, record)
        };
        server.subscription_table.publish(&notification, is_allowed);
    }
}

/// Returns whether the access to tasks can differ between tokens of one owner.
pub(crate) fn depends_on_caller(server: &ServerState) -> bool {
    server.access.is_some() || server.catalog.load().lists.tools.is_scoped()
}

/// Returns whether a subscriber that owns the task may use its tool. Scopes of unauthenticated
/// subscribers are not checked here: that was done when the subscription started.
pub(super) fn may_see(
    server: &ServerState,
    principal: Option<&Principal>,
    record: &TaskRecord,
) -> bool {
    let catalog = server.catalog.load();
    let Some(tool) = catalog.lists.tools.get(&record.call.tool) else { return true };
    let access = server.access.as_ref();
    access.is_none_or(|access| access.allows(principal, tool.info.item()))
        && principal.is_none_or(|it| tool.scopes.iter().all(|scope| it.has_scope(scope)))
}

/// Progress, if its owner requested it, and the status.
fn task_notifications(
    server: &ServerState,
    record: &TaskRecord,
) -> impl Iterator<Item = Notification> {
    progress(record)
        .into_iter()
        .chain([Notification::Task(Box::new(task_view::task(server, record)))])
}

fn progress(record: &TaskRecord) -> Option<Notification> {
    let (progress, total) = record.progress?;
    let (id, token) = (record.id.clone(), record.progress_token()?);
    let message = record.message.clone().filter(|_| record.end.is_none());
    Some(Notification::TaskProgress { id, token, progress, total, message })
}
