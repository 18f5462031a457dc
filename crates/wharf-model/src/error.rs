//! Error type and the table of error kinds.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::ClientCapability;

/// The same request may succeed later.
const RETRY: u8 = 1;
/// The caller has to change the request.
const CALLER: u8 = 2;
/// Within a tool it is an `isError` result in every revision.
const TOOL: u8 = 4;

struct KindRow {
    guard: &'static str,
    message: &'static str,
    code: Option<i32>,
    flags: u8,
}

macro_rules! kinds {
    ($($variant:ident $guard:ident $message:literal $code:tt [$($flag:ident)*];)*) => {
        /// Kind of an error. For its numbers see [`ErrorKind::registry_code`].
        ///
        /// ```
        /// # mod wharf { pub use wharf_model::*; }
        /// use wharf::ErrorKind;
        ///
        /// let kind = ErrorKind::ResourceNotFound;
        /// assert!(kind.is_resource_not_found() && kind.is_caller_fault());
        /// assert_eq!(ErrorKind::from_name(kind.name()), Some(kind));
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorKind {
            $(#[doc = $message] $variant,)*
        }

        static ROWS: &[KindRow] = &[
            $(KindRow { guard: stringify!($guard), message: $message, code: kinds!(@code $code), flags: 0 $(| $flag)* },)*
        ];

        impl ErrorKind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            $(
                #[doc = concat!("Returns whether this is [`ErrorKind::", stringify!($variant), "`].")]
                pub const fn $guard(self) -> bool {
                    matches!(self, Self::$variant)
                }
            )*
        }
    };
    (@code -) => { None };
    (@code ($code:literal)) => { Some($code) };
}

