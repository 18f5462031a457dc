//! Handshake state of a legacy session, and the capabilities announced in the `initialize` result.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wharf_model::{Meta, ServerCapabilities, SubscriptionFilter};

use crate::CallId;

/// Progress of the `initialize` handshake of a session.
#[derive(Debug)]
pub(crate) enum HandshakeState {
    /// No message was received since the result was written.
    Pending(Arc<PendingInitialize>),
    Done(AnnouncedCapabilities),
}

impl HandshakeState {
    /// Returns whether the `initialize` result announced the capability that `what` tests.
    pub(crate) fn announces(&self, what: impl Fn(AnnouncedCapabilities) -> bool) -> bool {
        self.announced().is_some_and(what)
    }

    /// Returns the announced capabilities; none before the result is written.
    pub(crate) fn announced(&self) -> Option<AnnouncedCapabilities> {
        match self {
            HandshakeState::Pending(pending) => pending.answer.get().copied().flatten(),
            HandshakeState::Done(announced) => Some(*announced),
        }
    }

    /// Updates the state once the result was written. Returns false if `initialize` failed.
    pub(crate) fn settle(&mut self) -> bool {
        if let HandshakeState::Pending(pending) = self
            && let Some(answer) = pending.answer.get().copied()
        {
            let Some(announced) = answer else { return false };
            *self = HandshakeState::Done(announced);
        }
        true
    }

    /// Returns whether `id` is the id of an `initialize` request without a result so far.
    pub(crate) fn is_pending(&self, id: &CallId) -> bool {
        match self {
            HandshakeState::Pending(pending) => {
                pending.answer.get().is_none() && pending.id.as_ref() == Some(id)
            }
            HandshakeState::Done(_) => false,
        }
    }
}

/// `initialize` request in flight.
#[derive(Debug)]
pub(crate) struct PendingInitialize {
    id: Option<CallId>,
    answer: OnceLock<Option<AnnouncedCapabilities>>,
}

impl PendingInitialize {
    pub(crate) fn new(id: Option<CallId>) -> Arc<Self> {
        Arc::new(PendingInitialize { id, answer: OnceLock::new() })
    }

    pub(crate) fn succeed(&self, offered: &ServerCapabilities) {
        let _ = self.answer.set(Some(AnnouncedCapabilities::of(offered)));
    }

    pub(crate) fn fail(&self) {
        let _ = self.answer.set(None);
    }
}

/// Announced capabilities that a session needs later.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct AnnouncedCapabilities {
    pub(crate) logging: bool,
    pub(crate) subscribe: bool,
    tools_changed: bool,
    prompts_changed: bool,
    resources_changed: bool,
    /// Tool calls may become tasks.
    #[serde(default)]
    pub(crate) tool_tasks: bool,
}

impl AnnouncedCapabilities {
    fn of(offered: &ServerCapabilities) -> Self {
        let resources = offered.resources.as_ref();
        AnnouncedCapabilities {
            logging: offered.logging,
            subscribe: resources.is_some_and(|it| it.subscribe),
            tools_changed: offered.tools.as_ref().is_some_and(|it| it.list_changed),
            prompts_changed: offered.prompts.as_ref().is_some_and(|it| it.list_changed),
            resources_changed: resources.is_some_and(|it| it.list_changed),
            tool_tasks: offered.tasks.as_ref().is_some_and(|it| has_tool_tasks(it)),
        }
    }

    /// Returns the notification filter of a session without subscriptions.
    pub(crate) fn filter(self) -> SubscriptionFilter {
        SubscriptionFilter::default()
            .tools(self.tools_changed)
            .prompts(self.prompts_changed)
            .resources(self.resources_changed)
    }
}

fn has_tool_tasks(tasks: &Meta) -> bool {
    let call = tasks.get("requests").and_then(|it| it.get("tools")?.get("call"));
    call.is_some_and(|it| !matches!(it, Value::Null | Value::Bool(false)))
}
