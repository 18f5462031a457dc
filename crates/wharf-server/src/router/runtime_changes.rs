//! Changes of a running server: adds and removes its tools, resources and prompts, and notifies subscribers.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use serde::Serialize;
use wharf_model::{Error, Notification, Principal, ResourceInfo};

use crate::{
    builder::{Part, error::BuildError, prepare::PartPreparer},
    notifications::custom,
    router::{access::Item, read_resource, state::ServerState},
};

/// Adds and removes parts of a running server, and notifies subscribers of changes.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod server { pub use super::*; } }
/// use wharf::{Tool, server::Router};
///
/// let router = Router::builder().build()?;
/// let registry = router.registry();
/// registry.add(Tool::new("late", async || "better than never"))?;
/// assert!(registry.remove_tool("late"));
/// # Ok::<(), wharf::server::BuildError>(())
/// ```
#[derive(Clone)]
pub struct Registry {
    server: Arc<ServerState>,
}

impl Registry {
    pub(crate) fn new(server: Arc<ServerState>) -> Self {
        Registry { server }
    }

    /// Returns a reference that does not keep the server in memory.
    #[must_use]
    pub fn downgrade(&self) -> WeakRegistry {
        WeakRegistry { server: Arc::downgrade(&self.server) }
    }

    /// Adds a tool, a resource or a prompt, and notifies subscribers.
    pub fn add(&self, part: impl Into<Part>) -> Result<(), BuildError> {
        let (server, mut part) = (&self.server, part.into());
        if server.masks_errors {
            part.mask_errors();
        }
        if let Some(task_runtime) = part.task_runtime() {
            server.tasks.enable(task_runtime);
        }
        let mut changed = None;
        server.change(|lists, order| {
            let mut problems = BuildError::default();
            let preparer = PartPreparer { limits: &server.limits, states: &server.states };
            let prepared = preparer.part(part, *order, &mut problems);
            if let Some(prepared) = prepared {
                changed = Some(prepared.changes());
                prepared.insert(lists, &mut problems);
            }
            *order += 1;
            problems.or(true)
        })?;
        if let Some(notification) = changed {
            self.publish(&notification);
        }
        Ok(())
    }

    /// Removes a tool and notifies subscribers; returns false if there is none of that name.
    /// Running calls continue.
    pub fn remove_tool(&self, name: &str) -> bool {
        self.remove(&Notification::ToolsChanged, |lists| {
            Arc::make_mut(&mut lists.tools).remove(name)
        })
    }

    /// Removes a resource or a template and notifies subscribers; returns false if there is none.
    pub fn remove_resource(&self, uri_or_template: &str) -> bool {
        self.remove(&Notification::ResourcesChanged, |lists| {
            Arc::make_mut(&mut lists.resources).remove(uri_or_template)
                || Arc::make_mut(&mut lists.templates).remove(uri_or_template)
        })
    }

    /// Removes a prompt and notifies subscribers; returns false if there is none of that name.
    pub fn remove_prompt(&self, name: &str) -> bool {
        self.remove(&Notification::PromptsChanged, |lists| {
            Arc::make_mut(&mut lists.prompts).remove(name)
        })
    }

    /// Notifies subscribers of the resource at `uri` that its contents changed.
    pub fn resource_updated(&self, uri: impl Into<Arc<str>>) {
        let uri = uri.into();
        let notification = Notification::ResourceUpdated { uri: uri.clone() };
        let server = &self.server;
        server.subscription_table.publish(&notification, |principal: Option<&Principal>| {
            read_resource::may_subscribe(server, principal, &uri)
        });
    }