kinds! {
    ParseError is_parse_error "Parse error" (-32700) [CALLER];
    InvalidRequest is_invalid_request "Invalid request" (-32600) [CALLER];
    MethodNotFound is_method_not_found "Method not found" (-32601) [CALLER];
    InvalidParams is_invalid_params "Invalid params" (-32602) [CALLER];
    InternalError is_internal_error "Internal error" (-32603) [];
    RequestCancelled is_request_cancelled "Request cancelled" (-32800) [];
    ContentTooLarge is_content_too_large "Content too large" (-32801) [CALLER];
    ConnectionClosed is_connection_closed "Connection closed" (-32000) [RETRY];

    ResourceNotFound is_resource_not_found "Resource not found" (-32001) [CALLER];
    ToolNotFound is_tool_not_found "Unknown tool" (-32002) [CALLER];
    PromptNotFound is_prompt_not_found "Invalid prompt name" (-32003) [CALLER];
    CapabilityNotSupported is_capability_not_supported "Capability not supported" (-32004) [CALLER];
    NotInitialized is_not_initialized "Not initialized" (-32005) [CALLER];
    SubscriptionFailed is_subscription_failed "Subscription failed" (-32006) [RETRY TOOL];
    ValidationFailed is_validation_failed "Validation failed" (-32007) [CALLER TOOL];
    TransportError is_transport_error "Transport error" (-32008) [RETRY TOOL];
    RequestTimeout is_request_timeout "Request timed out" (-32009) [RETRY];
    RateLimited is_rate_limited "Rate limited" (-32010) [RETRY];

    ToolDescriptionTooLong is_tool_description_too_long "Tool description too long" (-32011) [CALLER TOOL];
    MessageTooLarge is_message_too_large "Message too large" (-32012) [CALLER TOOL];
    InvalidContentType is_invalid_content_type "Invalid content type" (-32013) [CALLER TOOL];
    ContentTooLargeItem is_content_too_large_item "Content item too large" (-32014) [CALLER TOOL];
    InvalidEncoding is_invalid_encoding "Invalid encoding" (-32015) [CALLER TOOL];
    BinaryTooLarge is_binary_too_large "Binary content too large" (-32016) [CALLER TOOL];
    TextTooLong is_text_too_long "Text too long" (-32017) [CALLER TOOL];
    InvalidMimeType is_invalid_mime_type "Invalid MIME type" (-32018) [CALLER TOOL];
    UnsupportedMediaType is_unsupported_media_type "Unsupported media type" (-32019) [CALLER TOOL];
    MediaTypeNotAcceptable is_media_type_not_acceptable "Media type not acceptable" (-32020) [CALLER TOOL];

    TemplateNotFound is_template_not_found "Resource template not found" (-32021) [CALLER TOOL];
    InvalidUri is_invalid_uri "Invalid URI" (-32022) [CALLER TOOL];
    UriSyntax is_uri_syntax "URI syntax error" (-32023) [CALLER TOOL];
    UriTooLong is_uri_too_long "URI too long" (-32024) [CALLER TOOL];
    ResourceAccessDenied is_resource_access_denied "Resource access denied" (-32025) [CALLER TOOL];
    ResourceExists is_resource_exists "Resource already exists" (-32026) [CALLER TOOL];
    ResourceLocked is_resource_locked "Resource locked" (-32027) [RETRY TOOL];
    ResourceVersionMismatch is_resource_version_mismatch "Resource version mismatch" (-32028) [CALLER TOOL];
    TemplateExpansionFailed is_template_expansion_failed "Template expansion failed" (-32029) [CALLER TOOL];
    InvalidTemplate is_invalid_template "Invalid resource template" (-32030) [CALLER TOOL];

    ToolExecutionFailed is_tool_execution_failed "Tool execution failed" (-32031) [TOOL];
    ToolTimeout is_tool_timeout "Tool timed out" (-32032) [RETRY TOOL];
    ToolCancelled is_tool_cancelled "Tool cancelled" (-32033) [TOOL];
    InvalidToolArguments is_invalid_tool_arguments "Invalid tool arguments" (-32034) [CALLER];
    ToolDisabled is_tool_disabled "Tool disabled" (-32035) [CALLER TOOL];
    ToolResultTooLarge is_tool_result_too_large "Tool result too large" (-32036) [TOOL];
    ToolNotAllowed is_tool_not_allowed "Tool not allowed" (-32037) [CALLER TOOL];
    TooManyConcurrentTools is_too_many_concurrent_tools "Too many concurrent tools" (-32038) [RETRY TOOL];
    ToolDependencyFailed is_tool_dependency_failed "Tool dependency failed" (-32039) [RETRY TOOL];
    ToolSchemaInvalid is_tool_schema_invalid "Tool schema invalid" (-32040) [TOOL];
    ToolPanicked is_tool_panicked "Tool failed unexpectedly" - [TOOL];
    OutputSchemaMismatch is_output_schema_mismatch "Tool output does not match its schema" - [TOOL];

    UrlElicitationRequired is_url_elicitation_required "URL elicitation required" (-32042) [CALLER];
    PromptArgumentMissing is_prompt_argument_missing "Missing required prompt argument" (-32043) [CALLER];
    PromptRenderFailed is_prompt_render_failed "Prompt rendering failed" (-32044) [TOOL];
    InvalidPromptArguments is_invalid_prompt_arguments "Invalid prompt arguments" (-32045) [CALLER TOOL];
    SamplingFailed is_sampling_failed "Sampling failed" (-32046) [TOOL];
    SamplingTimeout is_sampling_timeout "Sampling timed out" (-32047) [RETRY TOOL];
    InvalidModelPreferences is_invalid_model_preferences "Invalid model preferences" (-32048) [CALLER TOOL];
    ModelUnavailable is_model_unavailable "Model unavailable" (-32049) [RETRY TOOL];
    SamplingRateLimited is_sampling_rate_limited "Sampling rate limited" (-32050) [RETRY TOOL];

    AuthenticationFailed is_authentication_failed "Authentication failed" (-32051) [CALLER TOOL];
    AuthorizationFailed is_authorization_failed "Authorization failed" (-32052) [CALLER TOOL];
    InvalidCredentials is_invalid_credentials "Invalid credentials" (-32053) [CALLER TOOL];
    TokenExpired is_token_expired "Token expired" (-32054) [CALLER TOOL];
    InsufficientPermissions is_insufficient_permissions "Insufficient permissions" (-32055) [CALLER TOOL];
    AccessDenied is_access_denied "Access denied" (-32056) [CALLER TOOL];
    SessionExpired is_session_expired "Session expired" (-32057) [CALLER];
    SessionNotFound is_session_not_found "Session not found" (-32058) [CALLER];
    InvalidToken is_invalid_token "Invalid token" (-32059) [CALLER TOOL];
    UnauthorizedOperation is_unauthorized_operation "Unauthorized operation" (-32060) [CALLER TOOL];
    Unauthenticated is_unauthenticated "Authentication required" - [CALLER];
    Forbidden is_forbidden "Forbidden" - [CALLER];
    InsufficientScope is_insufficient_scope "Insufficient scope" - [CALLER];

    InvalidCursor is_invalid_cursor "Invalid cursor" (-32071) [CALLER];
    CursorExpired is_cursor_expired "Cursor expired" (-32072) [CALLER TOOL];
    PaginationNotSupported is_pagination_not_supported "Pagination not supported" (-32073) [CALLER TOOL];
    PageTooLarge is_page_too_large "Page too large" (-32074) [CALLER TOOL];
    InvalidPageSize is_invalid_page_size "Invalid page size" (-32075) [CALLER TOOL];
    InvalidOffset is_invalid_offset "Invalid offset" (-32076) [CALLER TOOL];

    TaskNotFound is_task_not_found "Task not found" (-32081) [CALLER];
    TaskExists is_task_exists "Task already exists" (-32082) [CALLER];
    TaskFailed is_task_failed "Task failed" (-32083) [];
    TaskCancelled is_task_cancelled "Task cancelled" (-32084) [];
    TaskTimeout is_task_timeout "Task timed out" (-32085) [RETRY];
    TaskStateInvalid is_task_state_invalid "Invalid task state" (-32086) [CALLER];
    TooManyTasks is_too_many_tasks "Too many tasks" (-32087) [RETRY];
    TaskDependencyFailed is_task_dependency_failed "Task dependency failed" (-32088) [RETRY];
    TaskResultNotReady is_task_result_not_ready "Task result not ready" (-32089) [RETRY];
    TaskRequired is_task_required "This tool runs only as a task" - [CALLER];
    TaskForbidden is_task_forbidden "This tool does not run as a task" - [CALLER];
    TaskAlreadyCompleted is_task_already_completed "Task already completed" (-32090) [CALLER];

    InvalidProgressToken is_invalid_progress_token "Invalid progress token" (-32091) [CALLER TOOL];
    ProgressTokenExpired is_progress_token_expired "Progress token expired" (-32092) [CALLER TOOL];
    ProgressUpdateFailed is_progress_update_failed "Progress update failed" (-32093) [TOOL];
    NotificationFailed is_notification_failed "Notification failed" (-32094) [TOOL];
    NotificationQueueFull is_notification_queue_full "Notification queue full" (-32095) [RETRY TOOL];
    InvalidNotification is_invalid_notification "Invalid notification" (-32096) [CALLER TOOL];
    NotificationNotDelivered is_notification_not_delivered "Notification not delivered" (-32097) [RETRY TOOL];

    CompletionNotFound is_completion_not_found "Completion not found" (-32110) [CALLER TOOL];
    InvalidCompletionReference is_invalid_completion_reference "Invalid completion reference" (-32111) [CALLER TOOL];
    InvalidCompletionArgument is_invalid_completion_argument "Invalid completion argument" (-32112) [CALLER TOOL];
    CompletionFailed is_completion_failed "Completion failed" (-32113) [TOOL];

    InvalidRequestState is_invalid_request_state "Invalid or expired requestState" - [CALLER];
    HeaderMismatch is_header_mismatch "Header mismatch" - [CALLER];
    MissingClientCapability is_missing_client_capability "Missing required client capability" - [CALLER];
    UnsupportedProtocolVersion is_unsupported_protocol_version "Unsupported protocol version" - [CALLER];
    Overloaded is_overloaded "Server overloaded" - [RETRY];

    RefusedPolicy is_refused_policy "Refused by policy" (1001) [CALLER];
    RefusedSafety is_refused_safety "Refused for safety" (1002) [CALLER];
    RefusedRateLimited is_refused_rate_limited "Refused: rate limited" (1003) [RETRY];
    RefusedResourceConstraints is_refused_resource_constraints "Refused: resource constraints" (1004) [RETRY];
    RefusedPermissionDenied is_refused_permission_denied "Refused: permission denied" (1005) [CALLER];
    RefusedInvalidInput is_refused_invalid_input "Refused: invalid input" (1006) [CALLER];
    RefusedUnsupportedOperation is_refused_unsupported_operation "Refused: unsupported operation" (1007) [CALLER];
    TemporarilyUnavailable is_temporarily_unavailable "Temporarily unavailable" (1008) [RETRY];
    RefusedDependencyFailed is_refused_dependency_failed "Refused: dependency failed" (1009) [RETRY];
    RefusedCustom is_refused_custom "Refused" (1010) [];
}

