//! [`ErrorKind`]: the table of error kinds.

use std::fmt;

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
    ValidationFailed is_validation_failed "Validation failed" (-32007) [CALLER TOOL];
    TransportError is_transport_error "Transport error" (-32008) [RETRY TOOL];
    RequestTimeout is_request_timeout "Request timed out" (-32009) [RETRY];
    RateLimited is_rate_limited "Rate limited" (-32010) [RETRY];

    UriTooLong is_uri_too_long "URI too long" (-32024) [CALLER TOOL];
    ResourceAccessDenied is_resource_access_denied "Resource access denied" (-32025) [CALLER TOOL];

    ToolExecutionFailed is_tool_execution_failed "Tool execution failed" (-32031) [TOOL];
    ToolTimeout is_tool_timeout "Tool timed out" (-32032) [RETRY TOOL];
    ToolCancelled is_tool_cancelled "Tool cancelled" (-32033) [TOOL];
    InvalidToolArguments is_invalid_tool_arguments "Invalid tool arguments" (-32034) [CALLER];
    ToolSchemaInvalid is_tool_schema_invalid "Tool schema invalid" (-32040) [TOOL];
    ToolPanicked is_tool_panicked "Tool failed unexpectedly" - [TOOL];
    OutputSchemaMismatch is_output_schema_mismatch "Tool output does not match its schema" - [TOOL];

    UrlElicitationRequired is_url_elicitation_required "URL elicitation required" (-32042) [CALLER];
    PromptArgumentMissing is_prompt_argument_missing "Missing required prompt argument" (-32043) [CALLER];
    InvalidPromptArguments is_invalid_prompt_arguments "Invalid prompt arguments" (-32045) [CALLER TOOL];

    AuthenticationFailed is_authentication_failed "Authentication failed" (-32051) [CALLER TOOL];
    AuthorizationFailed is_authorization_failed "Authorization failed" (-32052) [CALLER TOOL];
    InvalidCredentials is_invalid_credentials "Invalid credentials" (-32053) [CALLER TOOL];
    AccessDenied is_access_denied "Access denied" (-32056) [CALLER TOOL];
    Unauthenticated is_unauthenticated "Authentication required" - [CALLER];
    Forbidden is_forbidden "Forbidden" - [CALLER];
    InsufficientScope is_insufficient_scope "Insufficient scope" - [CALLER];

    InvalidCursor is_invalid_cursor "Invalid cursor" (-32071) [CALLER];

    TaskNotFound is_task_not_found "Task not found" (-32081) [CALLER];
    TaskFailed is_task_failed "Task failed" (-32083) [];
    TaskCancelled is_task_cancelled "Task cancelled" (-32084) [];
    TaskStateInvalid is_task_state_invalid "Invalid task state" (-32086) [CALLER];
    TooManyTasks is_too_many_tasks "Too many tasks" (-32087) [RETRY];
    TaskRequired is_task_required "This tool runs only as a task" - [CALLER];
    TaskForbidden is_task_forbidden "This tool does not run as a task" - [CALLER];
    TaskAlreadyCompleted is_task_already_completed "Task already completed" (-32090) [CALLER];

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
}
