//! Notifications that extensions of the protocol declare.

use serde::{Deserialize, Serialize};
use serde_json::Map;

use crate::{Error, ErrorKind, JsonText, Method};

/// Notification that an extension of the protocol declares, in either direction.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
/// use serde_json::json;
/// use wharf::model::CustomNotification;
///
/// let turned = CustomNotification::new("com.example/tides", "tides/turned", &json!({"height": 3}))?;
/// assert_eq!(turned.params.get(), r#"{"height":3}"#);
/// assert!(CustomNotification::new("com.example/tides", "tides/turned", &[1]).is_err());
/// # Ok::<(), wharf::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CustomNotification {
    /// Identifier of the extension that declares it. A peer without this extension does not receive it.
    pub extension: String,
    /// Name on the wire, such as `tides/turned`.
    pub method: String,
    /// Parameters: the text of a JSON object.
    pub params: JsonText,
}

impl CustomNotification {
    /// Creates a notification.
    ///
    /// # Errors
    /// If `params` is neither an object nor nothing.
    pub fn new(
        extension: impl Into<String>,
        method: impl Into<String>,
        params: &(impl Serialize + ?Sized),
    ) -> Result<Self, Error> {
        let (extension, method) = (extension.into(), method.into());
        let mut params = JsonText::of(params)?;
        if params.get() == "null" {
            params = JsonText::of(&Map::new())?;
        }
        if !params.get().starts_with('{') {
            let problem =
                format!("The parameters of the notification `{method}` are not an object");
            return Err(Error::new(ErrorKind::InternalError).with_message(problem));
        }
        Ok(CustomNotification { extension, method, params })
    }

    /// Returns the memory that the notification takes besides its own size.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.extension.capacity() + self.method.capacity() + self.params.get().len()
    }
}

/// Notifications of the protocol, in any revision and direction.
const NOTIFICATIONS: [&str; 13] = [
    "notifications/initialized",
    "notifications/cancelled",
    "notifications/progress",
    "notifications/message",
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
    "notifications/roots/list_changed",
    "notifications/elicitation/complete",
    "notifications/subscriptions/acknowledged",
    "notifications/tasks",
    "notifications/tasks/status",
];

impl Method {
    /// Returns whether `name` can be the name of a notification of an extension: it is
    /// [qualified](Method::is_qualified), and the protocol defines no message of this name.
    ///
    /// ```
    /// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
    /// use wharf::model::Method;
    ///
    /// assert!(Method::is_custom_notification("tides/turned"));
    /// assert!(!Method::is_custom_notification("notifications/progress"));
    /// assert!(!Method::is_custom_notification("tools/call"));
    /// ```
    #[must_use]
    pub fn is_custom_notification(name: &str) -> bool {
        let is_free = name.starts_with("notifications/") || !Method::is_defined(name);
        Method::is_qualified(name) && is_free && !NOTIFICATIONS.contains(&name)
    }
}