impl ErrorKind {
    fn row(self) -> &'static KindRow {
        &ROWS[self as usize]
    }

    /// Returns the stable name, such as `tool_not_found`.
    pub fn name(self) -> &'static str {
        &self.row().guard["is_".len()..]
    }

    /// Returns the kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// Returns the default message.
    pub fn message(self) -> &'static str {
        self.row().message
    }

    /// Returns the code in Wharf's registry. Most peers receive another one, which their protocol revision
    /// defines.
    pub fn registry_code(self) -> Option<i32> {
        self.row().code
    }

    /// Returns whether the same request may succeed later.
    pub fn is_retryable(self) -> bool {
        self.row().flags & RETRY != 0
    }

    /// Returns whether the caller has to change the request.
    pub fn is_caller_fault(self) -> bool {
        self.row().flags & CALLER != 0
    }

    /// Returns whether a tool that fails with this kind returns an `isError` result in every revision, instead
    /// of a protocol error.
    pub fn is_tool_result(self) -> bool {
        self.row().flags & TOOL != 0
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns whether JSON-RPC itself defines this code.
pub const fn is_standard_code(code: i32) -> bool {
    matches!(code, -32700 | -32603..=-32600)
}

/// Returns whether JSON-RPC reserves this code for servers.
pub const fn is_server_code(code: i32) -> bool {
    matches!(code, -32099..=-32000)
}

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
        self.source = Some(Arc::new(InternalSource(source.into())));
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
        self.source.as_deref().map(|source| source as _)
    }
}

