//! What travels with a message besides the message.

use std::sync::Arc;

use http::Extensions;

/// What travels with a message besides the message: whatever outer layers put there, by its type.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// use wharf::RequestExtensions;
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
    /// What many messages have in common, so that none of them copies it.
    common: Option<Arc<RequestExtensions>>,
}

impl RequestExtensions {
    /// Nothing.
    #[must_use]
    pub fn new() -> Self {
        RequestExtensions::default()
    }

    /// Puts something there, in place of what there may be of its type.
    pub fn insert<T: Clone + Send + Sync + 'static>(&mut self, value: T) {
        self.own.insert(value);
    }

    /// What there is of this type.
    #[must_use]
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        match (self.own.get(), &self.common) {
            (None, Some(common)) => common.get(),
            (own, _) => own,
        }
    }

    /// Takes out what was put here. What is common to many messages stays.
    pub fn remove<T: Send + Sync + 'static>(&mut self) -> Option<T> {
        self.own.remove()
    }

    /// The same, of which every clone is cheap.
    #[must_use]
    pub fn shared(self) -> Self {
        if self.own.is_empty() {
            return self;
        }
        RequestExtensions { own: Extensions::new(), common: Some(Arc::new(self)) }
    }
}

/// In the [`RequestExtensions`] of whoever need not show any scope, because nobody else could have sent the request: who
/// started the process and speaks to its stdin, or code within it.
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