    /// Notifies subscribers of the resource at `uri` that its contents changed, if they may see one of the resources
    /// `shown_with`. For a resource of a template: the [access hook](crate::Access) decides only about the template.
    /// A server with a hook notifies only the subscribers of this process.
    ///
    /// ```
    /// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod server { pub use super::*; } pub mod model { pub use super::*; } }
    /// use wharf::{model::ResourceInfo, server::Router};
    ///
    /// let registry = Router::builder().build()?.registry();
    /// let boat = ResourceInfo::new("boats://tern", "tern");
    /// registry.resource_updated_with("boats://tern/position", [&boat]);
    /// # Ok::<(), wharf::server::BuildError>(())
    /// ```
    pub fn resource_updated_with<'a>(
        &self,
        uri: impl Into<Arc<str>>,
        shown_with: impl IntoIterator<Item = &'a ResourceInfo>,
    ) {
        let (server, uri) = (&self.server, uri.into());
        // Other processes and resumed subscriptions could not ask about these resources.
        let Some(access) = &server.access else { return self.resource_updated(uri) };
        let shown_with: Vec<_> = shown_with.into_iter().collect();
        let notification = Notification::ResourceUpdated { uri: uri.clone() };
        server.subscription_table.deliver(&notification, |principal: Option<&Principal>| {
            read_resource::may_subscribe(server, principal, &uri)
                && shown_with.iter().any(|it| access.allows(principal, Item::Resource(it)))
        });
    }

    /// Notifies subscribers that the list of tools changed; adding and removing tools does so
    /// already.
    pub fn tools_changed(&self) {
        self.publish(&Notification::ToolsChanged);
    }

    /// Notifies subscribers that the list of prompts changed.
    pub fn prompts_changed(&self) {
        self.publish(&Notification::PromptsChanged);
    }

    /// Notifies subscribers that the lists of resources and templates changed.
    pub fn resources_changed(&self) {
        self.publish(&Notification::ResourcesChanged);
    }

    /// Sends a notification that an extension of the server declares to all subscribers that declared the extension:
    /// legacy sessions, and `subscriptions/listen` of modern clients, in all processes of the server. A subscriber
    /// that reads too slowly misses some.
    ///
    /// ```
    /// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod server { pub use super::*; } }
    /// use serde_json::json;
    /// use wharf::server::{ProtocolExtension, Router};
    ///
    /// let tides = ProtocolExtension::new("com.example/tides").notification("tides/turned");
    /// let registry = Router::builder().extension(tides).build()?.registry();
    /// registry.notify("tides/turned", json!({"height": 3})).unwrap();
    /// assert!(registry.notify("tides/undeclared", json!({})).is_err());
    /// # Ok::<(), wharf::server::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// If no extension of the server declares it, or if `params` is not an object.
    pub fn notify(&self, method: &str, params: impl Serialize) -> Result<(), Error> {
        let notification = custom::build(&self.server, method, &params)?;
        self.publish(&Notification::Custom(Box::new(notification)));
        Ok(())
    }

    /// Notifies the client of a URL elicitation that it is complete.
    pub fn elicitation_complete(&self, id: &str) {
        self.server.subscription_table.elicitation_complete(id);
    }

    fn remove(
        &self,
        notification: &Notification,
        remove: impl FnOnce(&mut crate::router::catalog::CatalogLists) -> bool,
    ) -> bool {
        let removed =
            self.server.change(|lists, _| Ok::<_, std::convert::Infallible>(remove(lists)));
        let removed = removed.unwrap_or_else(|never| match never {});
        if removed {
            self.publish(notification);
        }
        removed
    }

    fn publish(&self, notification: &Notification) {
        self.server.subscription_table.publish(notification, |_| true);
    }
}

/// Registry of a server that it does not keep in memory, for threads and tasks that outlive the server.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod server { pub use super::*; } }
/// use wharf::server::Router;
///
/// let router = Router::builder().build()?;
/// let weak = router.registry().downgrade();
/// assert!(weak.upgrade().is_some());
/// # Ok::<(), wharf::server::BuildError>(())
/// ```
#[derive(Clone)]
pub struct WeakRegistry {
    server: Weak<ServerState>,
}

impl WeakRegistry {
    /// Returns the registry, if the server still exists.
    #[must_use]
    pub fn upgrade(&self) -> Option<Registry> {
        self.server.upgrade().map(Registry::new)
    }
}

impl fmt::Debug for WeakRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakRegistry").finish_non_exhaustive()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").finish_non_exhaustive()
    }
}
