//! Notifications of a server, and the subscription filters for them.

use std::{
    collections::BTreeSet,
    future::Future,
    num::NonZeroU64,
    sync::{Arc, PoisonError, RwLock},
    task::{Poll, Waker},
};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{CustomNotification, Lock, LogLevel, Principal, Task};

/// Notification from the server to the client.
///
/// A new notification of the protocol is a new variant, in a new minor version of this crate.
#[derive(Clone, Debug)]
pub enum Notification {
    /// Progress of the call.
    Progress {
        /// Current progress; increases with each notification.
        progress: f64,
        /// Value of `progress` at the end, if known.
        total: Option<f64>,
        /// Human-readable message.
        message: Option<String>,
    },
    /// A log message of the call.
    Log {
        /// Severity.
        level: LogLevel,
        /// Name of the logger.
        logger: Option<String>,
        /// Data: any JSON.
        data: Box<RawValue>,
    },
    /// First message of a subscription: the notifications that the server agreed to send.
    Acknowledged(SubscriptionFilter),
    /// The list of tools changed.
    ToolsChanged,
    /// The list of prompts changed.
    PromptsChanged,
    /// The list of resources or resource templates changed.
    ResourcesChanged,
    /// The contents of a resource changed.
    ResourceUpdated {
        /// URI of the resource.
        uri: Arc<str>,
    },
    /// The state of a task changed.
    Task(Box<Task>),
    /// Progress of a task, for an owner that requested progress with the call.
    TaskProgress {
        /// Id of the task.
        id: String,
        /// JSON text of the progress token of the call.
        token: Box<RawValue>,
        /// Current progress; increases with each notification.
        progress: f64,
        /// Value of `progress` at the end, if known.
        total: Option<f64>,
        /// Human-readable message.
        message: Option<String>,
    },
    /// A URL elicitation was completed.
    ElicitationComplete {
        /// Id of the elicitation.
        id: String,
    },
    /// Notification of an extension. Only peers that declared the extension receive it.
    Custom(Box<CustomNotification>),
}

impl Notification {
    /// Returns whether the notification may be dropped under back-pressure: it only reports on a call that
    /// continues.
    pub(crate) fn is_droppable(&self) -> bool {
        use Notification::{Custom, Log, Progress};
        matches!(self, Progress { .. } | Log { .. } | Custom(_))
    }

    /// Returns the heap size in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::capacity);
        match self {
            Notification::Progress { message, .. } => text(message),
            Notification::Log { logger, data, .. } => text(logger) + data.get().len(),
            Notification::TaskProgress { id, token, message, .. } => {
                id.capacity() + token.get().len() + text(message)
            }
            Notification::ElicitationComplete { id } => id.capacity(),
            Notification::Custom(it) => size_of::<CustomNotification>() + it.heap_bytes(),
            // Change notifications are few: senders coalesce them.
            _ => 0,
        }
    }
}

/// Filter of the notifications of a subscription.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
/// use wharf::model::{Notification, SubscriptionFilter};
///
/// let filter = SubscriptionFilter::default().tools(true);
/// assert!(filter.includes(&Notification::ToolsChanged));
/// assert!(!filter.includes(&Notification::PromptsChanged));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SubscriptionFilter {
    /// Changes to the list of tools.
    #[serde(rename = "toolsListChanged", skip_serializing_if = "std::ops::Not::not")]
    pub tools: bool,
    /// Changes to the list of prompts.
    #[serde(rename = "promptsListChanged", skip_serializing_if = "std::ops::Not::not")]
    pub prompts: bool,
    /// Changes to the lists of resources and resource templates.
    #[serde(rename = "resourcesListChanged", skip_serializing_if = "std::ops::Not::not")]
    pub resources: bool,
    /// Updates of these resources.
    #[serde(rename = "resourceSubscriptions", skip_serializing_if = "BTreeSet::is_empty")]
    pub uris: BTreeSet<String>,
    /// State changes and progress of these tasks.
    #[serde(rename = "taskIds", skip_serializing_if = "BTreeSet::is_empty")]
    pub tasks: BTreeSet<String>,
}

crate::setters!(SubscriptionFilter { tools: bool, prompts: bool, resources: bool });

impl SubscriptionFilter {
    /// Sets the resources whose updates the filter includes.
    #[must_use]
    pub fn uris(self, uris: impl IntoIterator<Item = impl Into<String>>) -> Self {
        SubscriptionFilter { uris: uris.into_iter().map(Into::into).collect(), ..self }
    }

    /// Sets the tasks whose notifications the filter includes, by their ids.
    #[must_use]
    pub fn tasks(self, ids: impl IntoIterator<Item = impl Into<String>>) -> Self {
        SubscriptionFilter { tasks: ids.into_iter().map(Into::into).collect(), ..self }
    }