/// Source of an [`Error`]. A type of its own, so that a text for a client stops before it, also where an error of
/// the application delegates its source to an [`Error`].
#[doc(hidden)]
#[derive(Debug)]
pub struct InternalSource(Box<dyn std::error::Error + Send + Sync>);

impl fmt::Display for InternalSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for InternalSource {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
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
    use std::collections::HashSet;

    #[test]
    fn names_and_codes_are_unique() {
        let names: HashSet<_> = ErrorKind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), ErrorKind::ALL.len());
        let codes: Vec<_> = ErrorKind::ALL.iter().filter_map(|kind| kind.registry_code()).collect();
        assert_eq!(codes.iter().collect::<HashSet<_>>().len(), codes.len());
        for &kind in ErrorKind::ALL {
            assert_eq!(ErrorKind::from_name(kind.name()), Some(kind));
            assert!(!(kind.is_caller_fault() && kind.is_retryable()), "{kind}");
            // The name is the variant in snake case.
            assert_eq!(kind.name().replace('_', ""), format!("{kind:?}").to_lowercase());
        }
        assert_eq!(ErrorKind::from_name("nonsense"), None);
        assert_eq!(ErrorKind::ToolTimeout.registry_code(), Some(-32032));
    }

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
        assert!(is_standard_code(-32602) && !is_standard_code(-32000) && is_server_code(-32042));
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
