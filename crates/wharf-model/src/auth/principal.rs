//! Who is calling.

use std::{collections::BTreeSet, sync::Arc};

/// Who is calling, as whoever authenticated the caller put it into the request's scope.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// use wharf::Principal;
///
/// let alice = Principal::new("alice").with_scope("files:write");
/// assert!(alice.has_scope("files:write"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal {
    id: Arc<str>,
    scopes: Arc<BTreeSet<String>>,
    roles: Arc<BTreeSet<String>>,
}

impl Principal {
    /// A caller known by this identifier, unique among all callers.
    #[must_use]
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Principal { id: id.into(), scopes: Arc::default(), roles: Arc::default() }
    }

    /// The same caller, granted one more scope.
    #[must_use]
    pub fn with_scope(mut self, scope: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.scopes).insert(scope.into());
        self
    }

    /// The same caller, in one more role.
    #[must_use]
    pub fn with_role(mut self, role: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.roles).insert(role.into());
        self
    }

    /// The caller's identifier.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn shared_id(&self) -> Arc<str> {
        self.id.clone()
    }

    /// Whether the caller was granted `scope`.
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        self.scopes.contains(scope)
    }

    /// The scopes the caller was granted, in order.
    pub fn scopes(&self) -> impl Iterator<Item = &str> {
        self.scopes.iter().map(String::as_str)
    }

    /// Whether the caller has `role`.
    #[must_use]
    pub fn has_role(&self, role: &str) -> bool {
        self.roles.contains(role)
    }

    /// The caller's roles, in order.
    pub fn roles(&self) -> impl Iterator<Item = &str> {
        self.roles.iter().map(String::as_str)
    }
}
