//! [`RegisteredError`]: the registry of error codes and their names.

use super::ErrorKind;

/// Entry of Wharf's error registry: the code, the name and the meaning of an error.
///
/// The registry has every [`ErrorKind`] with a number, and errors that no part of Wharf makes. It
/// names the code of another implementation, and an application can document its own codes with it.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use wharf_model::*; } }
/// use wharf::{ErrorKind, model::RegisteredError};
///
/// let locked = RegisteredError::by_code(-32027).unwrap();
/// assert_eq!((locked.name, locked.meaning), ("resource_locked", "Resource locked"));
/// assert_eq!(ErrorKind::from_name(locked.name), None);
///
/// let unknown = RegisteredError::by_code(-32002).unwrap();
/// assert_eq!(ErrorKind::from_name(unknown.name), Some(ErrorKind::ToolNotFound));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegisteredError {
    /// Code in the registry. What a peer receives depends on its protocol revision.
    pub code: i32,
    /// Stable name, in snake case.
    pub name: &'static str,
    /// Meaning, which is also the default message.
    pub meaning: &'static str,
}

impl RegisteredError {
    /// Returns the entry with this code.
    #[must_use]
    pub fn by_code(code: i32) -> Option<Self> {
        Self::all().find(|entry| entry.code == code)
    }

    /// Returns all entries: those of the error kinds first.
    pub fn all() -> impl Iterator<Item = Self> {
        let kinds = ErrorKind::ALL.iter().filter_map(|kind| {
            let (name, meaning) = (kind.name(), kind.message());
            Some(RegisteredError { code: kind.registry_code()?, name, meaning })
        });
        let others = OTHERS.iter();
        kinds.chain(others.map(|&(code, name, meaning)| RegisteredError { code, name, meaning }))
    }
}

/// Errors without an [`ErrorKind`], because nothing makes or matches them.
#[rustfmt::skip]
static OTHERS: &[(i32, &str, &str)] = &[
    (-32006, "subscription_failed", "Subscription failed"),
    (-32011, "tool_description_too_long", "Tool description too long"),
    (-32012, "message_too_large", "Message too large"),
    (-32013, "invalid_content_type", "Invalid content type"),
    (-32014, "content_too_large_item", "Content item too large"),
    (-32015, "invalid_encoding", "Invalid encoding"),
    (-32016, "binary_too_large", "Binary content too large"),
    (-32017, "text_too_long", "Text too long"),
    (-32018, "invalid_mime_type", "Invalid MIME type"),
    (-32019, "unsupported_media_type", "Unsupported media type"),
    (-32020, "media_type_not_acceptable", "Media type not acceptable"),
    (-32021, "template_not_found", "Resource template not found"),
    (-32022, "invalid_uri", "Invalid URI"),
    (-32023, "uri_syntax", "URI syntax error"),
    (-32026, "resource_exists", "Resource already exists"),
    (-32027, "resource_locked", "Resource locked"),
    (-32028, "resource_version_mismatch", "Resource version mismatch"),
    (-32029, "template_expansion_failed", "Template expansion failed"),
    (-32030, "invalid_template", "Invalid resource template"),
    (-32035, "tool_disabled", "Tool disabled"),
    (-32036, "tool_result_too_large", "Tool result too large"),
    (-32037, "tool_not_allowed", "Tool not allowed"),
    (-32038, "too_many_concurrent_tools", "Too many concurrent tools"),
    (-32039, "tool_dependency_failed", "Tool dependency failed"),
    (-32044, "prompt_render_failed", "Prompt rendering failed"),
    (-32046, "sampling_failed", "Sampling failed"),
    (-32047, "sampling_timeout", "Sampling timed out"),
    (-32048, "invalid_model_preferences", "Invalid model preferences"),
    (-32049, "model_unavailable", "Model unavailable"),
    (-32050, "sampling_rate_limited", "Sampling rate limited"),
    (-32054, "token_expired", "Token expired"),
    (-32055, "insufficient_permissions", "Insufficient permissions"),
    (-32057, "session_expired", "Session expired"),
    (-32058, "session_not_found", "Session not found"),
    (-32059, "invalid_token", "Invalid token"),
    (-32060, "unauthorized_operation", "Unauthorized operation"),
    (-32072, "cursor_expired", "Cursor expired"),
    (-32073, "pagination_not_supported", "Pagination not supported"),
    (-32074, "page_too_large", "Page too large"),
    (-32075, "invalid_page_size", "Invalid page size"),
    (-32076, "invalid_offset", "Invalid offset"),
    (-32082, "task_exists", "Task already exists"),
    (-32085, "task_timeout", "Task timed out"),
    (-32088, "task_dependency_failed", "Task dependency failed"),
    (-32089, "task_result_not_ready", "Task result not ready"),
    (-32091, "invalid_progress_token", "Invalid progress token"),
    (-32092, "progress_token_expired", "Progress token expired"),
    (-32093, "progress_update_failed", "Progress update failed"),
    (-32094, "notification_failed", "Notification failed"),
    (-32095, "notification_queue_full", "Notification queue full"),
    (-32096, "invalid_notification", "Invalid notification"),
    (-32097, "notification_not_delivered", "Notification not delivered"),
    (-32110, "completion_not_found", "Completion not found"),
    (-32111, "invalid_completion_reference", "Invalid completion reference"),
    (-32112, "invalid_completion_argument", "Invalid completion argument"),
    (-32113, "completion_failed", "Completion failed"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn codes_and_names_are_unique() {
        let all: Vec<_> = RegisteredError::all().collect();
        let codes: HashSet<_> = all.iter().map(|entry| entry.code).collect();
        let names: HashSet<_> = all.iter().map(|entry| entry.name).collect();
        assert_eq!((codes.len(), names.len()), (all.len(), all.len()));
        assert!(OTHERS.iter().all(|(_, name, _)| ErrorKind::from_name(name).is_none()));
        assert_eq!(RegisteredError::by_code(0), None);
    }
}
