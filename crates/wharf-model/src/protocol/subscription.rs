//! What a listener wants to hear.

use std::{
    collections::BTreeSet,
    future::Future,
    num::NonZeroU64,
    sync::{Arc, Mutex, PoisonError, RwLock},
    task::{Poll, Waker},
};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{LogLevel, Principal, Task};

/// Something the server tells the client without being asked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Notification {
    /// How far the call has come.
    Progress {
        /// Rises with each notification.
        progress: f64,
        /// What `progress` will be at the end, if known.
        total: Option<f64>,
        /// What is going on, for people.
        message: Option<String>,
    },
    /// A log message of the call.
    Log {
        /// How grave it is.
        level: LogLevel,
        /// Where it comes from.
        logger: Option<String>,
        /// Any JSON.
        data: Box<RawValue>,
    },
    /// The first message of a listen: what the server agreed to send.
    Acknowledged(SubscriptionFilter),
    /// The list of tools is another now.
    ToolsChanged,
    /// The list of prompts is another now.
    PromptsChanged,
    /// The list of resources or of templates is another now.
    ResourcesChanged,
    /// The resource's contents are others now.
    ResourceUpdated {
        /// Which resource.
        uri: Arc<str>,
    },
    /// A task stands otherwise than before.
    Task(Box<Task>),
    /// How far a task has come, for an owner who asked for progress when it began.
    TaskProgress {
        /// Which task.
        id: String,
        /// The JSON text of the token that came with the call.
        token: Box<RawValue>,
        /// Rises with each notification.
        progress: f64,
        /// What `progress` will be at the end, if known.
        total: Option<f64>,
        /// What is going on, for people.
        message: Option<String>,
    },
    /// What a URL elicitation asked for has been done.
    ElicitationComplete {
        /// Which elicitation.
        id: String,
    },
}

impl Notification {
    /// Whether it only reports on a call that goes on, so that its loss is one of detail.
    pub(crate) fn is_droppable(&self) -> bool {
        matches!(self, Notification::Progress { .. } | Notification::Log { .. })
    }

    /// The bytes that its texts take.
    pub(crate) fn heap_bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::capacity);
        match self {
            Notification::Progress { message, .. } => text(message),
            Notification::Log { logger, data, .. } => text(logger) + data.get().len(),
            Notification::TaskProgress { id, token, message, .. } => {
                id.capacity() + token.get().len() + text(message)
            }
            Notification::ElicitationComplete { id } => id.capacity(),
            // Changes are few: who sends them puts those together that are alike.
            _ => 0,
        }
    }
}

/// Which notifications a listener wants.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// use wharf::{SubscriptionFilter, Notification};
///
/// let filter = SubscriptionFilter { tools: true, ..SubscriptionFilter::default() };
/// assert!(filter.wants(&Notification::ToolsChanged));
/// assert!(!filter.wants(&Notification::PromptsChanged));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SubscriptionFilter {
    /// Changes of the list of tools.
    #[serde(rename = "toolsListChanged", skip_serializing_if = "std::ops::Not::not")]
    pub tools: bool,
    /// Changes of the list of prompts.
    #[serde(rename = "promptsListChanged", skip_serializing_if = "std::ops::Not::not")]
    pub prompts: bool,
    /// Changes of the lists of resources and templates.
    #[serde(rename = "resourcesListChanged", skip_serializing_if = "std::ops::Not::not")]
    pub resources: bool,
    /// Updates of these resources.
    #[serde(rename = "resourceSubscriptions", skip_serializing_if = "BTreeSet::is_empty")]
    pub uris: BTreeSet<String>,
    /// What happens to these tasks.
    #[serde(rename = "taskIds", skip_serializing_if = "BTreeSet::is_empty")]
    pub tasks: BTreeSet<String>,
}

impl SubscriptionFilter {
    /// Whether a listener with this filter hears `notification`.
    #[must_use]
    pub fn wants(&self, notification: &Notification) -> bool {
        match notification {
            Notification::ToolsChanged => self.tools,
            Notification::PromptsChanged => self.prompts,
            Notification::ResourcesChanged => self.resources,
            Notification::ResourceUpdated { uri } => self.uris.contains(&**uri),
            Notification::Task(task) => self.tasks.contains(&task.id),
            Notification::TaskProgress { id, .. } => self.tasks.contains(id),
            _ => false,
        }
    }
}

/// A moment between two changes of which a service tells its listeners.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// use wharf::ChangeVersion;
///
/// assert!(ChangeVersion::FIRST < ChangeVersion::FIRST.next());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChangeVersion(NonZeroU64);

