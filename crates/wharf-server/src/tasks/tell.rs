//! Tells listeners of tasks.

use wharf_model::{Notification, Task};

use crate::{
    core::Core,
    tasks::{ledger, record::TaskRecord},
};

/// As much of an id as a log may have: whoever knows all of it may read the task.
pub(crate) fn short(id: &str) -> &str {
    id.get(..6).unwrap_or_default()
}

/// Tells everybody who follows the task and owns it.
pub(crate) fn listeners(core: &Core, record: &TaskRecord) {
    for notification in news(core, record) {
        let may_hear = |principal: Option<&_>| ledger::owner(principal) == record.owner;
        core.hub.publish(&notification, may_hear);
    }
}

/// How far it has come, if its owner asked for that, and where it stands.
fn news(core: &Core, record: &TaskRecord) -> impl Iterator<Item = Notification> {
    progress(record).into_iter().chain([Notification::Task(Box::new(task(core, record)))])
}

/// The task as its owner sees it.
pub(crate) fn task(core: &Core, record: &TaskRecord) -> Task {
    record.task(crate::tasks::options::millis(core.tasks.options.poll_interval).max(1))
}

fn progress(record: &TaskRecord) -> Option<Notification> {
    let (progress, total) = record.progress?;
    let (id, token) = (record.id.clone(), record.progress_token()?);
    let message = record.message.clone().filter(|_| record.end.is_none());
    Some(Notification::TaskProgress { id, token, progress, total, message })
}
