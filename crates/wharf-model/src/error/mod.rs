//! Errors: [`Error`], which is sent to the peer, its kinds, and the errors of a client.

mod call_error;
mod connect_error;
mod failure_origin;
mod kind;
mod registry;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

pub use self::call_error::{CallError, TimeoutKind};
pub use self::connect_error::ConnectError;
pub use self::failure_origin::FailureOrigin;
pub use self::kind::*;
pub use self::registry::RegisteredError;
use crate::ClientCapability;

/// Truncates text of a peer for use in an error message.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// assert_eq!(wharf::excerpt("short"), "short");
/// assert_eq!(wharf::excerpt(&"x".repeat(1000)).chars().count(), 129);
/// ```
#[must_use]
pub fn excerpt(text: &str) -> Cow<'_, str> {
    const MOST: usize = 128;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// Error that is reported to the peer. A handler returns it if the protocol has an error for the
/// case; a tool that fails in a way that the model can correct returns a `ToolError` instead.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// use wharf::{Error, ErrorKind};
///
/// fn unlock(key: &str) -> Result<&'static str, Error> {
///     match key {
///         "open sesame" => Ok("Open."),
///         _ => Err(Error::new(ErrorKind::Forbidden).with_message("Wrong key")),
///     }
/// }
/// assert_eq!(unlock("please").unwrap_err().message, "Wrong key");
/// ```
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// use wharf::{Error, ErrorKind};
///
/// let error = Error::resource_not_found("file:///gone");
/// assert_eq!(error.kind, ErrorKind::ResourceNotFound);
/// assert_eq!(error.to_string(), "Resource not found: file:///gone");
/// ```
///
/// `?` converts an I/O error and an error of `serde_json` into an internal error: what a handler
/// cannot read or parse on its own is never its caller's fault. The converted error is the
/// [`source`](std::error::Error::source), which the server logs and never sends.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// use std::error::Error as _;
/// use wharf::{Error, ErrorKind};
///
/// fn port(config: &str) -> Result<u16, Error> {
///     Ok(serde_json::from_str(config)?)
/// }
/// let error = port("\"secret\"").unwrap_err();
/// assert_eq!(error.kind, ErrorKind::InternalError);
/// assert_eq!(error.to_string(), "Internal error");
/// assert!(error.source().is_some());
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Error {
    /// Error kind.
    pub kind: ErrorKind,
    /// Human-readable message.
    pub message: Cow<'static, str>,
    /// Machine-readable details.
    pub data: Option<Box<Value>>,
    /// JSON-RPC code, if there is one beside the kind: the code that a peer sent with this error, or one that
    /// the server defined ([`Error::custom`]). None for local failures, such as a timeout.
    pub code: Option<i32>,
    source: Option<Arc<InternalSource>>,
}

/// Compares what is sent: the source is ignored.
impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, self.code) == (other.kind, other.code)
            && self.message == other.message
            && self.data == other.data
    }
}

impl Error {
    /// Creates an error with the default message of its kind.
    pub fn new(kind: ErrorKind) -> Self {
        Self { kind, message: Cow::Borrowed(kind.message()), data: None, code: None, source: None }
    }

