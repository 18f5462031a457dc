//! Task as clients see it, with its poll interval.

use wharf_model::Task;

use crate::{router::state::ServerState, tasks::storage::record::TaskRecord};

/// The task as its owner sees it.
pub(crate) fn task(server: &ServerState, record: &TaskRecord) -> Task {
    record.task(crate::tasks::options::millis(server.tasks.options.poll_interval).max(1))
}