    /// Returns whether the filter includes `notification`.
    #[must_use]
    pub fn includes(&self, notification: &Notification) -> bool {
        match notification {
            Notification::ToolsChanged => self.tools,
            Notification::PromptsChanged => self.prompts,
            Notification::ResourcesChanged => self.resources,
            Notification::ResourceUpdated { uri } => self.uris.contains(&**uri),
            Notification::Task(task) => self.tasks.contains(&task.id),
            Notification::TaskProgress { id, .. } => self.tasks.contains(id),
            // The declared extensions select these.
            Notification::Custom(_) => true,
            Notification::Progress { .. }
            | Notification::Log { .. }
            | Notification::Acknowledged(_)
            | Notification::ElicitationComplete { .. } => false,
        }
    }
}

/// Change counter of a service: a version between two changes that subscriptions report.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
/// use wharf::model::ChangeVersion;
///
/// assert!(ChangeVersion::FIRST < ChangeVersion::FIRST.next());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChangeVersion(NonZeroU64);

impl ChangeVersion {
    /// Version before the first change.
    pub const FIRST: ChangeVersion = ChangeVersion(NonZeroU64::MIN);

    /// Returns the version after one more change.
    #[must_use]
    pub fn next(self) -> Self {
        ChangeVersion(self.0.saturating_add(1))
    }

    /// Restores a version from its number.
    #[must_use]
    pub fn at(number: u64) -> Self {
        NonZeroU64::new(number).map_or(ChangeVersion::FIRST, ChangeVersion)
    }

    /// Returns the number. Later versions have greater ones.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0.get()
    }
}

/// Subscription filter that can be edited while the subscription is active.
///
/// A legacy session subscribes and unsubscribes by editing the filter of its one subscription.
#[derive(Clone, Debug, Default)]
pub struct LiveSubscriptionFilter(Arc<LiveState>);

#[derive(Debug, Default)]
struct LiveState {
    filter: RwLock<SubscriptionFilter>,
    listener: RwLock<Option<Arc<Principal>>>,
    edits: Lock<EditCount>,
}

#[derive(Debug, Default)]
struct EditCount {
    count: u64,
    waiting: Vec<Waker>,
}

impl LiveSubscriptionFilter {
    /// Creates a live filter with the initial value `filter`.
    #[must_use]
    pub fn new(filter: SubscriptionFilter) -> Self {
        LiveSubscriptionFilter(Arc::new(LiveState {
            filter: RwLock::new(filter),
            ..LiveState::default()
        }))
    }

    /// Reads the current filter.
    pub fn read<R>(&self, look: impl FnOnce(&SubscriptionFilter) -> R) -> R {
        look(&self.0.filter.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the principal whose permissions apply to the notifications, if set.
    #[must_use]
    pub fn listener(&self) -> Option<Arc<Principal>> {
        self.0.listener.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the permissions of the caller's newest request: the client of a session may use another token, with
    /// more or fewer permissions than at the start of the subscription. If middleware replaced the principal,
    /// the replaced principal is kept with its permissions.
    pub fn set_principal(&self, caller: &Principal) {
        let known = self.listener();
        let is_other = known.as_deref().is_some_and(|known| known.id() != caller.id());
        if !is_other && known.as_deref() != Some(caller) {
            self.set_listener(Some(caller));
        }
    }

    /// Sets the principal that the service authenticated. If the same principal called again since, its newest
    /// permissions are kept.
    pub fn set_authenticated_principal(&self, listener: Option<&Principal>) {
        if self.listener().as_deref().map(Principal::id) != listener.map(Principal::id) {
            self.set_listener(listener);
        }
    }

    fn set_listener(&self, listener: Option<&Principal>) {
        let mut place = self.0.listener.write().unwrap_or_else(PoisonError::into_inner);
        *place = listener.cloned().map(Arc::new);
    }

    /// Completes when the filter was edited more than `seen` times; returns the number of edits. For proxies,
    /// which forward a subscription to an upstream server.
    pub fn edited(&self, seen: u64) -> impl Future<Output = u64> + Send + use<> {
        let live = self.0.clone();
        std::future::poll_fn(move |cx| {
            let mut edits = live.edits.lock();
            if edits.count > seen {
                return Poll::Ready(edits.count);
            }
            if !edits.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                edits.waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
    }

    /// Edits the filter; it applies to all later notifications.
    pub fn edit<R>(&self, change: impl FnOnce(&mut SubscriptionFilter) -> R) -> R {
        let changed = change(&mut self.0.filter.write().unwrap_or_else(PoisonError::into_inner));
        let mut edits = self.0.edits.lock();
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
    fn the_newest_permissions_of_the_same_principal_apply() {
        let filter = LiveSubscriptionFilter::default();
        let caller = |id: &str, scope: &str| Principal::new(id).with_scope(scope);
        let is = |expected: &Principal| filter.listener().as_deref() == Some(expected);
        filter.set_principal(&caller("raw", "new"));
        filter.set_authenticated_principal(Some(&caller("raw", "old")));
        assert!(
            is(&caller("raw", "new")),
            "who came since counts more than who made the listen due"
        );
        filter.set_principal(&caller("raw", "less"));
        assert!(is(&caller("raw", "less")));
        filter.set_authenticated_principal(Some(&caller("ada", "all")));
        filter.set_principal(&caller("raw", "more"));
        assert!(is(&caller("ada", "all")), "what a layer made of the caller stays");
    }
}
