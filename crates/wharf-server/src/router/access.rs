//! Access control: which items a caller may see and use, and the scopes that it needs.

use std::{fmt, sync::Arc};

use wharf_model::{
    Error, ErrorKind, Principal, PromptInfo, Request, ResourceInfo, TemplateInfo, ToolInfo, Trusted,
};

use crate::{
    handler::extract::{Extract, Incoming},
    router::{
        catalog::{CatalogEntry, ListedItem},
        state::ServerState,
    },
};

/// Decides for each caller which items are listed and can be called.
///
/// An item that a caller may not use is hidden: calling it returns the same error as calling an
/// unknown item. A closure implements this trait.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod server { pub use super::*; } }
/// use wharf::server::{Item, Router};
///
/// let router = Router::builder().access(|principal: Option<&wharf::Principal>, item: Item<'_>| {
///     !item.name().starts_with("admin.") || principal.is_some_and(|p| p.has_scope("admin"))
/// });
/// # let _ = router.build();
/// ```
pub trait Access: Send + Sync + 'static {
    /// Returns whether `principal` may see and use `item`.
    fn allows(&self, principal: Option<&Principal>, item: Item<'_>) -> bool;
}

impl<F> Access for F
where
    F: Fn(Option<&Principal>, Item<'_>) -> bool + Send + Sync + 'static,
{
    fn allows(&self, principal: Option<&Principal>, item: Item<'_>) -> bool {
        self(principal, item)
    }
}

/// Item that a server offers.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Item<'a> {
    /// A tool.
    Tool(&'a ToolInfo),
    /// A resource.
    Resource(&'a ResourceInfo),
    /// A resource template.
    Template(&'a TemplateInfo),
    /// A prompt.
    Prompt(&'a PromptInfo),
    /// A custom method, by name.
    Method(&'a str),
}

impl<'a> Item<'a> {
    /// Returns the name of the item.
    #[must_use]
    pub fn name(self) -> &'a str {
        match self {
            Item::Tool(info) => &info.name,
            Item::Resource(info) => &info.name,
            Item::Template(info) => &info.name,
            Item::Prompt(info) => &info.name,
            Item::Method(name) => name,
        }
    }
}

/// Decisions of the [access hook](Access) for the caller: an extractor for methods that return items of the server.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod server { pub use super::*; } pub mod model { pub use super::*; } }
/// use serde_json::json;
/// use wharf::{Json, model::ResourceInfo, server::{Item, Router, AccessCheck}};
///
/// let method = async |access: AccessCheck| {
///     let notes = ResourceInfo::new("notes://secret", "secret");
///     Json(json!({"visible": access.allows(Item::Resource(&notes))}))
/// };
/// let router = Router::builder().method("notes/visible", method).build()?;
/// # let _ = router;
/// # Ok::<(), wharf::server::BuildError>(())
/// ```
#[derive(Clone)]
pub struct AccessCheck {
    server: Arc<ServerState>,
    principal: Option<Principal>,
}

impl AccessCheck {
    /// Returns whether the caller may see and use `item`, which need not be registered.
    #[must_use]
    pub fn allows(&self, item: Item<'_>) -> bool {
        let access = self.server.access.as_ref();
        access.is_none_or(|access| access.allows(self.principal.as_ref(), item))
    }

    /// Returns whether callers may see different items, because there is an access hook. Results that depend on it are
    /// cached per caller.
    #[must_use]
    pub fn differs(&self) -> bool {
        self.server.access.is_some()
    }
}

impl Extract for AccessCheck {
    fn extract(call: &Incoming<'_>) -> Result<Self, Error> {
        Ok(AccessCheck { server: call.server.clone(), principal: call.principal().cloned() })
    }
}

impl fmt::Debug for AccessCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessCheck").field("differs", &self.differs()).finish_non_exhaustive()
    }
}

impl ServerState {
    /// Returns whether the caller may see and use `item`.
    pub(crate) fn allows(&self, request: &Request, item: Item<'_>) -> bool {
        match &self.access {
            None => true,
            Some(access) => access.allows(request.principal(), item),
        }
    }

    /// Returns whether the caller may see and use the item of `entry`.
    pub(crate) fn allows_entry<I: ListedItem>(
        &self,
        request: &Request,
        entry: &CatalogEntry<I>,
    ) -> bool {
        let shown_with = entry.shown_with.as_ref();
        self.allows(request, entry.info.item())
            && shown_with.is_none_or(|it| self.allows(request, Item::Resource(it)))
    }

    /// Returns the error for scopes that the caller lacks; `None` if it has all of them.
    ///
    /// Local callers need no scopes.
    #[inline]
    pub(crate) fn missing_scopes(&self, request: &Request, scopes: &[String]) -> Option<Error> {
        if scopes.is_empty() { None } else { check_scopes(request, scopes) }
    }

    /// Returns whether `entry` is in the caller's lists.
    pub(crate) fn is_visible<I: ListedItem>(
        &self,
        request: &Request,
        entry: &CatalogEntry<I>,
    ) -> bool {
        self.allows_entry(request, entry) && self.missing_scopes(request, &entry.scopes).is_none()
    }
}

#[cold]
fn check_scopes(request: &Request, scopes: &[String]) -> Option<Error> {
    match request.principal() {
        Some(caller) if scopes.iter().all(|scope| caller.has_scope(scope)) => None,
        Some(_) => Some(Error::insufficient_scope(scopes)),
        None if request.scope.get::<Trusted>().is_some() => None,
        None => Some(Error::new(ErrorKind::Unauthenticated)),
    }
}
