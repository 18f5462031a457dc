//! Authenticated principal.

use std::{collections::BTreeSet, sync::Arc};

/// Authenticated principal, which the authenticator puts into the request's extensions. A handler
/// takes it as a parameter: `Principal` rejects unauthenticated callers, `Option<Principal>` does not.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// use wharf::Principal;
///
/// async fn greet(caller: Option<Principal>) -> String {
///     caller.map_or("Who are you?".to_owned(), |caller| format!("Hello, {}.", caller.id()))
/// }
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
    /// Creates a principal with a unique identifier.
    #[must_use]
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Principal { id: id.into(), scopes: Arc::default(), roles: Arc::default() }
    }

    /// Adds a scope.
    #[must_use]
    pub fn with_scope(mut self, scope: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.scopes).insert(scope.into());
        self
    }

    /// Adds a role.
    #[must_use]
    pub fn with_role(mut self, role: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.roles).insert(role.into());
        self
    }

    /// Returns the identifier.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn shared_id(&self) -> Arc<str> {
        self.id.clone()
    }

    /// Returns whether the principal has `scope`.
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        self.scopes.contains(scope)
    }

    /// Returns the scopes, in order.
    pub fn scopes(&self) -> impl Iterator<Item = &str> {
        self.scopes.iter().map(String::as_str)
    }

    /// Returns whether the principal has `role`.
    #[must_use]
    pub fn has_role(&self, role: &str) -> bool {
        self.roles.contains(role)
    }

    /// Returns the roles, in order.
    pub fn roles(&self) -> impl Iterator<Item = &str> {
        self.roles.iter().map(String::as_str)
    }
}
