//! How a server has tasks.

use wharf_model::{ServerCapabilities, TASKS_EXTENSION, TaskRequest};

/// How a server has tasks. It is read off what the server offers: nothing here knows eras.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Not at all.
    Never,
    /// The server makes them as it likes. A look at a task shows all of it, questions and result
    /// too, and answers are brought.
    AuthHeaders,
    /// The caller asks for them. The result is fetched, and whoever fetches it is asked.
    Fetched,
}

impl Manner {
    pub(crate) fn of(can: &ServerCapabilities) -> Self {
        if can.extensions.contains_key(TASKS_EXTENSION) {
            return Manner::AuthHeaders;
        }
        let tasks = can.tasks.as_deref();
        let calls = tasks.and_then(|it| it.get("requests")?.get("tools")?.get("call"));
        if calls.is_some() { Manner::Fetched } else { Manner::Never }
    }

    /// What the caller of a tool says about tasks who follows them, and needs none.
    pub(crate) fn tasking(self, must_be_task: bool) -> TaskRequest {
        match self {
            Manner::Never => TaskRequest::Unknown,
            Manner::AuthHeaders => TaskRequest::Welcome,
            Manner::Fetched if must_be_task => TaskRequest::Wanted(None),
            Manner::Fetched => TaskRequest::Declined,
        }
    }
}
