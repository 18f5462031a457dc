//! What a session was offered when `initialize` was answered.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wharf_model::{Meta, ServerCapabilities, SubscriptionFilter};

use crate::CallId;

/// How far a session's handshake has come.
#[derive(Debug)]
pub(crate) enum Handshake {
    /// Until the next message after the answer.
    Begun(Arc<Negotiation>),
    Done(Offer),
}

impl Handshake {
    /// Whether the answer offered this.
    pub(crate) fn offers(&self, what: impl Fn(Offer) -> bool) -> bool {
        self.offer().is_some_and(what)
    }

    /// Nothing before the answer is written.
    pub(crate) fn offer(&self) -> Option<Offer> {
        match self {
            Handshake::Begun(opening) => opening.answer.get().copied().flatten(),
            Handshake::Done(offer) => Some(*offer),
        }
    }

    /// Takes note of the answer, if there is one by now. False if it was an error.
    pub(crate) fn settle(&mut self) -> bool {
        if let Handshake::Begun(opening) = self
            && let Some(answer) = opening.answer.get().copied()
        {
            let Some(offer) = answer else { return false };
            *self = Handshake::Done(offer);
        }
        true
    }

    /// Whether this is the id of an `initialize` that has no answer yet.
    pub(crate) fn waits_for(&self, id: &CallId) -> bool {
        match self {
            Handshake::Begun(opening) => {
                opening.answer.get().is_none() && opening.id.as_ref() == Some(id)
            }
            Handshake::Done(_) => false,
        }
    }
}

/// An `initialize` on its way to its answer.
#[derive(Debug)]
pub(crate) struct Negotiation {
    id: Option<CallId>,
    answer: OnceLock<Option<Offer>>,
}

impl Negotiation {
    pub(crate) fn new(id: Option<CallId>) -> Arc<Self> {
        Arc::new(Negotiation { id, answer: OnceLock::new() })
    }

    pub(crate) fn answered(&self, offered: &ServerCapabilities) {
        let _ = self.answer.set(Some(Offer::of(offered)));
    }

    pub(crate) fn failed(&self) {
        let _ = self.answer.set(None);
    }
}

/// What sessions need to know of what they were offered.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Offer {
    pub(crate) logging: bool,
    pub(crate) subscribe: bool,
    tools_changed: bool,
    prompts_changed: bool,
    resources_changed: bool,
    /// Calls of tools may become tasks.
    #[serde(default)]
    pub(crate) tool_tasks: bool,
}

impl Offer {
    fn of(offered: &ServerCapabilities) -> Self {
        let resources = offered.resources.as_ref();
        Offer {
            logging: offered.logging,
            subscribe: resources.is_some_and(|it| it.subscribe),
            tools_changed: offered.tools.as_ref().is_some_and(|it| it.list_changed),
            prompts_changed: offered.prompts.as_ref().is_some_and(|it| it.list_changed),
            resources_changed: resources.is_some_and(|it| it.list_changed),
            tool_tasks: offered.tasks.as_ref().is_some_and(|it| has_tool_tasks(it)),
        }
    }

    /// What a session hears that subscribes to nothing.
    pub(crate) fn filter(self) -> SubscriptionFilter {
        SubscriptionFilter {
            tools: self.tools_changed,
            prompts: self.prompts_changed,
            resources: self.resources_changed,
            ..SubscriptionFilter::default()
        }
    }
}

fn has_tool_tasks(tasks: &Meta) -> bool {
    let call = tasks.get("requests").and_then(|it| it.get("tools")?.get("call"));
    call.is_some_and(|it| !matches!(it, Value::Null | Value::Bool(false)))
}