    /// Sets the message.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<Cow<'static, str>>) -> Self {
        self.message = message.into();
        self
    }

    /// Sets the details.
    #[must_use]
    pub fn with_data(mut self, data: impl Into<Value>) -> Self {
        self.data = Some(Box::new(data.into()));
        self
    }

    /// Creates an error with a custom code. Codes that JSON-RPC reserves (-32768 to -32000) are not allowed:
    /// they become an internal error.
    pub fn custom(code: i32, message: impl Into<Cow<'static, str>>) -> Self {
        if (-32768..=-32000).contains(&code) {
            return Self::new(ErrorKind::InternalError).with_message(message);
        }
        Self { code: Some(code), ..Self::new(ErrorKind::RefusedCustom).with_message(message) }
    }

    /// Creates an internal error with this source: an error, or a text. The source is logged where the
    /// call ends, and never sent.
    ///
    /// ```
    /// # mod wharf { pub use wharf_model::*; }
    /// use wharf::Error;
    ///
    /// fn port() -> Result<u16, Error> {
    ///     "x".parse().map_err(Error::internal)
    /// }
    /// assert_eq!(port().unwrap_err().to_string(), "Internal error");
    /// ```
    pub fn internal(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::new(ErrorKind::InternalError).with_source(source)
    }

    /// Sets the source: the error that caused this one. It is never sent.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        let (origin, error) = (self.origin(), Some(Arc::from(source.into())));
        self.source = Some(Arc::new(InternalSource { origin, error }));
        self
    }

    /// Error for parameters that the caller has to change; it receives `problem`.
    ///
    /// ```
    /// # mod wharf { pub use wharf_model::*; }
    /// use wharf::Error;
    ///
    /// fn limit(argument: &str) -> Result<u8, Error> {
    ///     argument.parse().map_err(Error::invalid_params)
    /// }
    /// assert_eq!(limit("x").unwrap_err().to_string(), "invalid digit found in string");
    /// ```
    pub fn invalid_params(problem: impl fmt::Display) -> Self {
        Self::new(ErrorKind::InvalidParams).with_message(problem.to_string())
    }

    /// Error for an unknown tool.
    pub fn tool_not_found(name: &str) -> Self {
        Self::new(ErrorKind::ToolNotFound).with_message(format!("Unknown tool: {}", excerpt(name)))
    }

    /// Error for an unknown prompt.
    pub fn prompt_not_found(name: &str) -> Self {
        let message = format!("Invalid prompt name: {}", excerpt(name));
        Self::new(ErrorKind::PromptNotFound).with_message(message)
    }

    /// Error for an unknown resource.
    pub fn resource_not_found(uri: &str) -> Self {
        let error = Self::new(ErrorKind::ResourceNotFound).with_data(json!({"uri": uri}));
        error.with_message(format!("Resource not found: {uri}"))
    }

    /// Error for an unknown method.
    pub fn method_not_found(method: &str) -> Self {
        let error = Self::new(ErrorKind::MethodNotFound).with_data(json!({"method": method}));
        error.with_message(format!("Method not found: {method}"))
    }

    /// Error for a client capability that the request requires.
    pub fn missing_capability(wanted: ClientCapability) -> Self {
        let kind = ErrorKind::MissingClientCapability;
        let wanted = wanted.required();
        Self::new(kind)
            .with_message(format!("{}: {wanted}", kind.message()))
            .with_data(json!({"requiredCapabilities": wanted}))
    }

    /// Error for a caller that lacks some of these required scopes.
    pub fn insufficient_scope(needed: impl IntoIterator<Item: Into<String>>) -> Self {
        let needed: Vec<String> = needed.into_iter().map(Into::into).collect();
        Self::new(ErrorKind::InsufficientScope)
            .with_message(format!("Insufficient scope: this needs {}", needed.join(" ")))
            .with_data(json!({"requiredScopes": needed}))
    }

    /// Returns the scopes of an [`Error::insufficient_scope`].
    pub fn required_scopes(&self) -> Vec<&str> {
        let scopes = self.data.as_deref().and_then(|data| data.get("requiredScopes")?.as_array());
        scopes.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// Error for a caller that exceeds its rate limit.
    pub fn rate_limited(retry_after: Duration) -> Self {
        Self::new(ErrorKind::RateLimited).retry_after(retry_after)
    }

    /// Error for an overloaded server.
    pub fn overloaded(retry_after: Duration) -> Self {
        Self::new(ErrorKind::Overloaded).retry_after(retry_after)
    }

    /// Error for a prompt request without these required arguments.
    pub fn prompt_argument_missing(names: impl IntoIterator<Item: Into<String>>) -> Self {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let message = format!("Missing required prompt argument: {}", names.join(", "));
        Self::new(ErrorKind::PromptArgumentMissing).with_message(message).with_data(names)
    }

    fn retry_after(self, wait: Duration) -> Self {
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        self.with_data(json!({"retryAfterMs": millis}))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref()?.error.as_deref().map(|error| error as _)
    }
}

/// Error that caused another one, shared by the clones of that one.
pub(crate) type SharedSource = Arc<dyn std::error::Error + Send + Sync>;

/// Source of an [`Error`], and its origin.
#[derive(Debug)]
struct InternalSource {
    /// Set if a part of this client made the error, and no server.
    origin: Option<FailureOrigin>,
    error: Option<SharedSource>,
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self::new(kind)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::internal(error)
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::internal(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads() {
        let data = |error: Error| *error.data.unwrap();
        assert_eq!(Error::tool_not_found("x").message, "Unknown tool: x");
        assert_eq!(Error::prompt_not_found("x").message, "Invalid prompt name: x");
        assert_eq!(data(Error::resource_not_found("a:b")), json!({"uri": "a:b"}));
        assert_eq!(data(Error::method_not_found("m")), json!({"method": "m"}));
        assert_eq!(data(Error::overloaded(Duration::from_secs(2))), json!({"retryAfterMs": 2000}));
        assert_eq!(data(Error::prompt_argument_missing(["a", "b"])), json!(["a", "b"]));
        let missing = Error::missing_capability(ClientCapability::Elicitation);
        assert_eq!(data(missing), json!({"requiredCapabilities": {"elicitation": {}}}));
    }

    #[test]
    fn codes_and_conversions() {
        assert_eq!(Error::custom(42, "x").code, Some(42));
        assert_eq!(Error::custom(-32001, "x").code, None);
        assert!(Error::custom(-32768, "x").kind.is_internal_error());
        let secret = Error::from(std::io::Error::other("/etc/secret"));
        assert_eq!(secret, Error::new(ErrorKind::InternalError));
        let bad = serde_json::from_str::<u8>("\"x\"").unwrap_err();
        let text = bad.to_string();
        let internal = Error::from(bad);
        assert_eq!(internal, Error::new(ErrorKind::InternalError));
        let source = std::error::Error::source(&internal).unwrap();
        assert_eq!(source.to_string(), text);
    }
}
