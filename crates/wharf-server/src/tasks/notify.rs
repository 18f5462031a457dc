//! Tells listeners of tasks.

use wharf_model::{Notification, Principal, Task};

use crate::{
    router::{catalog::ListedItem, state::ServerState},
    tasks::{storage, storage::record::TaskRecord},
};

/// As much of an id as a log may have: whoever knows all of it may read the task.
pub(crate) fn short_id(id: &str) -> &str {
    id.get(..6).unwrap_or_default()
}

/// Tells everybody who follows the task and owns it.
pub(crate) fn notify_subscribers(server: &ServerState, record: &TaskRecord) {
    for notification in task_notifications(server, record) {
        let may_hear = |principal: Option<&_>| {
            storage::is_owner(principal, &record.owner) && may_see(server, principal, record)
        };
        server.subscription_table.publish(&notification, may_hear);
    }
}

/// Whether some of an owner's tokens may be good for less than others.
pub(crate) fn depends_on_caller(server: &ServerState) -> bool {
    server.access.is_some() || server.catalog.load().lists.tools.is_scoped()
}

/// Whether a listener who owns the task may use its tool. Nobody's task is followed by whoever may see it, which was
/// looked at when that began.
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

/// How far it has come, if its owner asked for that, and where it stands.
fn task_notifications(
    server: &ServerState,
    record: &TaskRecord,
) -> impl Iterator<Item = Notification> {
    progress(record).into_iter().chain([Notification::Task(Box::new(task(server, record)))])
}

/// The task as its owner sees it.
pub(crate) fn task(server: &ServerState, record: &TaskRecord) -> Task {
    record.task(crate::tasks::options::millis(server.tasks.options.poll_interval).max(1))
}

fn progress(record: &TaskRecord) -> Option<Notification> {
    let (progress, total) = record.progress?;
    let (id, token) = (record.id.clone(), record.progress_token()?);
    let message = record.message.clone().filter(|_| record.end.is_none());
    Some(Notification::TaskProgress { id, token, progress, total, message })
}
