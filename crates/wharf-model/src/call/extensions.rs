//! Typed extensions of a request.

use std::sync::Arc;

use http::Extensions;

/// Typed values that transports and middleware attach to a message.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
/// use wharf::model::RequestExtensions;
///
/// let mut connection = RequestExtensions::new();
/// connection.insert("127.0.0.1");
/// let connection = connection.shared();
/// let mut message = connection.clone();
/// message.insert(7_u32);
/// assert_eq!((message.get::<&str>(), message.get::<u32>()), (Some(&"127.0.0.1"), Some(&7)));
/// assert_eq!(connection.get::<u32>(), None);
/// ```
#[derive(Clone, Debug, Default)]
pub struct RequestExtensions {
    own: Extensions,
    /// Values shared by many messages, so that they are not copied.
    common: Option<Arc<RequestExtensions>>,
}

impl RequestExtensions {
    /// Creates an empty set.
    #[must_use]
    pub fn new() -> Self {
        RequestExtensions::default()
    }

    /// Inserts a value; replaces one of the same type.
    pub fn insert<T: Clone + Send + Sync + 'static>(&mut self, value: T) {
        self.own.insert(value);
    }

    /// Returns the value of this type.
    #[must_use]
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        match (self.own.get(), &self.common) {
            (None, Some(common)) => common.get(),
            (own, _) => own,
        }
    }

    /// Removes a value of this message. Shared values stay.
    pub fn remove<T: Send + Sync + 'static>(&mut self) -> Option<T> {
        self.own.remove()
    }

    /// Moves the values behind an `Arc`, so that clones are cheap.
    #[must_use]
    pub fn shared(self) -> Self {
        if self.own.is_empty() {
            return self;
        }
        RequestExtensions { own: Extensions::new(), common: Some(Arc::new(self)) }
    }
}

/// Extension that marks a trusted caller, exempt from scope checks: the parent process on stdin, or code within
/// this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trusted;

impl From<Extensions> for RequestExtensions {
    fn from(own: Extensions) -> Self {
        RequestExtensions { own, common: None }
    }
}

impl Extend<Extensions> for RequestExtensions {
    fn extend<I: IntoIterator<Item = Extensions>>(&mut self, more: I) {
        more.into_iter().for_each(|more| self.own.extend(more));
    }
}
