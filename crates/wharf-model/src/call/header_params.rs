//! `Mcp-Param-*` headers: call arguments repeated as HTTP headers.

use serde_json::json;

use crate::{Error, ErrorKind};

/// Values of the `Mcp-Param-*` headers of a call.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
/// use wharf::model::HeaderParams;
///
/// let mirrored: HeaderParams = [("region".to_owned(), Some("us-west1".to_owned()))].into_iter().collect();
/// assert_eq!(mirrored.of("Region").collect::<Vec<_>>(), [Some("us-west1")]);
/// assert_eq!(mirrored.of("tenant").count(), 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderParams(Box<[(String, Option<String>)]>);

impl HeaderParams {
    /// Returns all values of the header `name`, ignoring case: the text, or `None` if malformed.
    pub fn of(&self, name: &str) -> impl Iterator<Item = Option<&str>> {
        let named = self.0.iter().filter(move |(other, _)| other.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_deref())
    }

    /// Returns all names with their values: the text, or `None` if malformed.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.0.iter().map(|(name, value)| (&**name, value.as_deref()))
    }
}

impl FromIterator<(String, Option<String>)> for HeaderParams {
    fn from_iter<I: IntoIterator<Item = (String, Option<String>)>>(pairs: I) -> Self {
        HeaderParams(pairs.into_iter().collect())
    }
}

impl Error {
    /// Error for a header that does not match the message.
    ///
    /// ```
    /// # mod wharf { pub use wharf_model::*; }
    /// let error = wharf::Error::header_mismatch("Mcp-Name", "is missing");
    /// assert_eq!(error.message, "Header mismatch: `Mcp-Name` is missing");
    /// ```
    #[must_use]
    pub fn header_mismatch(header: &str, problem: &str) -> Error {
        Error::new(ErrorKind::HeaderMismatch)
            .with_message(format!("Header mismatch: `{header}` {problem}"))
            .with_data(json!({"header": header}))
    }
}
