//! Size limits of messages: defaults and setters.

use wharf_model::setters;

use crate::json::scanner::MAX_DEPTH;

/// Size limits of messages and their parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageLimits {
    /// Bytes in a message.
    pub message: usize,
    /// Levels of nesting, up to 128.
    pub depth: u32,
    /// Bytes in the id of a request or task.
    pub id: usize,
    /// Bytes in a URI.
    pub uri: usize,
    /// Bytes in a client's capabilities, and bytes in its `clientInfo`.
    pub client: usize,
    /// Approximate bytes of client info that a legacy session or connection keeps. If it does not fit,
    /// descriptions are dropped first, then experimental capabilities, then the settings of extensions, but not
    /// their names. A name or version of more than a quarter of this limit is refused.
    pub kept: usize,
    /// Messages in a batch.
    pub batch: usize,
    /// Resources, and tasks, that one subscription or legacy session may follow.
    pub subscriptions: usize,
    /// Bytes of the URIs that one legacy session may subscribe to.
    pub subscription_bytes: usize,
    /// Bytes of the URIs that all legacy sessions may subscribe to, plus 64 for each. One caller may use what
    /// is still free.
    pub subscription_total: usize,
}

impl Default for MessageLimits {
    fn default() -> Self {
        MessageLimits {
            message: 16 * 1024 * 1024,
            depth: MAX_DEPTH,
            id: 256,
            uri: 8 * 1024,
            client: 256 * 1024,
            kept: 16 * 1024,
            batch: 1_000,
            subscriptions: 1_000,
            subscription_bytes: 128 * 1024,
            subscription_total: 64 * 1024 * 1024,
        }
    }
}

setters!(MessageLimits {
    message: usize,
    depth: u32,
    id: usize,
    uri: usize,
    client: usize,
    kept: usize,
    batch: usize,
    subscriptions: usize,
    subscription_bytes: usize,
    subscription_total: usize,
});