impl ChangeVersion {
    /// Before anything has changed.
    pub const FIRST: ChangeVersion = ChangeVersion(NonZeroU64::MIN);

    /// After one more change.
    #[must_use]
    pub fn next(self) -> Self {
        ChangeVersion(self.0.saturating_add(1))
    }

    /// The moment of this number, for those who kept it elsewhere.
    #[must_use]
    pub fn at(number: u64) -> Self {
        NonZeroU64::new(number).map_or(ChangeVersion::FIRST, ChangeVersion)
    }

    /// Its number. Later moments have greater ones.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0.get()
    }
}

/// A filter that its owner may edit while the listen is under way.
///
/// A handshake-era session subscribes and unsubscribes by editing the filter of its one listen.
#[derive(Clone, Debug, Default)]
pub struct LiveSubscriptionFilter(Arc<LiveState>);

#[derive(Debug, Default)]
struct LiveState {
    filter: RwLock<SubscriptionFilter>,
    listener: RwLock<Option<Arc<Principal>>>,
    edits: Mutex<EditCount>,
}

#[derive(Debug, Default)]
struct EditCount {
    count: u64,
    waiting: Vec<Waker>,
}

impl LiveSubscriptionFilter {
    /// A live filter that starts as `filter`.
    #[must_use]
    pub fn new(filter: SubscriptionFilter) -> Self {
        LiveSubscriptionFilter(Arc::new(LiveState {
            filter: RwLock::new(filter),
            ..LiveState::default()
        }))
    }

    /// Reads the filter as it is now.
    pub fn read<R>(&self, look: impl FnOnce(&SubscriptionFilter) -> R) -> R {
        look(&self.0.filter.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whose rights count for what is heard, as far as anybody said.
    #[must_use]
    pub fn listener(&self) -> Option<Arc<Principal>> {
        self.0.listener.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says with which rights its caller came last. A session's client may come with another token, which is good for
    /// more or for less than the one that the listen began with. Whoever goes by another name further in keeps it, and
    /// the rights that go with that.
    pub fn set_principal(&self, caller: &Principal) {
        let known = self.listener();
        let is_other = known.as_deref().is_some_and(|known| known.id() != caller.id());
        if !is_other && known.as_deref() != Some(caller) {
            self.set_listener(Some(caller));
        }
    }

    /// Says who listens, as those know it who tell what happens. If the same came again since, its newest rights count.
    pub fn begin_as(&self, listener: Option<&Principal>) {
        if self.listener().as_deref().map(Principal::id) != listener.map(Principal::id) {
            self.set_listener(listener);
        }
    }

    fn set_listener(&self, listener: Option<&Principal>) {
        let mut place = self.0.listener.write().unwrap_or_else(PoisonError::into_inner);
        *place = listener.cloned().map(Arc::new);
    }

    /// Completes when the filter has been edited more than `seen` times: how often by now. For those
    /// who pass a listen on to somebody who cannot see it change.
    pub fn edited(&self, seen: u64) -> impl Future<Output = u64> + Send + use<> {
        let live = self.0.clone();
        std::future::poll_fn(move |cx| {
            let mut edits = live.edits.lock().unwrap_or_else(PoisonError::into_inner);
            if edits.count > seen {
                return Poll::Ready(edits.count);
            }
            if !edits.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                edits.waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
    }

    /// Changes the filter; notifications from now on are judged by the new one.
    pub fn edit<R>(&self, change: impl FnOnce(&mut SubscriptionFilter) -> R) -> R {
        let changed = change(&mut self.0.filter.write().unwrap_or_else(PoisonError::into_inner));
        let mut edits = self.0.edits.lock().unwrap_or_else(PoisonError::into_inner);
        edits.count += 1;
        let waiting = std::mem::take(&mut edits.waiting);
        drop(edits);
        waiting.into_iter().for_each(Waker::wake);
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_rights_of_whoever_listens_count_and_nobody_elses() {
        let filter = LiveSubscriptionFilter::default();
        let caller = |id: &str, scope: &str| Principal::new(id).with_scope(scope);
        let is = |expected: &Principal| filter.listener().as_deref() == Some(expected);
        filter.set_principal(&caller("raw", "new"));
        filter.begin_as(Some(&caller("raw", "old")));
        assert!(
            is(&caller("raw", "new")),
            "who came since counts more than who made the listen due"
        );
        filter.set_principal(&caller("raw", "less"));
        assert!(is(&caller("raw", "less")));
        filter.begin_as(Some(&caller("ada", "all")));
        filter.set_principal(&caller("raw", "more"));
        assert!(is(&caller("ada", "all")), "what a layer made of the caller stays");
    }
}
